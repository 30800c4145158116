from __future__ import annotations

import json

import pytest

from stores import Recipe
from tests.stores.conftest import recipe


def test_a_recipe_comes_back_from_metadata() -> None:
    stored = json.loads(json.dumps(recipe(context_model="outline", context_prompt="1").as_metadata()))
    assert (
        Recipe.from_metadata(stored).fingerprint() == recipe(context_model="outline", context_prompt="1").fingerprint()
    )


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"parameters": {"chunk_size": 256}}, ["chunk_size: 512 stored, 256 asked"]),
        ({"embedding_model": "other"}, ["embedding_model: hash stored, other asked"]),
        ({"dimensions": 16}, ["dimensions: 8 stored, 16 asked"]),
        ({"context_model": "gpt"}, ["context_model: None stored, gpt asked"]),
        ({"context_prompt": "2"}, ["context_prompt: None stored, 2 asked"]),
        ({"sparse": {**recipe().sparse, "b": 0.5}}, ["sparse b: 0.75 stored, 0.5 asked"]),
        ({"sparse": {}}, ["sparse model: bm25 stored, None asked"]),
        ({"schema_version": 99}, ["schema_version: 3 stored, 99 asked"]),
    ],
)
def test_whatever_changes_vectors_changes_the_fingerprint_and_is_named(
    change: dict[str, object], told: list[str]
) -> None:
    assert recipe().fingerprint() != recipe(**change).fingerprint()
    assert recipe().differences(recipe(**change)) == told


def test_the_order_of_parameters_does_not_matter() -> None:
    one, other = recipe(parameters={"a": 1, "b": 2}), recipe(parameters={"b": 2, "a": 1})
    assert one.fingerprint() == other.fingerprint()
    assert one.differences(other) == []
