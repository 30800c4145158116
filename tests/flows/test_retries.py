"""What is tried again, how often, and what a second try leaves out."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest

from chunkers import ModelError
from chunkers.models.retry_rules import classify as classify_model
from flows.retries import again, may_pass, patiently, wait_before
from stores import StoreError
from stores.transport import classify as classify_store
from tests.doubles import HashEmbedder
from tests.flows.conftest import flow_run, ingest, recorded
from tests.models.test_retry_rules import answered as model_answered
from tests.models.test_retry_rules import broken
from tests.stores.test_transport import answered, unanswered

AWAY = StoreError("no answer", fatal=True, passing=True)


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        *((answered(status), True) for status in (429, 502, 503, 504)),
        *((answered(status), False) for status in (400, 401, 403, 404, 413, 500)),
        (unanswered(httpx.ConnectError("refused")), True),
        (unanswered(httpx.ReadTimeout("slow")), True),
        (OSError(28, "No space left on device"), False),
    ],
)
def test_a_store_passes_that_was_away_or_too_busy(error: Exception, passing: bool) -> None:
    assert classify_store(error).passing is passing


@pytest.mark.parametrize(
    ("error", "passing"),
    [
        (model_answered(429), True),
        (broken(httpx2.ConnectError("refused")), True),
        (model_answered(401), False),
        (model_answered(400), False),
        (model_answered(429, {"code": "insufficient_quota"}), False),
    ],
)
def test_a_model_passes_that_was_away_or_too_busy(error: Exception, passing: bool) -> None:
    assert classify_model(error).passing is passing


@pytest.mark.parametrize(
    ("error", "tries", "more"),
    [
        (AWAY, 1, True),
        (AWAY, 2, True),
        (AWAY, 3, False),
        (StoreError("a wrong key", fatal=True), 1, False),
        (ModelError("busy", fatal=True, passing=True), 1, True),
        (ValueError("a fault of ours"), 1, False),
    ],
)
def test_who_is_tried_again(error: Exception, tries: int, more: bool) -> None:
    assert again(error, tries) is more


def test_waits_grow_and_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.retries.WAITS", (2.0, 8.0))
    first, second = ([wait_before(tries) for _ in range(50)] for tries in (1, 2))
    assert min(first) >= 1.5
    assert max(first) <= 2.5 < 6 <= min(second)
    assert max(second) <= 10
    assert len(set(first)) > 1


def failing(*errors: Exception) -> Any:
    left = list(errors)

    def work() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return work


def test_plain_work_is_tried_three_times() -> None:
    assert patiently(failing(AWAY, AWAY), threading.Event()) == "done"
    with pytest.raises(StoreError, match="no answer"):
        patiently(failing(AWAY, AWAY, AWAY), threading.Event())


def test_a_run_that_stops_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flows.retries.WAITS", (3600.0, 3600.0))
    stop = threading.Event()
    threading.Timer(0.05, stop.set).start()
    assert patiently(failing(AWAY), stop) == "done"
    with pytest.raises(StoreError):
        patiently(failing(AWAY), stop)


class Absent(HashEmbedder):
    """Away for so many calls, after so many that it answered."""

    def __init__(self, answers: int, away: int, *, passing: bool = True) -> None:
        super().__init__()
        self.answers, self.away, self.passing = answers, away, passing

    def embed(self, texts: Any) -> Any:
        self.answers -= 1
        if self.answers < 0 and self.away > 0:
            self.away -= 1
            raise ModelError("the model is away", fatal=True, passing=self.passing)
        return super().embed(texts)


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> Absent:
    embedder = Absent(1, 2)
    monkeypatch.setattr("flows.models.open_embedder", lambda name, endpoint, **options: embedder)
    # Every document by itself.
    monkeypatch.setattr("stores.writer.DOCUMENTS", 1)
    return embedder


def test_a_next_try_leaves_out_what_is_stored_and_counts_nothing_twice(source: Path, absent: Absent) -> None:
    report = ingest(source, "recursive")
    own = report.strategies["recursive"]
    assert (report.exit_status, own.documents, own.failed) == (0, 3, [])
    assert own.upserted == own.chunks == 3
    assert len(absent.texts) == len(set(absent.texts)) == 3


def test_a_next_try_leaves_out_what_failed(source: Path, absent: Absent) -> None:
    absent.answers = 2
    absent.refused = "pump"
    report = ingest(source, "recursive")
    own = report.strategies["recursive"]
    assert [uri for uri, _ in own.failed] == ["guide.md"]
    assert (own.documents, own.error, own.upserted) == (3, None, 2)


def test_a_model_that_stays_away_stops_its_strategy_and_the_next_run_completes(source: Path, absent: Absent) -> None:
    absent.away = 3
    report = ingest(source, "recursive")
    assert report.strategies["recursive"].error == "the model is away"
    assert report.strategies["recursive"].documents == 1
    again = ingest(source, "recursive").strategies["recursive"]
    assert (again.unchanged, again.documents, again.failed) == (1, 3, [])


def test_what_cannot_pass_is_tried_once(source: Path, absent: Absent) -> None:
    absent.passing, absent.away = False, 1
    assert ingest(source, "recursive").strategies["recursive"].error == "the model is away"


def test_errors_say_whether_they_pass() -> None:
    assert may_pass(AWAY)
    assert not may_pass(StoreError("a wrong key", fatal=True))


@pytest.mark.flow
@pytest.mark.parametrize(("away", "runs", "state"), [(2, 3, "Completed"), (3, 3, "Failed")])
def test_prefect_tries_a_task_again_and_says_the_cause_in_the_end(
    source: Path, prefect_server: None, absent: Absent, away: int, runs: int, state: str
) -> None:
    absent.away = away
    found = flow_run(source, strategies=["recursive"])
    assert found.name == state
    run, tasks, _ = recorded(found)
    (task,) = (task for task in tasks if task.name.startswith("recursive"))
    assert (task.run_count, task.state_name) == (runs, state)
    if state == "Failed":
        assert task.state.message == "the model is away"
        assert (
            run.state.message
            == "1 of 1 strategies failed: recursive (the model is away); documents not attempted: 2 in recursive"
        )
