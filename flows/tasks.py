"""The steps of a run as Prefect tasks of the flow's threads: one to load each batch of documents, and one per strategy to store it.

Tasks get the run's id and a batch number, never documents: threads of this process find the run in `running.under_way`, so six tasks share
one reading and one tokenisation of a batch, and nothing large passes through Prefect. Results are neither persisted nor hashed.
"""

# No postponed annotations here: Prefect reads the signatures of tasks in other modules and processes, too.
from collections.abc import Sequence
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture
from prefect.states import Failed

from chunkers import Document, ModelError
from flows import running
from flows.ingestion import Ingestion
from flows.running import Wait
from flows.sources import Entry
from stores import StoreError


class PrefectRunner:
    """Submits the steps of a run as Prefect tasks to the flow's threads."""

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
        _outcome(self._start(load_batch.submit(ingestion.run_id, number)))
        return self.documents[number]

    def write(self, ingestion: Ingestion, name: str, documents: Sequence[Document], number: int) -> Wait:
        future = self._start(write_batch.submit(ingestion.run_id, name, number))
        return lambda: _outcome(future)

    def drain(self) -> None:
        for future in self._started:
            future.wait()

    def _start(self, future: PrefectFuture[Any]) -> PrefectFuture[Any]:
        self._started.append(future)
        return future


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
        return Failed(message=str(error))
    return len(runner.documents[number])


@task(name="write", task_run_name="{strategy}-{number}", cache_policy=NO_CACHE, persist_result=False)
def write_batch(run_id: str, strategy: str, number: int) -> dict[str, int] | State[None]:
    """Chunks, embeds and stores a batch of documents under one strategy.

    Args:
        run_id: the run in this process.
        strategy: a name of `chunkers.STRATEGIES`.
        number: the batch, from 1.
    """
    runner = running.under_way[run_id]
    try:
        runner.ingestion.write(strategy, runner.documents[number])
    except (StoreError, ModelError) as error:
        # Expected kinds of failure are told in one line, without a traceback in the log.
        return Failed(message=str(error))
    told = runner.ingestion.report.strategies[strategy]
    return {"documents": told.documents, "upserted": told.upserted, "failed": len(told.failed)}


def _outcome(future: PrefectFuture[Any]) -> None:
    """Waits for a task and raises what it raised. Its state is asked for only then: before, it may be an old one."""
    future.wait()
    state = future.state
    if state.is_failed() and state.data is None:
        raise StoreError(state.message or "the task failed")
    state.result(raise_on_failure=True)
