"""Contexts written from whole documents: what is asked and paid, what is stored, and documents that are too long."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chunkers import SettingError
from chunkers.encoding import count_tokens
from stores import SettingsChanged, connect
from tests.flows.conftest import ingest, told
from tests.openai_server import Fault, OpenAIServer, Request, status

NAME = "contextual_retrieval"
DOCUMENT = {"context_scope": "document", "chunk_size": "50", "chunk_overlap": "0"}
LONG = "# Long\n\n" + "".join(f"Sentence {number} of the long one is here. " for number in range(540))


@pytest.fixture(autouse=True)
def built_in_embeddings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARRY_EMBEDDING_MODEL", "wordllama")


@pytest.fixture
def long(source: Path) -> Path:
    """A source with a document of some hundred chunks."""
    (source / "long.md").write_text(LONG)
    return source


def payloads(source: Path) -> list[dict[str, Any]]:
    with connect() as client:
        points, _ = client.scroll(f"{source.name}__{NAME}", limit=1000)
    return [point.payload for point in points if point.payload and point.payload["kind"] == "chunk"]


def prompts(endpoint: OpenAIServer) -> list[str]:
    return [request.body["messages"][1]["content"] for request in endpoint.requests if "messages" in request.body]


def test_the_window_is_shown_unless_the_document_is_asked_for(long: Path, endpoint: OpenAIServer) -> None:
    ingest(long, NAME, overrides={"chunk_size": "50"})
    assert prompts(endpoint)
    assert not any("whole document" in prompt for prompt in prompts(endpoint))
    assert all("context_scope" not in payload["metadata"] for payload in payloads(long))


def test_a_dry_run_counts_the_whole_document_for_each_of_its_chunks(long: Path, endpoint: OpenAIServer) -> None:
    dry = ingest(long, NAME, overrides=DOCUMENT, dry_run=True).strategies[NAME]
    chunks, tokens = dry.chunks, count_tokens(LONG)
    assert chunks > 100
    assert dry.prompt_tokens == pytest.approx(chunks * (tokens + 200), rel=0.05)
    assert dry.cost == pytest.approx((dry.prompt_tokens * 0.15 + dry.answer_tokens * 0.60) / 1e6)
    real = ingest(long, NAME, overrides=DOCUMENT).strategies[NAME]
    assert (real.requests, real.contexts) == (dry.requests, dry.contexts)
    assert dry.prompt_tokens == pytest.approx(real.prompt_tokens, rel=0.01)


def test_chunks_say_that_the_model_saw_the_whole_document_and_a_second_run_asks_nothing(
    long: Path, endpoint: OpenAIServer
) -> None:
    report = ingest(long, NAME, overrides=DOCUMENT).strategies[NAME]
    assert {payload["metadata"]["context_scope"] for payload in payloads(long)} == {"document"}
    assert any(LONG[:5000] in prompt for prompt in prompts(endpoint))
    assert report.window_contexts == 0
    endpoint.requests.clear()
    (long / "other.md").write_text("# Other\n\nA new one.\n")
    assert ingest(long, NAME, overrides=DOCUMENT).exit_status == 0
    assert len(prompts(endpoint)) == 1


def test_a_document_over_the_bound_gets_its_contexts_from_windows_which_is_counted_and_told(
    long: Path, endpoint: OpenAIServer
) -> None:
    own = told(
        "ingest", long, "--plain", "--strategy", NAME, *_set(DOCUMENT), *_set({"context_max_document_tokens": "1000"})
    )["strategies"][NAME]
    of_long = [payload for payload in payloads(long) if payload["metadata"]["source"] == "long.md"]
    assert own["window_contexts"] == len(of_long) > 100
    assert {payload["metadata"]["context_scope"] for payload in of_long} == {"window"}
    assert not any(LONG[:5000] in prompt for prompt in prompts(endpoint))


def test_a_document_that_the_model_has_no_room_for_is_asked_once_and_then_by_its_windows(
    long: Path, endpoint: OpenAIServer
) -> None:
    refused: list[Request] = []

    def small(request: Request) -> Fault | None:
        if "messages" in request.body and LONG[:5000] in request.body["messages"][1]["content"]:
            refused.append(request)
            return status(400, code="context_length_exceeded")
        return None

    endpoint.always = small
    report = ingest(long, NAME, overrides=DOCUMENT)
    own = report.strategies[NAME]
    assert report.exit_status == 0, report.failures()
    assert own.failed == []
    assert len(refused) == 1
    scopes = {payload["metadata"]["source"]: payload["metadata"]["context_scope"] for payload in payloads(long)}
    assert scopes["long.md"] == "window"
    assert scopes["guide.md"] == "document"
    assert own.window_contexts == sum(payload["metadata"]["source"] == "long.md" for payload in payloads(long))
    assert own.contexts == own.chunks


def test_a_document_s_own_word_of_a_scope_is_not_taken_for_ours(source: Path, endpoint: OpenAIServer) -> None:
    (source / "sly.md").write_text("---\ncontext_scope: window\n---\n# Sly\n\nSome text.\n")
    own = ingest(source, NAME).strategies[NAME]
    assert own.window_contexts == 0
    assert all("context_scope" not in payload["metadata"] for payload in payloads(source))


def test_another_scope_is_another_recipe(source: Path, endpoint: OpenAIServer) -> None:
    ingest(source, NAME)
    with pytest.raises(SettingsChanged, match="context_scope"):
        ingest(source, NAME, overrides={"context_scope": "document"})
    assert ingest(source, NAME, overrides={"context_scope": "document"}, rebuild=True).exit_status == 0


def test_a_collection_is_repaired_in_its_own_scope(
    source: Path, endpoint: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(source, NAME)
    with connect() as client:
        client.delete(f"{source.name}__{NAME}", [payload_id(client, source)])
    monkeypatch.setenv("QUARRY_CONTEXT_SCOPE", "document")
    endpoint.requests.clear()
    assert told("verify", "--repair", status=0)
    assert endpoint.requests == []
    assert all("context_scope" not in payload["metadata"] for payload in payloads(source))


def payload_id(client: Any, source: Path) -> Any:
    points, _ = client.scroll(f"{source.name}__{NAME}", limit=100)
    return next(point.id for point in points if point.payload["kind"] == "chunk")


def test_the_outline_cannot_be_shown_documents(source: Path) -> None:
    with pytest.raises(SettingError, match=r"context_scope: .document. cannot be used.*outline"):
        ingest(source, NAME, overrides={"context_scope": "document"})
    assert ingest(source, "recursive", overrides={"context_scope": "document"}).exit_status == 0


def _set(settings: dict[str, str]) -> list[str]:
    return [argument for name, value in settings.items() for argument in ("--set", f"{name}={value}")]
