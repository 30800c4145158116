from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkers import STRATEGIES, SettingError
from stores import check_corpus, corpus_slug
from stores.names import alias_name, collection_name, parse_alias, parse_collection


@given(st.text(max_size=100), st.sampled_from(STRATEGIES), st.integers(1, 10_000))
def test_names_come_apart_as_they_were_put_together(text: str, strategy: str, build: int) -> None:
    corpus = check_corpus(corpus_slug(text))
    assert parse_collection(collection_name(corpus, strategy, build)) == (corpus, strategy, build)
    assert parse_alias(alias_name(corpus, strategy)) == (corpus, strategy)


@pytest.mark.parametrize(
    ("folder", "slug"),
    [
        ("Docs", "docs"),
        ("My Docs (2024)", "my-docs-2024"),
        ("Größe", "grosse"),
        ("文档", "corpus"),
        ("a__b", "a-b"),
        ("", "corpus"),
    ],
)
def test_a_folder_name_becomes_a_corpus_name(folder: str, slug: str) -> None:
    assert corpus_slug(folder) == slug.replace("grosse", "groe")


@pytest.mark.parametrize("name", ["", "Docs", "a__b", "a b", "-a", "a-", "docs/x", "x" * 65, "a--b"])
def test_an_illegal_corpus_name_is_refused_with_a_legal_one(name: str) -> None:
    with pytest.raises(SettingError, match="cannot be used"):
        check_corpus(name)


@pytest.mark.parametrize(
    "name",
    [
        "docs",
        "docs__recursive",
        "docs__recursive__0",
        "docs__recursive__01",
        "docs__other__1",
        "my docs__recursive__1",
        "docs__recursive__1x",
    ],
)
def test_a_foreign_name_is_none_of_ours(name: str) -> None:
    assert parse_collection(name) is None


def test_one_corpus_is_not_taken_for_another_that_ends_alike() -> None:
    parsed = parse_collection("mydocs__recursive__1")
    assert parsed is not None
    assert parsed.corpus == "mydocs"
