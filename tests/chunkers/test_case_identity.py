"""Blank chunks, ids, neighbours and contexts: what belongs to a chunk, and what never crosses from one to another."""

from __future__ import annotations

import uuid

import pytest

from chunkers import STRATEGIES, Document, build_chunker, chunk, ids
from chunkers.encoding import count_tokens
from chunkers.models.outline import OutlineWriter
from chunkers.models.prompt import user_prompt
from tests.chunkers.cases import STRUCTURED, WINDOWS, chunks_of, places_of, settings
from tests.chunkers.conftest import EchoWriter
from tests.doubles import HashEmbedder

PARAGRAPH = "word" + " word" * 15
WHITE = [" " * 200, "\n" * 50, "\n\n", " \t\r\n" * 30, "\u00a0" * 60, "\u3000\n" * 20, "\u2028" * 20]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("white", WHITE)
@pytest.mark.parametrize("size", [16, 17, 512])
def test_white_space_behind_a_text_is_no_chunk(strategy: str, white: str, size: int) -> None:
    assert count_tokens(PARAGRAPH) == 16
    assert places_of(PARAGRAPH + white, strategy, size) == [(0, PARAGRAPH)]


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("white", WHITE)
def test_white_space_between_paragraphs_at_the_cap_is_no_chunk(strategy: str, white: str) -> None:
    text = f"{PARAGRAPH}{white}\n\n{PARAGRAPH}"
    assert places_of(text, strategy, 16) == [(0, PARAGRAPH), (len(text) - len(PARAGRAPH), PARAGRAPH)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_equal_chunks_on_one_line_have_ids_of_their_own(strategy: str) -> None:
    chunks = chunks_of("ab ab ab ab", strategy, 1)
    assert len(chunks) == len({c.id for c in chunks}) == 4


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_equal_first_chunks_of_two_documents_have_ids_of_their_own(strategy: str) -> None:
    first, second = (
        chunks_of(Document(uri=uri, text=f"Same beginning here.\n\nThen {uri}."), strategy, 5) for uri in ("a", "b")
    )
    assert first[0].text == second[0].text
    assert first[0].id != second[0].id


def test_ids_are_the_same_for_ever() -> None:
    document = ids.document_id("corpus", "folder/grün.md")
    assert document == "eb54d501-48b1-5e3d-be66-60c0637cf1d3"
    assert ids.chunk_id(document, "text", 0) == "ac5b7022-f673-5898-9577-165ff233812c"
    assert ids.parent_id(document, "text", 1) == "bade0def-8bdb-58f0-9d8c-badb4055dc58"


def test_parts_of_a_name_are_kept_apart_in_an_id() -> None:
    assert ids.document_id("ab", "c") != ids.document_id("a", "bc")
    assert ids.chunk_id("d", "1", 2) != ids.chunk_id("d", "12", 0) != ids.chunk_id("d", "1", 20)
    assert ids.chunk_id("d", "text", 0) != ids.parent_id("d", "text", 0)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_shortened_document_keeps_the_ids_of_what_is_left(strategy: str) -> None:
    sections = [f"# Part {n}\n\n{'Words of this part. ' * 3}" for n in range(6)]
    size = count_tokens(sections[0] + "\n\n") if strategy in WINDOWS else 20
    long = chunks_of(Document(uri="a", text="\n\n".join(sections)), strategy, size)
    short = chunks_of(Document(uri="a", text="\n\n".join(sections[:3])), strategy, size)
    kept = [c.id for c in short[:-1]]
    assert len(kept) > 1
    assert [c.id for c in long[: len(kept)]] == kept


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_batch_gives_each_document_what_it_gets_alone(strategy: str) -> None:
    texts = [
        "Same text here. " * 40,
        "Same text here. " * 40,
        "",
        "Other text.\n\n" * 40,
        "# A\n\nSame text here. ",
        "end",
    ]
    documents = [Document(uri=f"{n}", title=f"T{n}", text=text) for n, text in enumerate(texts)]
    models = {"embedder": HashEmbedder(), "context_writer": EchoWriter()}
    chunker = build_chunker(strategy, **models, **settings(strategy, 60, 2))
    assert chunker.chunk(documents) == [chunker.chunk([document])[0] for document in documents]


def test_the_prompts_of_a_long_document_grow_with_its_length(writer: EchoWriter) -> None:
    text = "Some words of a sentence. " * 40_000
    chunks = chunk(text, "contextual_retrieval", context_writer=writer, chunk_size=512, chunk_overlap=0)
    assert len(text) > 1_000_000
    sizes = [len(user_prompt(request)) for request in writer.requests]
    assert max(sizes) < max(len(c.text) for c in chunks) + 2 * 500 + 300
    assert sum(sizes) < 2 * len(text)


def test_each_topic_of_a_document_has_a_context_of_its_own() -> None:
    topics = ["Parking", "Holidays", "Expenses", "Security", "Training", "Canteen"]
    text = "\n\n".join(f"# {topic}\n\n{'Rules stand in this part. ' * 4}" for topic in topics)
    document = Document(text=text, title="Handbook")
    chunks = chunk(document, "contextual_retrieval", context_writer=OutlineWriter(), chunk_size=8, chunk_overlap=0)
    assert [*dict.fromkeys(c.headings for c in chunks)] == [(topic,) for topic in topics]
    for c in chunks:
        # The first chunk of a section begins with the heading itself.
        place = "" if c.text.startswith("#") else f", section {c.headings[0]}"
        assert str(c.context).startswith(f'From "Handbook"{place}.')


@pytest.mark.parametrize("text", ["", "text", "grün 字 🚀", "x" * 1000, *map(str, range(50))])
def test_ids_are_version_5_uuids_of_the_projects_namespace(text: str) -> None:
    namespace = uuid.uuid5(uuid.NAMESPACE_DNS, "chunk-quarry")
    name = f"8:document6:corpus{len(text)}:{text}"
    assert ids.document_id("corpus", text) == str(uuid.uuid5(namespace, name))
