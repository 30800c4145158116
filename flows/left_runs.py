"""Flow runs that Prefect still shows as Running although nobody works on them.

Prefect leaves a run so when its worker was stopped or killed in the middle of it. This run holds the leases of its aliases, so whoever
was at work on them before is dead, or has ended; all that is left to do is to say so. Nothing is changed on the server: the state of a run
is its owner's to set.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from chunkers import STRATEGIES

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

log = logging.getLogger(__name__)

FLOWS = ("ingest", "backfill")
# A run that began a moment ago may be just about to be refused, or to end.
SETTLED = timedelta(minutes=2)
MOST = 20


@dataclass(frozen=True, slots=True)
class LeftRun:
    """A flow run that nobody works on: its id, its name, and since when it is said to run."""

    id: str
    name: str
    since: datetime

    def told(self) -> str:
        """What it is and how to clear it."""
        return (
            f"is said to be running since {self.since:%Y-%m-%d %H:%M} UTC, but nobody works on it; "
            f"`prefect flow-run delete {self.id}` clears it"
        )


def left_runs(
    runs: Iterable[FlowRun], *, own: str, corpus: str, strategies: Sequence[str], now: datetime
) -> list[LeftRun]:
    """Those of `runs` that were at work on a collection which another run writes to now. Pure.

    Args:
        runs: that Prefect says are running.
        own: id of the flow run that holds the leases now.
        corpus, strategies: what it holds.
        now: the time.
    """
    found = []
    for run in runs:
        since = run.start_time or run.expected_start_time
        if str(run.id) == own or since is None or now - since < SETTLED:
            continue
        if f"corpus:{corpus}" in run.tags and set(_strategies(run.parameters)) & set(strategies):
            found.append(LeftRun(str(run.id), run.name, since.astimezone(UTC)))
    return found


def _strategies(parameters: dict[str, Any]) -> Sequence[str]:
    return parameters.get("strategies") or STRATEGIES


def find_left_runs(own: str, corpus: str, strategies: Sequence[str]) -> list[LeftRun]:
    """The runs that the server says are running, and that nobody works on.

    Raises:
        Whatever the client raises where the server does not answer.
    """
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import (
        FlowFilter,
        FlowFilterName,
        FlowRunFilter,
        FlowRunFilterState,
        FlowRunFilterStateType,
    )
    from prefect.client.schemas.objects import StateType

    running = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.CANCELLING]))
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(
            flow_filter=FlowFilter(name=FlowFilterName(any_=[*FLOWS])),
            flow_run_filter=FlowRunFilter(state=running),
            limit=200,
        )
    return left_runs(runs, own=own, corpus=corpus, strategies=strategies, now=datetime.now(UTC))[:MOST]
