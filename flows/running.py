"""The order of a run: plan, batch by batch load and write, finish. Who does the work side by side is left to a `Runner`.

`run` is the same for the Prefect flow, whose runner submits tasks, and for `--plain`, whose runner has a few threads. It always ends
with a report: a strategy that stops is marked and left out of what follows, and an interruption lets every strategy end the documents
in hand before it is passed on.
"""

from __future__ import annotations

import gc
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol, Self

from chunkers import Document, ModelError
from chunkers.redaction import in_words
from flows.ingestion import Ingestion
from flows.report import Report
from flows.retries import patiently
from flows.sources import Entry
from flows.stopping import undisturbed
from stores import StoreError

Wait = Callable[[], None]

log = logging.getLogger(__name__)

# The runs that Prefect tasks of this process work for, by their id. It stands here, not beside the tasks, because Prefect may load the
# module of the flow a second time under another name.
under_way: dict[str, Any] = {}


class Runner(Protocol):
    """Does the steps of a run, in this thread or elsewhere.

    Attributes:
        window: how many batches may be in hand at a time.
    """

    @property
    def window(self) -> int: ...

    def load(self, ingestion: Ingestion, batch: Sequence[Entry], number: int) -> list[Document]:
        """`ingestion.load(batch)`."""
        ...

    def write(self, ingestion: Ingestion, name: str, documents: Sequence[Document], number: int) -> Wait:
        """Starts `ingestion.write(name, documents)`; what it returns waits for the end and raises what was raised."""
        ...

    def drain(self) -> None:
        """Waits for every step that was started, whatever becomes of it."""
        ...


class PlainRunner:
    """One thread a strategy, no Prefect."""

    window = 1

    def __init__(self, strategies: int) -> None:
        self._threads = ThreadPoolExecutor(max_workers=max(1, strategies), thread_name_prefix="strategy")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.drain()

    def load(self, ingestion: Ingestion, batch: Sequence[Entry], number: int) -> list[Document]:
        return ingestion.load(batch)

    def write(self, ingestion: Ingestion, name: str, documents: Sequence[Document], number: int) -> Wait:
        future: Future[None] = self._threads.submit(patiently, lambda: ingestion.write(name, documents), ingestion.stop)
        return future.result

    def drain(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)


def run(ingestion: Ingestion, runner: Runner) -> Report:
    """Runs `ingestion` to its end and returns its report.

    Raises:
        KeyboardInterrupt and the like: after the strategies have ended the documents in hand.
    """
    report = ingestion.report
    ingestion.observer.report = report
    try:
        with _frozen():
            ingestion.plan()
            _write_batches(ingestion, runner)
            for name in ingestion.active():
                if ingestion.stop.is_set():
                    break
                _isolated(ingestion, name, lambda name=name: ingestion.finish(name))  # type: ignore[misc]
        # A run that lost its lease has an error, and was interrupted by nobody.
        report.interrupted = ingestion.stop.is_set() and report.error is None
    except (StoreError, ModelError, OSError) as error:
        report.error = in_words(error)
    except BaseException as error:
        report.interrupted = not isinstance(error, Exception)
        if report.interrupted:
            log.info("stopping after the documents in hand")
        raise
    finally:
        # Whatever ended the run, the store is closed only when nobody writes to it any more.
        ingestion.stop.set()
        with undisturbed():
            runner.drain()
            ingestion.count_left()
    return report


@contextmanager
def _frozen() -> Iterator[None]:
    """Inside, what stands in memory now is not looked through for garbage: modules, and an embedded store. That took a twentieth of a
    short run's time. Nothing is changed where somebody else has frozen it."""
    if gc.get_freeze_count():
        yield
        return
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _write_batches(ingestion: Ingestion, runner: Runner) -> None:
    """Has every batch written, so many at a time as the runner can use. What killed a run has nothing else in hand beside it."""
    flying: deque[dict[str, Wait]] = deque()

    def land(most: int) -> None:
        while len(flying) > most:
            for name, wait in flying.popleft().items():
                _isolated(ingestion, name, wait)

    for number, batch in enumerate(ingestion.batches(), start=1):
        room = 1 if ingestion.killed(batch) else runner.window
        land(room - 1)
        if ingestion.stop.is_set() or not ingestion.active():
            break
        documents = runner.load(ingestion, batch, number)
        flying.append({name: runner.write(ingestion, name, documents, number) for name in ingestion.active()})
        if room == 1:
            land(0)
    land(0)


def _isolated(ingestion: Ingestion, name: str, step: Wait) -> None:
    """A step of one strategy, whose failure is that strategy's alone."""
    try:
        step()
    except Exception as error:
        # What ends because the run was stopped has not failed.
        if not ingestion.stop.is_set():
            ingestion.failed(name, error)
