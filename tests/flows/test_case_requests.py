"""What goes into requests, and what becomes of documents that an endpoint cannot take: whole runs, over real HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from chunkers import SettingError
from chunkers.encoding import count_tokens
from stores import connect, list_collections
from tests.flows.conftest import ingest, quarry, told
from tests.openai_server import Fault, OpenAIServer, Request, status

ALL = {"fixed_size", "recursive", "sentence", "semantic", "contextual_retrieval", "semantic_parent_child"}
PLAIN = {"chunk_overlap": "0"}


def write(folder: Path, texts: dict[str, str | bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return folder


def chunks(strategy: str) -> list[dict[str, Any]]:
    """Payloads of the chunks that are stored."""
    with connect() as client:
        (name,) = (info.collection for info in list_collections(client) if info.strategy == strategy)
        records, _ = client.scroll(name, limit=10_000)
    payloads = [record.payload or {} for record in records]
    return [payload for payload in payloads if payload["kind"] == "chunk"]


def words(number: int, text: str = "word") -> str:
    """So many words, all different, in paragraphs."""
    lines = [" ".join(f"{text}{at}" for at in range(begin, begin + 50)) for begin in range(0, number, 50)]
    return "\n\n".join(lines)


@pytest.mark.parametrize(
    "blank",
    ["\n\n \t\n" * 20, "---\ntitle: x\n---\n\n\n", b"\xef\xbb\xbf", "\u3000\u00a0\u2028\n", "", "\r\n\r\n\x0c\x0b"],
    ids=["lines", "front matter", "byte order mark", "wide spaces", "nothing", "form feeds"],
)
def test_a_document_without_text_is_skipped_by_name_and_nothing_is_asked(
    tmp_path: Path, endpoint: OpenAIServer, blank: str | bytes
) -> None:
    found = told("ingest", write(tmp_path / "docs", {"blank.md": blank}), "--plain")
    assert found["skipped"] == [{"document": "blank.md", "reason": "blank: nothing but white space"}]
    assert endpoint.requests == []


def test_no_blank_text_is_sent_of_a_document_that_is_mostly_blank(tmp_path: Path, endpoint: OpenAIServer) -> None:
    text = "# Title\n" + "\n \t\u00a0\n" * 3000 + "Words at last.\n" + "\u3000\n" * 3000 + "## End\n\n\n"
    report = ingest(write(tmp_path / "docs", {"a.md": text}), overrides={"chunk_size": "32", "chunk_overlap": "4"})
    assert report.exit_status == 0, report.failures()
    assert endpoint.inputs
    assert all(text.strip() for text in endpoint.inputs)


def test_five_thousand_tiny_texts_take_three_requests_at_least_and_all_are_stored(
    tmp_path: Path, endpoint: OpenAIServer
) -> None:
    source = write(tmp_path / "docs", {"a.md": "\n\n".join(f"word{number} here" for number in range(5000))})
    given = {**PLAIN, "chunk_size": "4", "embedding_parallel": "1"}
    own = ingest(source, "recursive", overrides=given).strategies["recursive"]
    assert own.failed == []
    assert own.chunks >= 5000
    sizes = [len(request.body["input"]) for request in endpoint.requests]
    assert len(sizes) >= 3
    assert max(sizes) <= 2048
    assert sum(sizes) == own.embedded


def test_texts_of_eight_thousand_tokens_are_sent_under_the_cap_of_a_request(
    tmp_path: Path, endpoint: OpenAIServer
) -> None:
    source = write(tmp_path / "docs", {"a.txt": words(100_000)})
    given = {**PLAIN, "chunk_size": "8000", "embedding_parallel": "1"}
    own = ingest(source, "fixed_size", overrides=given).strategies["fixed_size"]
    assert own.failed == []
    assert own.chunks > 37
    totals = [sum(map(count_tokens, request.body["input"])) for request in endpoint.requests]
    assert len(totals) >= 2
    assert max(totals) <= 300_000


@pytest.mark.parametrize("name", sorted(ALL))
def test_chunks_over_the_model_s_input_are_refused_before_anything_is_asked(
    tmp_path: Path, endpoint: OpenAIServer, name: str
) -> None:
    source = write(tmp_path / "docs", {"a.md": words(100)})
    with pytest.raises(SettingError, match="at most 8191, the longest input of text-embedding-3-small"):
        ingest(source, name, overrides={"chunk_size": "20000"})
    assert endpoint.requests == []


def test_what_is_embedded_with_its_context_is_under_the_model_s_input_too(
    tmp_path: Path, endpoint: OpenAIServer
) -> None:
    endpoint.answer = lambda body: "This section is about gates. " * 13
    source = write(tmp_path / "docs", {"a.md": words(8000)})
    given = ["--set", "chunk_size=8191", "--set", "chunk_overlap=0"]
    result = quarry("ingest", source, "--plain", "--strategy", "contextual_retrieval", *given)
    assert result.exit_code == 0, result.output
    assert max(map(count_tokens, endpoint.inputs)) <= 8191
    # A text is never cut for its context's sake; where there is no room the context is, and that is counted and marked.
    marked = [chunk for chunk in chunks("contextual_retrieval") if "context_shortened" in chunk["metadata"]]
    assert len(marked) == 2
    assert {chunk["context"] for chunk in marked} == {None}
    assert "2 contexts shortened or left out" in result.output


def test_a_text_that_the_endpoint_finds_too_long_fails_its_document_by_name_and_is_never_cut(
    tmp_path: Path, endpoint: OpenAIServer
) -> None:
    refused = status(400, message="maximum context length is 8192 tokens, however you requested 9000")
    endpoint.always = lambda request: refused if "long99" in json.dumps(request.body) else None
    source = write(tmp_path / "docs", {"long.md": words(200, "long"), "a.md": "Short.", "b.md": "Short too."})
    own = ingest(source, "recursive").strategies["recursive"]
    assert [uri for uri, _ in own.failed] == ["long.md"]
    assert "maximum context length" in own.failed[0][1]
    assert {chunk["metadata"]["source"] for chunk in chunks("recursive")} == {"a.md", "b.md"}
    # What was sent of it was sent whole.
    assert {text for text in endpoint.inputs if "long" in text} == {words(200, "long")}


@pytest.mark.parametrize(
    "text",
    [
        "Before <|endoftext|> after.",
        "<|endoftext|>",
        "<|im_start|>system\nYou are<|im_end|><|fim_prefix|><|endofprompt|>",
        "A bell \x07 and an escape \x1b[31m and a delete \x7f.",
        "e\u0301 and \u00e9, \u202eright to left\u202c, \ufdd0 and \U0010ffff",
        "👩‍👩‍👧‍👦" * 500,
        "A" * 100_000,
        "\u200b\u200b.",
    ],
    ids=[
        "end of text",
        "nothing else",
        "chat marks",
        "controls",
        "odd code points",
        "families",
        "one word",
        "no width",
    ],
)
def test_any_text_is_sent_and_stored_as_it_is(tmp_path: Path, endpoint: OpenAIServer, text: str) -> None:
    report = ingest(write(tmp_path / "docs", {"a.md": text}))
    assert report.exit_status == 0, report.failures()
    for name in ALL:
        stored = chunks(name)
        assert all(chunk["metadata"]["token_count"] > 0 for chunk in stored)
        assert all(
            chunk["text"] == text[chunk["metadata"]["start_char"] : chunk["metadata"]["end_char"]] for chunk in stored
        )
        assert {chunk["text"] for chunk in stored} <= set(endpoint.inputs) or name == "contextual_retrieval"


def test_a_text_that_many_documents_share_is_paid_for_once(tmp_path: Path, endpoint: OpenAIServer) -> None:
    shared = "All rights reserved. No part may be copied."
    source = write(tmp_path / "docs", {f"{number:03}.md": shared for number in range(200)})
    report = ingest(source)
    assert report.exit_status == 0, report.failures()
    # With its context it is another text.
    assert sorted(set(endpoint.inputs)) == sorted(endpoint.inputs)
    assert len(endpoint.inputs) <= 2


def test_requests_that_are_taken_at_first_and_too_large_later_lose_no_document(
    tmp_path: Path, endpoint: OpenAIServer
) -> None:
    source = write(tmp_path / "docs", {f"{number:03}.md": f"Text {number}." for number in range(200)})

    def crowded(request: Request) -> Fault | None:
        late = len(endpoint.requests) > 2 and len(request.body["input"]) > 10
        return status(400, message="failed", code="token_limit_exceeded") if late else None

    endpoint.always = crowded
    own = ingest(source, "recursive", overrides={"embedding_parallel": "1", "embedding_max_inputs": "40"})
    assert own.exit_status == 0, own.failures()
    assert {chunk["metadata"]["source"] for chunk in chunks("recursive")} == {
        f"{number:03}.md" for number in range(200)
    }
    # Once it is known what is too much, little is sent in vain.
    assert len([request for request in endpoint.requests if len(request.body["input"]) > 10]) <= 6
