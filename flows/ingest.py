"""The Prefect flow: one run over a source, a task to load each batch of documents and one task per strategy to store it, side by side.

The flow is a thin shell around `flows.running`. Tasks get the run's id and a batch number, never documents: threads of this process
find the run in `running.under_way`, so six tasks share one reading and one tokenisation of a batch, and nothing large passes through
Prefect. Results are neither persisted nor hashed. The final state is computed from the report's counts: Completed, or Failed with a
message that names what failed while everything else is stored.
"""

# No postponed annotations here: Prefect reads the flow's parameters, in other modules and processes, too, where names of this module
# are not known.
import logging
import os
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from prefect import flow, runtime, task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture
from prefect.states import Cancelled, Completed, Failed
from prefect.task_runners import ThreadPoolTaskRunner
from pydantic import Field

from chunkers import STRATEGIES, Document, ModelError, SettingError
from flows import running
from flows.ingestion import Ingestion
from flows.observer import current
from flows.report import Report
from flows.request import Request
from flows.running import Wait, run
from flows.settings import Settings, SettingsError
from flows.sources import Entry, SourceError
from stores import StoreError

StrategyName = Literal[
    "fixed_size", "recursive", "sentence", "semantic", "contextual_retrieval", "semantic_parent_child"
]

log = logging.getLogger(__name__)


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


@flow(
    name="ingest",
    flow_run_name="ingest {source}",
    persist_result=False,
    task_runner=ThreadPoolTaskRunner(max_workers=len(STRATEGIES) + 1),  # type: ignore[arg-type]
)
def ingest(
    source: str,
    strategies: list[StrategyName] | None = None,
    corpus: str | None = None,
    rebuild: bool = False,
    dry_run: bool = False,
    allow_deletes: Annotated[int, Field(ge=0)] = 0,
    retry_parked: bool = False,
    overrides: dict[str, str] | None = None,
) -> State[None]:
    """Keeps one Qdrant collection per chunking strategy in step with a corpus.

    Args:
        source: A folder, a file or a glob of markdown and text files, on the machine that runs the flow.
        strategies: The chunking strategies to bring up to date; all six by default.
        corpus: The corpus's name; by default that of the root folder.
        rebuild: Build new collections beside the live ones and switch to them at the end. Needed when a setting has changed.
        dry_run: Report what would be done, and write nothing.
        allow_deletes: Delete up to this many vanished documents, although more than a tenth of the corpus is gone.
        retry_parked: Try documents again that failed so often that they were parked.
        overrides: Settings for this run alone, by name, such as chunk_size.
    """
    observer = current()
    try:
        request = Request(
            source, corpus, tuple(strategies or STRATEGIES), rebuild, dry_run, allow_deletes, retry_parked
        )
        ingestion = observer.prepared(request) or _open(request, Settings.load(overrides))
    except (SourceError, SettingError, SettingsError, StoreError, ModelError, OSError) as error:
        return Failed(message=str(error))
    with ingestion:
        running.under_way[ingestion.run_id] = runner = PrefectRunner(ingestion)
        try:
            report = run(ingestion, runner)
        except KeyboardInterrupt:
            return Cancelled(message=ingestion.report.summary())
        finally:
            del running.under_way[ingestion.run_id]
            _publish(ingestion.report)
    if report.exit_status:
        return Failed(message=report.summary())
    return Completed(message=report.summary())


def _open(request: Request, settings: Settings) -> Ingestion:
    """A run of a deployment, or of somebody who calls the flow.

    Raises:
        SettingsError: a worker starts the flow in a temporary folder, where an embedded store would be lost.
    """
    if runtime.deployment.id and not settings.qdrant_url and "QUARRY_HOME" not in os.environ:
        raise SettingsError("set QUARRY_HOME to an absolute folder, or QDRANT_URL, in the environment of the worker")
    return Ingestion(request, settings)


def _publish(report: Report) -> None:
    """The table of a run as an artifact. The run's work is stored already, so a server that is gone does not undo it."""
    rows = []
    for name, own in report.strategies.items():
        told = own.as_json()
        row = {column: told[column] for column in _COLUMNS}
        rows.append({"strategy": name, **row, "failed": len(own.failed), "error": own.error or ""})
    try:
        create_table_artifact(rows, key=f"ingest-{report.corpus}".replace("_", "-"), description=report.summary())
    except Exception as error:
        log.warning("the run's table could not be sent to the Prefect server: %s", error)


_COLUMNS = ("documents", "unchanged", "chunks", "upserted", "deleted", "embedded", "cached", "seconds")
