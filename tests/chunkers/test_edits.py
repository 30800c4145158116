"""An edit of a long document costs few texts: those of the chunks that it touches, and of some that follow."""

from __future__ import annotations

import random
from statistics import median

import pytest

from tests.benchmarks.edits import Long, document_of, edited
from tests.doubles import HashEmbedder


def paragraphs(count: int) -> list[str]:
    rng = random.Random(1)

    def sentence() -> str:
        return " ".join(f"word{rng.randrange(1000)}" for _ in range(rng.randint(4, 20))).capitalize() + "."

    return [" ".join(sentence() for _ in range(rng.randint(1, 8))) for _ in range(count)]


@pytest.mark.parametrize("strategy", ["recursive", "sentence", "semantic_parent_child"])
def test_an_edit_of_a_long_document_embeds_few_texts(strategy: str) -> None:
    text = paragraphs(150)
    long = Long(strategy, document_of(text), HashEmbedder())
    assert long.first.chunks > 40
    rng = random.Random(1)
    found = [long.cost(document_of(edited(text, rng))) for _ in range(21)]
    assert median(cost.chunks + cost.units for cost in found) <= 4
