"""The strategy `contextual_retrieval`: what the writer is shown, and what becomes of its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from chunkers import Chunk, Document, ModelError, SettingError, build_chunker, chunk
from chunkers.models.base import Context, ContextRequest
from chunkers.models.outline import OutlineWriter
from tests.chunkers.conftest import EchoWriter

# Every number is there once, so a window at the wrong place shows.
NUMBERED = "".join(f"{n:04d} " for n in range(1000))


def contextual(text: str, writer: EchoWriter, **parameters: Any) -> list[Chunk]:
    parameters = {"chunk_size": 100, "chunk_overlap": 10, **parameters}
    return chunk(Document(text=text, title="Title"), "contextual_retrieval", context_writer=writer, **parameters)


def test_chunks_are_those_of_fixed_size(writer: EchoWriter) -> None:
    plain = chunk(NUMBERED, "fixed_size", chunk_size=100, chunk_overlap=10)
    assert [c.text for c in contextual(NUMBERED, writer)] == [c.text for c in plain]


@pytest.mark.parametrize("text", [NUMBERED, "the same again " * 400, "今天天气很好。" * 300])
def test_the_writer_sees_500_characters_before_and_after(text: str, writer: EchoWriter) -> None:
    chunks = contextual(text, writer)
    assert len(chunks) == len(writer.requests) > 10
    for c, request in zip(chunks, writer.requests, strict=True):
        assert request.text == c.text
        assert text[: c.start_char].endswith(request.preceding)
        assert text[c.end_char :].startswith(request.following)
        assert len(request.preceding) == min(500, c.start_char)
        assert len(request.following) == min(500, len(text) - c.end_char)


def test_nothing_is_before_the_first_window_and_nothing_after_the_last(writer: EchoWriter) -> None:
    contextual(NUMBERED, writer)
    assert writer.requests[0].preceding == writer.requests[-1].following == ""
    assert len(writer.requests[0].following) == len(writer.requests[-1].preceding) == 500


@pytest.mark.parametrize("window", [0, 1, 77])
def test_the_window_can_be_set(window: int, writer: EchoWriter) -> None:
    contextual(NUMBERED, writer, context_window_chars=window)
    assert [len(writer.requests[5].preceding), len(writer.requests[5].following)] == [window, window]


def test_what_the_writer_sees_is_bounded_by_the_window(writer: EchoWriter) -> None:
    text = "word " * 20_000
    contextual(text, writer, chunk_size=500, chunk_overlap=0)
    assert sum(len(r.preceding) + len(r.text) + len(r.following) for r in writer.requests) < 1.5 * len(text)


def test_the_writer_sees_title_and_headings(writer: EchoWriter) -> None:
    contextual("# A\n\nwords\n\n## B\n\n" + NUMBERED, writer)
    assert {request.title for request in writer.requests} == {"Title"}
    assert [request.headings for request in writer.requests[:2]] == [("A",), ("A", "B")]


def test_the_embedded_text_starts_with_the_context_and_the_original_is_kept(writer: EchoWriter) -> None:
    document_text = "Some words of a document."
    (only,) = contextual(document_text, writer)
    assert (only.text, only.context, only.context_source) == (document_text, "From Title.", "echo")
    assert only.embedding_text == "From Title.\n\nSome words of a document."


def test_the_cap_counts_the_window_and_not_the_context(writer: EchoWriter) -> None:
    assert contextual(NUMBERED, writer)[0].token_count == 100


def test_each_chunk_has_its_own_context() -> None:
    class Counting(EchoWriter):
        def write(self, requests: Sequence[ContextRequest]) -> list[Context]:
            return [Context(f"About {request.text[:4]}.", "echo") for request in requests]

    assert all(c.context == f"About {c.text[:4]}." for c in contextual(NUMBERED, Counting()))


def test_an_empty_context_is_none() -> None:
    class Silent(EchoWriter):
        def write(self, requests: Sequence[ContextRequest]) -> list[Context]:
            return [Context("", "echo") for _ in requests]

    (only,) = contextual("Some words.", Silent())
    assert (only.context, only.context_source, only.embedding_text) == (None, None, "Some words.")


def test_the_contexts_of_a_batch_are_written_in_one_call_and_stay_with_their_documents() -> None:
    class Batches(EchoWriter):
        calls = 0

        def write(self, requests: Sequence[ContextRequest]) -> list[Context]:
            self.calls += 1
            return super().write(requests)

    writer = Batches()
    documents = [Document(uri=f"{n}", title=f"T{n}", text=f"Text {n}. " * 5) for n in range(3)]
    documents.insert(1, Document(uri="empty", title="Empty"))
    chunker = build_chunker("contextual_retrieval", context_writer=writer, chunk_size=10, chunk_overlap=0)
    for result in chunker.chunk(documents):
        assert {c.context for c in result.chunks} == (
            {f"From {result.document.title}."} if result.document.text else set()
        )
    assert writer.calls == 1


def test_no_seam_shows_another_document(writer: EchoWriter) -> None:
    documents = [Document(uri="a", text="aaa"), Document(uri="b", text="bbb")]
    build_chunker("contextual_retrieval", context_writer=writer).chunk(documents)
    assert [(request.preceding, request.following) for request in writer.requests] == [("", ""), ("", "")]


def test_blank_documents_ask_nothing() -> None:
    class Refusing(EchoWriter):
        def write(self, requests: Sequence[ContextRequest]) -> list[Context]:
            raise AssertionError("asked")

    assert contextual(" \n ", Refusing()) == []


@pytest.mark.parametrize("given", [1, 3])
def test_another_number_of_contexts_is_an_error(given: int) -> None:
    class Miscounting(EchoWriter):
        def write(self, requests: Sequence[ContextRequest]) -> list[Context]:
            return [Context("x", "echo")] * given

    with pytest.raises(ModelError, match=f"echo was asked for 2 contexts and gave {given}"):
        contextual("word " * 150, Miscounting())


def test_an_error_of_the_writer_passes_through() -> None:
    class Failing(EchoWriter):
        def write(self, requests: Sequence[ContextRequest]) -> list[Context]:
            raise ModelError("no answer")

    with pytest.raises(ModelError, match="no answer"):
        contextual("Some words.", Failing())


@pytest.mark.parametrize(
    "text", ["# Title\n\nOne line.\n", "Title\n===\n\nOne line.\n", "\n# **Title** #\n\nOne line.\n"]
)
def test_a_heading_in_the_text_is_not_told_again_in_the_outline(text: str) -> None:
    document = Document(text=text, title="Title")
    (only,) = chunk(document, "contextual_retrieval", context_writer=OutlineWriter())
    assert only.embedding_text == f"Terms: line.\n\n{text}"


def test_a_heading_that_ends_in_a_mark_is_known_again() -> None:
    (only,) = chunk(Document(text="# C#\n\nOne line.\n", title="C#"), "contextual_retrieval")
    assert only.context == "Terms: line."


class DocumentWriter(EchoWriter):
    """Takes whole documents of up to so many characters."""

    document_prompt_version = "d1"

    def __init__(self, longest: int = 10**9) -> None:
        super().__init__()
        self.longest = longest

    def write(self, requests: Sequence[ContextRequest]) -> list[Context]:
        return [
            replace(context, text="", too_long=True)
            if request.document and len(request.document) > self.longest
            else context
            for request, context in zip(requests, super().write(requests), strict=True)
        ]


def test_the_writer_sees_the_whole_document_where_that_is_asked_for() -> None:
    writer = DocumentWriter()
    chunks = contextual(NUMBERED, writer, context_scope="document")
    assert {request.document for request in writer.requests} == {NUMBERED}
    assert {c.context_scope for c in chunks} == {"document"}
    assert [c.text for c in chunks] == [c.text for c in contextual(NUMBERED, DocumentWriter())]


def test_the_window_is_what_the_writer_sees_otherwise(writer: EchoWriter) -> None:
    chunks = contextual(NUMBERED, writer)
    assert {request.document for request in writer.requests} == {None}
    assert {c.context_scope for c in chunks} == {None}


def test_a_document_over_the_bound_is_shown_by_its_window() -> None:
    tokens = sum(c.token_count for c in chunk(NUMBERED, "fixed_size", chunk_size=100, chunk_overlap=0))
    for bound, scope in ((tokens, "document"), (tokens - 1, "window")):
        writer = DocumentWriter()
        chunks = contextual(NUMBERED, writer, context_scope="document", context_max_document_tokens=bound)
        assert {c.context_scope for c in chunks} == {scope}
        assert {request.document is None for request in writer.requests} == {scope == "window"}


def test_a_document_that_the_writer_finds_too_long_is_shown_by_its_window() -> None:
    writer = DocumentWriter(longest=100)
    documents = [
        Document(uri="long", text=NUMBERED, title="Long"),
        Document(uri="short", text="12 " * 30, title="Short"),
    ]
    chunker = build_chunker(
        "contextual_retrieval", context_writer=writer, context_scope="document", chunk_size=25, chunk_overlap=0
    )
    long, short = chunker.chunk(documents)
    assert {(c.context, c.context_scope) for c in long.chunks} == {("From Long.", "window")}
    assert {(c.context, c.context_scope) for c in short.chunks} == {("From Short.", "document")}
    assert len(writer.requests) == 2 * len(long.chunks) + len(short.chunks)


def test_a_chunk_that_is_the_whole_document_is_not_shown_twice() -> None:
    writer = DocumentWriter()
    (only,) = contextual("Some words.", writer, context_scope="document")
    assert [request.document for request in writer.requests] == [None]
    assert only.context_scope == "document"


def test_what_the_outline_stood_in_for_was_shown_nothing() -> None:
    class Refused(DocumentWriter):
        def write(self, requests: Sequence[ContextRequest]) -> list[Context]:
            return [Context("outline", "outline", fallback=True) for _ in requests]

    assert {c.context_scope for c in contextual(NUMBERED, Refused(), context_scope="document")} == {None}


def test_the_outline_makes_no_use_of_whole_documents() -> None:
    with pytest.raises(SettingError, match="'window' with outline, which makes no use of whole documents"):
        build_chunker("contextual_retrieval", context_scope="document")


@pytest.mark.parametrize("value", ["Document", "", None, 1])
def test_another_scope_is_refused(value: object) -> None:
    with pytest.raises(SettingError, match="context_scope"):
        build_chunker("contextual_retrieval", context_writer=DocumentWriter(), context_scope=value)


def test_the_scope_is_a_parameter_only_where_it_is_the_document() -> None:
    window = build_chunker("contextual_retrieval", context_writer=DocumentWriter())
    document = build_chunker("contextual_retrieval", context_writer=DocumentWriter(), context_scope="document")
    assert document.parameters == {
        **window.parameters,
        "context_scope": "document",
        "context_max_document_tokens": 100_000,
    }
