"""The embedding model's input limit: a context gives way where it would make a text too long, the text never does."""

from __future__ import annotations

import pytest

from chunkers import Document, build_chunker
from chunkers.models.base import Context
from tests.doubles import HashEmbedder


class Limited(HashEmbedder):
    """Counts characters, and takes `max_input_tokens` of them."""

    def __init__(self, longest: int) -> None:
        super().__init__()
        self.max_input_tokens = longest


class OneContext:
    """A context writer that always says the same."""

    name = "one"
    prompt_version = "1"

    def __init__(self, text: str) -> None:
        self._text = text

    def write(self, requests: list[object]) -> list[Context]:
        return [Context(self._text, "one")] * len(requests)


TEXT = "Alpha beta gamma."
CONTEXT = "This part is about letters of Greek."


def context(longest: int) -> str | None:
    embedder = Limited(longest)
    chunker = build_chunker("contextual_retrieval", embedder=embedder, context_writer=OneContext(CONTEXT))
    (chunked,) = chunker.chunk([Document(text=TEXT)])
    (only,) = chunked.chunks
    assert only.text == TEXT
    assert embedder.count_tokens(only.embedding_text) <= longest
    assert only.context_source == ("one" if only.context else None)
    return only.context


def test_a_context_that_fits_beside_its_text_is_left_alone() -> None:
    assert context(len(TEXT) + 2 + len(CONTEXT)) == CONTEXT


def test_a_context_is_shortened_at_a_word_to_what_is_left_beside_its_text() -> None:
    assert context(len(TEXT) + 2 + len(CONTEXT) - 1) == "This part is about letters of…"
    assert context(len(TEXT) + 2 + 12) == "This part…"


@pytest.mark.parametrize("left", [-2, -1, 0, 1])
def test_a_context_is_left_out_where_nothing_is_left_for_it(left: int) -> None:
    assert context(len(TEXT) + 2 + left) is None


def test_table_headers_keep_within_the_limit_too() -> None:
    table = "| name | value |\n|---|---|\n" + "| some | thing |\n" * 20
    chunker = build_chunker("recursive", embedder=Limited(90), chunk_size=30, recursive_chunk_chars=80)
    (chunked,) = chunker.chunk([Document(text=table)])
    assert all(len(c.embedding_text) <= 90 for c in chunked.chunks)
    assert [c.context for c in chunked.chunks[:2]] == [None, "| name | value…"]


def test_parameters_do_not_depend_on_the_limit() -> None:
    with_limit = build_chunker("fixed_size", embedder=Limited(100), chunk_size=20)
    assert with_limit.strategy == "fixed_size"
    assert with_limit.parameters == build_chunker("fixed_size", chunk_size=20).parameters
