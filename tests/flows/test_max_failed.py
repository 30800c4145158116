"""The tolerance for documents that fail: a row in the report up to it, a failed strategy beyond it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chunkers import SettingError
from flows.report import Report, StrategyReport
from flows.request import Request
from stores import connect
from stores.inventory import alias_targets
from tests.flows.conftest import ingest, quarry, told


@pytest.fixture
def one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The document `log.txt` cannot be chunked."""
    from chunkers.recursive import RecursiveChunker

    chunk = RecursiveChunker.chunk

    def broken(self: RecursiveChunker, documents: Any) -> Any:
        if any(document.uri == "log.txt" for document in documents):
            raise ValueError("an odd document")
        return chunk(self, documents)

    monkeypatch.setattr(RecursiveChunker, "chunk", broken)


def made(max_failed: int, *failed: int, unreadable: int = 0) -> Report:
    """A report of strategies in which so many documents failed."""
    rows = [[(f"{number}.md", "odd") for number in range(count)] for count in failed]
    strategies = {f"strategy-{index}": StrategyReport(documents=9, failed=own) for index, own in enumerate(rows)}
    return Report("docs", strategies=strategies, max_failed=max_failed, unreadable=[("u.md", "gone")] * unreadable)


@pytest.mark.parametrize(
    ("max_failed", "failed", "unreadable", "status"),
    [
        (0, [0, 0], 0, 0),
        (0, [1, 0], 0, 1),
        (1, [1, 1], 0, 0),
        (1, [2, 0], 0, 1),
        (1, [0, 0], 1, 0),
        (1, [1, 0], 1, 1),
        (0, [0, 0], 1, 1),
    ],
)
def test_a_strategy_fails_when_more_documents_failed_in_it_than_may(
    max_failed: int, failed: list[int], unreadable: int, status: int
) -> None:
    assert made(max_failed, *failed, unreadable=unreadable).exit_status == status


def test_only_the_strategies_beyond_the_tolerance_are_named() -> None:
    assert made(1, 1, 2).summary() == "documents failed: 2 in strategy-1: 0.md (odd), 1.md (odd)"


def test_what_is_tolerated_is_told() -> None:
    assert made(2, 1, 2).summary() == "2 strategies, 9 documents; 2 failed, which --max-failed 2 allows"


def test_a_tolerated_document_is_a_row_of_the_report_and_the_run_succeeds(source: Path, one_fails: None) -> None:
    found = told("ingest", source, "--plain", "--strategy", "recursive", "--max-failed", "1")
    assert found["strategies"]["recursive"]["failed"] == [{"document": "log.txt", "error": "an odd document"}]
    assert found["failures"] == []


def test_a_tolerated_document_is_shown_to_a_person(source: Path, one_fails: None) -> None:
    result = quarry("ingest", source, "--plain", "--strategy", "recursive", "--max-failed", "1")
    assert result.exit_code == 0
    assert "failed in recursive: log.txt: an odd document" in result.output


def test_one_more_than_is_tolerated_fails_the_run(source: Path, one_fails: None) -> None:
    assert ingest(source, "recursive", max_failed=0).exit_status == 1


def test_a_rebuild_moves_the_alias_within_the_tolerance(source: Path, one_fails: None) -> None:
    ingest(source, "recursive", max_failed=1)
    report = ingest(source, "recursive", max_failed=1, rebuild=True, overrides={"chunk_size": "20"})
    assert report.failures() == []
    with connect() as client:
        assert alias_targets(client) == {"docs__recursive": "docs__recursive__2"}


def test_a_rebuild_does_not_move_the_alias_beyond_the_tolerance(source: Path, one_fails: None) -> None:
    ingest(source, "recursive")
    report = ingest(source, "recursive", rebuild=True, overrides={"chunk_size": "20"})
    assert "is not complete (1 documents failed)" in report.summary()
    with connect() as client:
        assert alias_targets(client) == {"docs__recursive": "docs__recursive__1"}


def test_a_negative_tolerance_is_refused() -> None:
    with pytest.raises(SettingError, match="max_failed: -1"):
        Request("docs", max_failed=-1)
