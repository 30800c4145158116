"""The steps of a run as Prefect tasks: in the flow's threads one to load each batch and one per strategy to store it, in other processes
one per strategy and batch that does both.

Threads get the run's id and a batch number, never documents: they find the run in `running.under_way`, so six tasks share one reading and
one tokenisation of a batch. Processes get a packed `Part`. Nothing large passes through Prefect, and results are neither persisted nor
hashed.

A task is tried again where the failure may pass (`flows.retries`). The wait for that is in the task, since Prefect's own cannot be ended
when the run is stopped.
"""

# No postponed annotations here: Prefect reads the signatures of tasks in other modules and processes, too.
from collections.abc import Sequence
from threading import Event
from typing import Any

from prefect import runtime, task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture
from prefect.states import Failed

from chunkers import Document, ModelError
from chunkers.redaction import in_words
from flows import logs, remote, retries, running
from flows.ingestion import Ingestion
from flows.running import Wait
from flows.sources import Entry
from stores import StoreError

# The name of the state in which a task asks Prefect to be tried again.
PASSING = "Passing"
# One more than is asked for: of the last retry that it counts Prefect logs an error with a traceback of nothing.
RETRIES = len(retries.WAITS) + 1


class PrefectRunner:
    """Submits the steps of a run as Prefect tasks to the flow's threads."""

    window = 1

    def __init__(self, ingestion: Ingestion) -> None:
        self.ingestion = ingestion
        self.batches: dict[int, Sequence[Entry]] = {}
        self.documents: dict[int, list[Document]] = {}
        self._started: list[PrefectFuture[Any]] = []

    def load(self, ingestion: Ingestion, batch: Sequence[Entry], number: int) -> list[Document]:
        # Only the batch in hand is kept: memory does not grow with the corpus.
        self.documents.clear()
        self._started.clear()
        self.batches = {number: batch}
        outcome(self._start(load_batch.submit(ingestion.run_id, number)))
        return self.documents[number]

    def write(self, ingestion: Ingestion, name: str, documents: Sequence[Document], number: int) -> Wait:
        future = self._start(write_batch.submit(ingestion.run_id, name, number))

        def wait() -> None:
            outcome(future)

        return wait

    def drain(self) -> None:
        for future in self._started:
            future.wait()

    def _start(self, future: PrefectFuture[Any]) -> PrefectFuture[Any]:
        self._started.append(future)
        return future


def _worth_another_try(task: Any, task_run: Any, state: State[Any]) -> bool:
    return state.name == PASSING


@task(name="load", task_run_name="load-{number}", cache_policy=NO_CACHE, persist_result=False)
def load_batch(run_id: str, number: int) -> int | State[None]:
    """Reads a batch of documents.

    Args:
        run_id: the run in this process.
        number: the batch, from 1.
    """
    runner = running.under_way[run_id]
    try:
        runner.documents[number] = runner.ingestion.load(runner.batches[number])
    except ModelError as error:
        return Failed(message=in_words(error))
    return len(runner.documents[number])


@task(
    name="write",
    task_run_name="{strategy}-{number}",
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=RETRIES,
    retry_condition_fn=_worth_another_try,
)
def write_batch(run_id: str, strategy: str, number: int) -> dict[str, int] | State[Any]:
    """Chunks, embeds and stores a batch of documents under one strategy.

    Args:
        run_id: the run in this process.
        strategy: a name of `chunkers.STRATEGIES`.
        number: the batch, from 1.
    """
    runner = running.under_way[run_id]
    stop, tries = runner.ingestion.stop, _tries()
    if tries > 1:
        stop.wait(retries.wait_before(tries - 1))
    try:
        runner.ingestion.write(strategy, runner.documents[number])
    except (StoreError, ModelError) as error:
        return _failed(error, tries, stop)
    told = runner.ingestion.report.strategies[strategy]
    return {"documents": told.documents, "upserted": told.upserted, "failed": len(told.failed)}


@task(
    name="write part",
    task_run_name="{strategy}-{number}",
    cache_policy=NO_CACHE,
    persist_result=False,
    retries=RETRIES,
    retry_condition_fn=_worth_another_try,
)
def write_part(strategy: str, number: int, part: bytes) -> dict[str, Any] | State[Any]:
    """Loads, chunks, embeds and stores a batch of documents under one strategy, in whatever process this is.

    Args:
        strategy: a name of `chunkers.STRATEGIES`.
        number: the batch, from 1.
        part: a packed `flows.parts.Part`.
    """
    logs.set_up_for_run()
    tries = _tries()
    try:
        return remote.work(part, tries)
    except remote.EXPECTED as error:
        return _failed(error, tries)


def _tries() -> int:
    return int(runtime.task_run.run_count or 1)


def _failed(error: Exception, tries: int, stop: Event | None = None) -> State[Any]:
    """Expected kinds of failure are told in one line, without a traceback in the log."""
    told = in_words(error)
    if retries.again(error, tries) and not (stop and stop.is_set()):
        return Failed(name=PASSING, message=told)
    return Failed(message=told, data=getattr(error, "counts", None))


def outcome(future: PrefectFuture[Any], seconds: float | None = None) -> Any:
    """Waits for a task, so long at most; what it returned. Its state is asked for only then: before, it may be an old one.

    Raises:
        TimeoutError: it has not ended.
        StoreError: the task failed; what it counted is in the attribute `counts`.
        Exception: it raised, or its process died.
    """
    # Unlike `wait`, this raises what befell the process that had the task.
    result = future.result(timeout=seconds, raise_on_failure=False)
    state = future.state
    if state.is_completed():
        return result
    if isinstance(result, BaseException):
        raise result
    failed = StoreError(state.message or "the task failed")
    failed.counts = result  # type: ignore[attr-defined]
    raise failed
