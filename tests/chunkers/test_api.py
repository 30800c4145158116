"""The package's front door: `chunk`, `chunk_document`, `STRATEGIES`, and what a `Document` makes of what it is given."""

from __future__ import annotations

import hashlib
import pickle
import subprocess
import sys
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

import chunkers
from chunkers import STRATEGIES, Chunk, Document, Parent, SettingError, build_chunker, chunk, chunk_document
from chunkers.document import replace_surrogates
from tests.chunkers.conftest import EchoWriter
from tests.chunkers.texts import DOCUMENT, SCRIPTS
from tests.doubles import HashEmbedder

LONG = DOCUMENT * 5 + "".join(text * 20 for text in SCRIPTS.values())


def chunked(document: Document, strategy: str) -> tuple[list[Chunk], list[Parent]]:
    return chunk_document(document, strategy, embedder=HashEmbedder(), context_writer=EchoWriter(), chunk_size=60)


def test_there_are_six_strategies_in_the_order_of_the_design() -> None:
    assert STRATEGIES == (
        "fixed_size",
        "recursive",
        "sentence",
        "semantic",
        "contextual_retrieval",
        "semantic_parent_child",
    )


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_built_chunker_knows_its_strategy(strategy: str) -> None:
    assert build_chunker(strategy, embedder=HashEmbedder(), context_writer=EchoWriter()).strategy == strategy


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_chunk_takes_a_text_or_a_document_and_gives_the_chunks_of_chunk_document(strategy: str) -> None:
    models = {"embedder": HashEmbedder(), "context_writer": EchoWriter()}
    expected = chunk_document(Document(text=LONG), strategy, **models)[0]
    assert len(expected) > 3
    assert chunk(Document(text=LONG), strategy, **models) == expected
    assert chunk(LONG, strategy, **models) == expected


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_only_the_parent_child_strategy_has_parents(strategy: str) -> None:
    chunks, parents = chunked(Document(text=LONG), strategy)
    assert bool(parents) is (strategy == "semantic_parent_child")
    assert all((c.parent_id is not None) is bool(parents) for c in chunks)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("text", ["", " ", "\n\n\t", "\u00a0\u3000"])
def test_a_blank_text_has_no_chunks(strategy: str, text: str) -> None:
    assert chunked(Document(text=text), strategy) == ([], [])


def test_a_raw_string_is_chunked_whole_with_its_front_matter() -> None:
    (only,) = chunk("---\ntitle: x\n---\ntext", "recursive")
    assert (only.text, only.headings) == ("---\ntitle: x\n---\ntext", ())


def test_a_document_that_quotes_special_tokens_does_not_stop_a_batch() -> None:
    documents = [Document(uri=f"{n}", text="plain words") for n in range(5)]
    documents[2] = Document(uri="2", text="quoting <|endoftext|>, <|fim_prefix|> and <|endofprompt|>")
    for strategy in STRATEGIES:
        chunker = build_chunker(strategy, embedder=HashEmbedder(), context_writer=EchoWriter())
        assert [[c.text for c in result.chunks] for result in chunker.chunk(documents)] == [[d.text] for d in documents]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_ids_are_canonical_and_the_same_for_the_same_input(strategy: str) -> None:
    first, second = (chunked(Document(uri="a.md", text=LONG), strategy) for _ in range(2))
    assert first == second
    assert all(str(uuid.UUID(slice_.id)) == slice_.id for slice_ in [*first[0], *first[1]])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_equal_texts_of_two_documents_have_ids_of_their_own(strategy: str) -> None:
    first, second = (chunked(Document(uri=uri, text=LONG), strategy)[0] for uri in ("a.md", "b.md"))
    assert not {c.id for c in first} & {c.id for c in second}


def test_an_edit_far_away_leaves_a_chunks_id_alone() -> None:
    before = chunk(Document(uri="a", text="# A\n\nfirst words\n\n# B\n\nsecond"), "recursive", recursive_chunk_chars=20)
    after = chunk(Document(uri="a", text="# A\n\nother text!\n\n# B\n\nsecond"), "recursive", recursive_chunk_chars=20)
    assert [c.id for c in before][1:] == [c.id for c in after][1:]
    assert before[0].id != after[0].id


