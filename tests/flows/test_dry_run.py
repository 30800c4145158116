"""A dry run says beforehand what a run then does, asks no endpoint anything and leaves nothing behind."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from chunkers import STRATEGIES
from flows.report import StrategyReport
from tests.doubles import HashEmbedder
from tests.flows.conftest import TEXTS, ingest
from tests.openai_server import OpenAIServer

# Boundaries that no model decides.
KNOWN = ("fixed_size", "recursive", "sentence")


def change(source: Path) -> None:
    """An edit, a rename, a new and a vanished document."""
    (source / "guide.md").write_text(
        TEXTS["guide.md"].replace("dawn", "noon") + "\n## More\n\nA new section is here.\n"
    )
    (source / "notes/tea.md").rename(source / "tea.md")
    (source / "new.md").write_text("# New\n\nNever seen before. It is short.\n")
    (source / "log.txt").unlink()


def counts(own: StrategyReport) -> dict[str, int]:
    told = own.as_json()
    names = ("documents", "unchanged", "moved", "chunks", "upserted", "deleted", "embedded", "cached", "contexts")
    return {name: told[name] for name in names}


def files(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_dry_run_of_a_new_corpus_counts_what_the_run_then_does(source: Path) -> None:
    dry, real = ingest(source, dry_run=True), ingest(source)
    for name in STRATEGIES:
        expected = counts(real.strategies[name])
        found = counts(dry.strategies[name])
        # Which strategy pays for a text that several need is settled by their threads.
        assert found.pop("embedded") + found.pop("cached") == expected.pop("embedded") + expected.pop("cached")
        assert found == expected, name
        assert not dry.strategies[name].guessed
    sent = [sum(own.embedded for own in report.strategies.values()) for report in (dry, real)]
    assert sent[0] == sent[1] > 0


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_dry_run_of_changes_counts_what_the_run_then_does(source: Path, name: str) -> None:
    ingest(source, name)
    change(source)
    dry, real = ingest(source, name, dry_run=True), ingest(source, name)
    assert counts(dry.strategies[name]) == counts(real.strategies[name])
    assert dry.strategies[name].moved == 1
    assert dry.strategies[name].deleted > 0
    assert dry.strategies[name].planned == {
        "new": ["new.md"],
        "changed": ["guide.md"],
        "moved": ["notes/tea.md -> tea.md"],
        "unfinished": [],
        "parked": [],
        "unchanged": [],
        "vanished": ["log.txt"],
        "withheld": [],
    }


def test_a_dry_run_leaves_no_folder_behind(source: Path, tmp_path: Path) -> None:
    ingest(source, dry_run=True)
    assert not (tmp_path / "home").exists()


def test_a_dry_run_changes_no_point_and_no_cached_answer(source: Path, tmp_path: Path) -> None:
    ingest(source)
    change(source)
    # Opening a store may bring its database's log into the database, so it is opened once before.
    ingest(source, dry_run=True)
    before = files(tmp_path / "home")
    assert before
    ingest(source, dry_run=True)
    assert files(tmp_path / "home") == before


@pytest.mark.parametrize("name", KNOWN)
def test_a_dry_run_asks_an_endpoint_nothing_and_counts_its_requests(
    source: Path, endpoint: OpenAIServer, name: str
) -> None:
    for number in range(40):
        (source / f"many-{number}.md").write_text(f"# Number {number}\n\nThis is document number {number}.\n")
    dry = ingest(source, name, dry_run=True).strategies[name]
    assert endpoint.requests == []
    assert not dry.guessed
    real = ingest(source, name).strategies[name]
    assert (dry.embedded, dry.cached) == (real.embedded, real.cached)
    assert dry.as_json()["requests"] == dry.requests == len(endpoint.requests) > 0


def test_contexts_of_a_language_model_are_counted_and_their_texts_too(source: Path, endpoint: OpenAIServer) -> None:
    dry = ingest(source, "contextual_retrieval", dry_run=True).strategies["contextual_retrieval"]
    assert endpoint.requests == []
    assert dry.guessed
    real = ingest(source, "contextual_retrieval").strategies["contextual_retrieval"]
    assert (dry.contexts, dry.embedded) == (real.contexts, real.embedded)
    assert dry.requests == len(endpoint.requests)


def test_what_is_in_the_cache_is_not_counted_again(source: Path, endpoint: OpenAIServer, tmp_path: Path) -> None:
    ingest(source, "recursive")
    for path in (tmp_path / "home" / "qdrant").rglob("*"):
        if path.is_file():
            path.unlink()
    endpoint.requests.clear()
    dry = ingest(source, "recursive", dry_run=True).strategies["recursive"]
    assert (dry.embedded, dry.requests) == (0, 0)
    assert dry.cached > 0
    assert endpoint.requests == []


def test_boundaries_that_a_paid_model_decides_are_an_estimate(source: Path, endpoint: OpenAIServer) -> None:
    dry = ingest(source, "semantic", dry_run=True).strategies["semantic"]
    assert dry.guessed
    assert dry.as_json()["estimated"] is True
    assert dry.embedded > 0
    assert endpoint.requests == []


def test_a_model_of_another_kind_is_not_asked_either(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = HashEmbedder()
    monkeypatch.setattr("flows.models.open_embedder", lambda name, endpoint, options: embedder)
    report = ingest(source, dry_run=True)
    assert embedder.texts == []
    assert all(own.embedded + own.cached > 0 for own in report.strategies.values())


def test_a_dry_run_of_a_rebuild_counts_the_whole_corpus(source: Path) -> None:
    ingest(source, "recursive")
    options = {"rebuild": True, "overrides": {"recursive_chunk_chars": "40"}}
    dry = ingest(source, "recursive", dry_run=True, **options).strategies["recursive"]  # type: ignore[arg-type]
    real = ingest(source, "recursive", **options).strategies["recursive"]  # type: ignore[arg-type]
    assert counts(dry) == counts(real)
    assert dry.documents == 3
