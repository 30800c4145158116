"""The Prefect flow: one run over a source, a task to load each batch of documents and one task per strategy to store it, side by side.

The flow is a thin shell around `flows.running`. Tasks get the run's id and a batch number, never documents: threads of this process find
the run in `_runs`, so six tasks share one reading and one tokenisation of a batch, and nothing large passes through Prefect. Results are
neither persisted nor hashed. The final state is computed from the report's counts: Completed, or Failed with a message that names
what failed while everything else is stored.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, Literal

from prefect import flow, task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State
from prefect.futures import PrefectFuture
from prefect.states import Cancelled, Completed, Failed
from prefect.task_runners import ThreadPoolTaskRunner

from chunkers import STRATEGIES, Document, ModelError, SettingError
from flows.ingestion import Ingestion, Request
from flows.observer import current
from flows.report import Report
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

    def load(self, ingestion: Ingestion, batch: Sequence[Entry], number: int) -> list[Document]:
        # Only the batch in hand is kept: memory does not grow with the corpus.
        self.documents.clear()
        self.batches = {number: batch}
        _outcome(load_batch.submit(ingestion.run_id, number))
        return self.documents[number]

    def write(self, ingestion: Ingestion, name: str, documents: Sequence[Document], number: int) -> Wait:
        future = write_batch.submit(ingestion.run_id, name, number)
        return lambda: _outcome(future)


# The runs under way in this process, by their id.
_runs: dict[str, PrefectRunner] = {}


@task(name="load", task_run_name="load-{number}", cache_policy=NO_CACHE, persist_result=False)
def load_batch(run_id: str, number: int) -> int:
    """Reads a batch of documents.

    Args:
        run_id: the run in this process.
        number: the batch, from 1.
    """
    runner = _runs[run_id]
    runner.documents[number] = runner.ingestion.load(runner.batches[number])
    return len(runner.documents[number])


@task(name="write", task_run_name="{strategy}-{number}", cache_policy=NO_CACHE, persist_result=False)
def write_batch(run_id: str, strategy: str, number: int) -> dict[str, int]:
    """Chunks, embeds and stores a batch of documents under one strategy.

    Args:
        run_id: the run in this process.
        strategy: a name of `chunkers.STRATEGIES`.
        number: the batch, from 1.
    """
    runner = _runs[run_id]
    runner.ingestion.write(strategy, runner.documents[number])
    told = runner.ingestion.report.strategies[strategy]
    return {"documents": told.documents, "upserted": told.upserted, "failed": len(told.failed)}


def _outcome(future: PrefectFuture[Any]) -> None:
    """Waits for a task and raises what it raised. Its state is asked for only then: before, it may be an old one."""
    future.wait()
    future.state.result(raise_on_failure=True)


@flow(
    name="ingest",
    flow_run_name="ingest {source}",
    persist_result=False,
    task_runner=ThreadPoolTaskRunner(max_workers=len(STRATEGIES) + 1),  # type: ignore[arg-type]
)
def ingest(
    source: str,
    corpus: str | None = None,
    strategies: list[StrategyName] | None = None,
    rebuild: bool = False,
    dry_run: bool = False,
    allow_deletes: int = 0,
    overrides: dict[str, str] | None = None,
) -> State[None]:
    """Keeps one Qdrant collection per chunking strategy in step with a corpus.

    Args:
        source: A folder, a file or a glob of markdown and text files, on the machine that runs the flow.
        corpus: The corpus's name; by default that of the root folder.
        strategies: The chunking strategies to bring up to date; all six by default.
        rebuild: Build new collections beside the live ones and switch to them at the end. Needed when a setting has changed.
        dry_run: Report what would be done, and write nothing.
        allow_deletes: Delete up to this many vanished documents, although more than a tenth of the corpus is gone.
        overrides: Settings for this run alone, by name, such as chunk_size.
    """
    observer = current()
    request = Request(source, corpus, tuple(strategies or STRATEGIES), rebuild, dry_run, allow_deletes)
    try:
        ingestion = observer.prepared(request) or Ingestion(request, Settings.load(overrides))
    except (SourceError, SettingError, SettingsError, StoreError, ModelError) as error:
        return Failed(message=str(error))
    with ingestion:
        _runs[ingestion.run_id] = runner = PrefectRunner(ingestion)
        try:
            report = run(ingestion, runner)
        except KeyboardInterrupt:
            return Cancelled(message=ingestion.report.summary())
        finally:
            del _runs[ingestion.run_id]
            _publish(ingestion.report)
    if report.exit_status:
        return Failed(message=report.summary())
    return Completed(message=report.summary())


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
