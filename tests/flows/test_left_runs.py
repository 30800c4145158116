"""Which flow runs count as left behind by a stopped worker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from chunkers import STRATEGIES
from flows.left_runs import left_runs

NOW = datetime(2026, 3, 2, 4, 0, tzinfo=UTC)


def run(**changes: Any) -> Any:
    """A run that a worker left an hour ago."""
    told = {
        "id": "other",
        "name": "ingest docs",
        "start_time": NOW - timedelta(hours=1),
        "expected_start_time": None,
        "tags": ["corpus:docs"],
        "parameters": {"strategies": None},
    }
    return SimpleNamespace(**{**told, **changes})


def found(*runs: Any, strategies: tuple[str, ...] = STRATEGIES) -> list[str]:
    return [one.id for one in left_runs(runs, own="own", corpus="docs", strategies=strategies, now=NOW)]


def test_a_run_over_the_same_collections_that_began_long_ago_is_left() -> None:
    assert found(run()) == ["other"]


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "own"},
        {"start_time": NOW - timedelta(seconds=30)},
        {"start_time": None},
        {"tags": []},
        {"tags": ["corpus:docs-2"]},
    ],
    ids=["this run itself", "just begun", "not begun", "of no known corpus", "of another corpus"],
)
def test_a_run_is_not_left_if_it_is(changes: dict[str, Any]) -> None:
    assert found(run(**changes)) == []


def test_a_run_over_other_strategies_may_be_at_work() -> None:
    other = run(parameters={"strategies": ["sentence"]})
    assert found(other, strategies=("recursive",)) == []
    assert found(other, strategies=("recursive", "sentence")) == ["other"]


def test_a_left_run_is_told_with_what_clears_it() -> None:
    (left,) = left_runs([run()], own="own", corpus="docs", strategies=STRATEGIES, now=NOW)
    assert left.told() == (
        "is said to be running since 2026-03-02 03:00 UTC, but nobody works on it; `prefect flow-run delete other` clears it"
    )
