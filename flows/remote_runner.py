"""The near side of a run whose tasks are done by other processes: sends parts, adds up what they counted, stops them.

The run's own process plans, holds the leases, deletes what vanished, verifies and moves aliases. Parts of several batches are on their way
at a time, so that every worker has something to do.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from prefect.futures import PrefectFuture

from chunkers import Document
from flows import workers
from flows.ingestion import Ingestion
from flows.parts import part_of
from flows.running import Wait
from flows.sources import Entry
from flows.tasks import outcome, write_part
from stores import StoreError

if TYPE_CHECKING:
    from prefect.task_runners import TaskRunner

log = logging.getLogger(__name__)

# Seconds that tasks may take to end when the run is stopped; whoever cancels a run kills it after 30.
STOP = 20.0
# Tasks on their way for each worker, so that none waits for the next.
AHEAD = 2


class RemoteRunner:
    """Submits one task for each strategy and batch to a task runner of Prefect's, which is started for the first of them.

    Args:
        ingestion: the run.
        start: starts the task runner; what it is, and how many tasks it does at a time.
    """

    def __init__(self, ingestion: Ingestion, start: Callable[[], tuple[TaskRunner[Any], int]]) -> None:
        self._ingestion = ingestion
        self._start = start
        self._batches: dict[int, Sequence[Entry]] = {}
        self._started: dict[PrefectFuture[Any], tuple[str, int]] = {}

    @cached_property
    def _workers(self) -> tuple[TaskRunner[Any], int]:
        return self._start()

    @property
    def window(self) -> int:
        """How many batches may be in hand at a time."""
        return max(2, -(-AHEAD * self._workers[1] // len(self._ingestion.request.strategies)))

    def load(self, ingestion: Ingestion, batch: Sequence[Entry], number: int) -> list[Document]:
        """Nothing: a part is loaded where it is written."""
        self._batches = {number: batch}
        return []

    def write(self, ingestion: Ingestion, name: str, documents: Sequence[Document], number: int) -> Wait:
        part = part_of(ingestion, name, self._batches[number], number)
        if not part.rows:
            return lambda: None
        given = {"strategy": name, "number": number, "part": part.packed()}
        try:
            with workers.no_interrupts_for_children():
                future = self._workers[0].submit(write_part, given)
        except Exception as error:
            failure = _explained(error)

            def fail() -> None:
                raise failure

            return fail
        self._started[future] = name, len(part.rows)

        def wait() -> None:
            self._land(future)

        return wait

    def _land(self, future: PrefectFuture[Any], seconds: float | None = None) -> None:
        """Waits for a task and counts what it counted. An interrupt leaves it among those that `drain` waits for.

        Raises:
            TimeoutError: it has not ended.
            StoreError: it failed.
            Exception: an unexpected error of the task's.
        """
        name, documents = self._started[future]
        try:
            counts = outcome(future, seconds)
        except TimeoutError:
            raise
        except Exception as error:
            del self._started[future]
            self._add(name, getattr(error, "counts", None))
            raise _explained(error) from error
        del self._started[future]
        self._add(name, counts)
        self._ingestion.observer.advanced(name, documents)

    def _add(self, name: str, counts: dict[str, Any] | None) -> None:
        own = self._ingestion.own(name)
        # Whatever became of it, something may have been written.
        own.elsewhere = True
        if counts:
            own.add(counts)
            self._ingestion.noted(
                [(uri, told) for uri, told in counts["notes"]],
                counts["blank"],
                [(uri, told) for uri, told in counts["unreadable"]],
            )

    def drain(self) -> None:
        """Tells the tasks to stop, if any are on their way, and waits for them; what they have done is counted."""
        if not self._started:
            return
        self._ingestion.leases.stopping()
        until = time.monotonic() + STOP
        for future in list(self._started):
            try:
                self._land(future, max(0.1, until - time.monotonic()))
            except Exception as error:
                log.info("a task ended with the run: %s", error)
        if self._started:
            log.warning("%d tasks have not ended in %d seconds and are killed", len(self._started), STOP)
            workers.abandon(self._workers[0])
            self._started.clear()


@contextmanager
def remote_runner(ingestion: Ingestion) -> Iterator[RemoteRunner]:
    """A runner with processes, or with a cluster, as the settings of the run say."""
    with ExitStack() as stack:
        yield RemoteRunner(ingestion, lambda: stack.enter_context(workers.started(ingestion.settings)))


def _explained(error: Exception) -> Exception:
    """What befell a task from outside, for a person."""
    if isinstance(error, BrokenExecutor) or type(error).__name__ == "KilledWorker":
        return StoreError(
            "a worker process died, killed or out of memory; what was in hand is taken up by the next run, less of it at a time"
        )
    return error