def test_embedding_text_is_context_blank_line_text() -> None:
    parts = {"id": "", "index": 0, "text": "text", "start_char": 0, "end_char": 4, "token_count": 1}
    assert Chunk(**parts).embedding_text == "text"
    assert Chunk(**parts, context="context").embedding_text == "context\n\ntext"


def test_a_document_is_named_by_its_uri_or_else_its_text() -> None:
    assert Document(uri="a", text="x").id == Document(uri="a", text="y").id != Document(uri="b", text="x").id
    assert Document(text="x").id == Document(text="x").id != Document(text="y").id
    assert Document(id="own", uri="a").id == "own"


def test_a_document_hashes_its_text_unless_told_the_hash_of_its_bytes() -> None:
    assert Document(text="grün").content_hash == hashlib.sha256("grün".encode()).hexdigest()
    assert Document(text="x", content_hash="of the bytes").content_hash == "of the bytes"


def test_lone_surrogates_are_replaced_and_counted() -> None:
    given = {"author": "A", "replaced_characters": 2}
    document = Document(text="a \ud83d b \udc00\udc00.", metadata=given)
    assert document.text == "a \ufffd b \ufffd\ufffd."
    assert document.metadata == {"author": "A", "replaced_characters": 5}
    assert given == {"author": "A", "replaced_characters": 2}


def test_a_text_without_surrogates_is_left_alone() -> None:
    text = "\ufeffa\r\nb\r\u2028 🚀\t"
    assert replace_surrogates(text) == (text, 0)
    assert Document(text=text).metadata == {}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_text_with_a_lone_surrogate_can_be_chunked(strategy: str) -> None:
    chunks, _ = chunked(Document(text="One \ud83d here. Two."), strategy)
    assert "One \ufffd here" in chunks[0].text


def test_a_document_can_be_pickled_after_its_analysis_was_made() -> None:
    document = Document(uri="a.md", text=LONG, title="T", metadata={"k": "v"})
    expected = chunked(document, "semantic_parent_child")
    copy = pickle.loads(pickle.dumps(document))
    assert (copy.id, copy.text, copy.title, copy.metadata) == (document.id, LONG, "T", {"k": "v"})
    assert chunked(copy, "semantic_parent_child") == expected


def test_the_analysis_is_made_once() -> None:
    document = Document(text=LONG)
    assert document.analysis is document.analysis
    assert document.analysis.tokens is document.analysis.tokens


def test_six_strategies_on_one_document_in_six_threads_give_what_each_gives_alone() -> None:
    expected = {strategy: chunked(Document(uri="a", text=LONG), strategy) for strategy in STRATEGIES}
    for _ in range(5):
        document = Document(uri="a", text=LONG)
        barrier = Barrier(len(STRATEGIES))

        def at_once(strategy: str, document: Document = document, barrier: Barrier = barrier) -> object:
            barrier.wait(timeout=30)
            return chunked(document, strategy)

        with ThreadPoolExecutor(len(STRATEGIES)) as threads:
            assert dict(zip(STRATEGIES, threads.map(at_once, STRATEGIES), strict=True)) == expected


def test_importing_the_package_imports_neither_models_nor_what_they_need() -> None:
    heavy = "openai wordllama prefect qdrant_client pydantic httpx tokenizers"
    code = f"import chunkers, sys; print([name for name in {heavy.split()} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"


def test_all_names_of_the_package_exist() -> None:
    assert [name for name in chunkers.__all__ if not hasattr(chunkers, name)] == []


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("text", lambda: chunk(None, "recursive")),  # type: ignore[arg-type]
        ("text", lambda: Document(text=b"bytes")),  # type: ignore[arg-type]
        ("strategy", lambda: build_chunker(["recursive"])),  # type: ignore[arg-type]
        ("embedder", lambda: build_chunker("semantic", embedder="text-embedding-3-small")),  # type: ignore[arg-type]
        ("context_writer", lambda: build_chunker("contextual_retrieval", context_writer="gpt-4o-mini")),  # type: ignore[arg-type]
    ],
)
def test_what_is_of_another_kind_is_refused_by_name(name: str, call: Callable[[], object]) -> None:
    with pytest.raises(SettingError, match=rf"^{name}"):
        call()
