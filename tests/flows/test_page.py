"""The page of a run on Prefect's test server."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

import pytest

from flows import page
from flows.observer import Observer, observed
from flows.run_report import COLUMNS
from tests.flows.conftest import flow_run, recorded

pytestmark = pytest.mark.flow


def log_lines(state: Any) -> list[str]:
    """The log of a flow run, as the server has it."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId
    from prefect.logging.handlers import APILogHandler

    APILogHandler().flush()
    asked = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[state.state_details.flow_run_id]))
    with get_client(sync_client=True) as client:
        return [log.message for log in client.read_logs(asked)]


def test_a_run_is_named_and_tagged_by_what_it_does(source: Path, prefect_server: None) -> None:
    run, _, _ = recorded(flow_run(source, strategies=["recursive"], dry_run=True))
    assert run.name == "ingest docs: recursive, dry run"
    assert set(run.tags) == {"corpus:docs", "ingest", "dry-run"}


def test_the_table_has_the_counts_of_each_strategy(source: Path, prefect_server: None) -> None:
    _, _, artifacts = recorded(flow_run(source, strategies=["recursive", "sentence"]))
    rows = json.loads(artifacts["table-docs"].data)
    assert [row["strategy"] for row in rows] == ["recursive", "sentence"]
    assert list(rows[0]) == ["strategy", *COLUMNS, "error"]
    assert all((row["documents"], row["failed"]) == (3, 0) for row in rows)


def test_the_report_names_what_failed_and_how_to_try_it_again(
    source: Path, prefect_server: None, semantic_fails: None
) -> None:
    _, _, artifacts = recorded(flow_run(source))
    told = artifacts["report-docs"].data
    assert "- `semantic`: the disk is full" in told
    assert f"quarry ingest {source} --corpus docs --strategy semantic\n" in told


def test_progress_moves_while_the_run_works_and_ends_at_100(
    source: Path, prefect_server: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[float] = []
    update = page.update_progress_artifact
    monkeypatch.setattr(page, "INTERVAL", 0.0)
    monkeypatch.setattr(
        page, "update_progress_artifact", lambda id_, progress: (shown.append(progress), update(id_, progress))
    )

    class Waits(Observer):
        """Goes on when the progress of each document was shown."""

        def advanced(self, strategy: str, documents: int) -> None:
            before, until = len(shown), time.monotonic() + 30
            while len(shown) == before and time.monotonic() < until:
                time.sleep(0.001)

    for number in range(60):
        (source / f"many-{number:02}.md").write_text(f"Document number {number}.")
    with observed(Waits()):
        _, _, artifacts = recorded(flow_run(source, strategies=["recursive"]))
    assert len(shown) > 1
    assert shown == sorted(shown)
    assert artifacts["progress-docs"].data == 100.0


def test_a_run_that_has_nothing_to_write_shows_100(source: Path, prefect_server: None) -> None:
    flow_run(source, strategies=["recursive"])
    _, _, artifacts = recorded(flow_run(source, strategies=["recursive"]))
    assert artifacts["progress-docs"].data == 100.0


def test_whoever_listened_before_still_hears_of_progress(source: Path, prefect_server: None) -> None:
    heard: list[tuple[str, object]] = []

    class Hears(Observer):
        def planned(self, strategies: dict[str, int]) -> None:
            heard.append(("planned", strategies))

        def advanced(self, strategy: str, documents: int) -> None:
            heard.append((strategy, documents))

    with observed(Hears()):
        flow_run(source, strategies=["recursive"])
    assert heard == [("planned", {"recursive": 3}), ("recursive", 3)]


def test_the_log_of_a_run_has_its_counts_by_strategy(source: Path, prefect_server: None) -> None:
    lines = log_lines(flow_run(source, strategies=["recursive"]))
    assert any(line.startswith("recursive: 3 documents to be written, 0 unchanged") for line in lines)
    assert any(line.startswith("recursive: 3 documents done: ") for line in lines)


def test_records_say_which_run_corpus_and_strategy_they_are_about(
    source: Path, prefect_server: None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "flows"):
        flow_run(source, strategies=["recursive"])
    (record,) = [record for record in caplog.records if "documents done" in record.getMessage()]
    assert (record.corpus, record.strategy) == ("docs", "recursive")  # type: ignore[attr-defined]
    assert len(record.run) == 36  # type: ignore[attr-defined]


def test_a_server_that_takes_no_artifacts_undoes_nothing(
    source: Path, prefect_server: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*args: Any, **options: Any) -> None:
        raise ConnectionError("the server is gone")

    for name in ("create_table_artifact", "create_markdown_artifact", "create_progress_artifact", "_add_tags"):
        monkeypatch.setattr(page, name, gone)
    assert flow_run(source, strategies=["recursive"]).is_completed()


def test_a_server_that_does_not_answer_holds_nothing_up(
    source: Path, prefect_server: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    answered = threading.Event()
    monkeypatch.setattr(page, "PATIENCE", 0.05)
    for name in ("create_table_artifact", "create_markdown_artifact", "create_progress_artifact"):
        monkeypatch.setattr(page, name, lambda *args, **options: answered.wait(60))
    try:
        assert flow_run(source, strategies=["recursive"]).is_completed()
        assert not answered.is_set()
    finally:
        answered.set()
