"""What a run shows in Prefect's UI while it works and at its end: tags, progress, a table and a report as artifacts.

None of it may hold the work up or undo it: the server is told from threads that nobody waits long for, and what it does not take is
left out with a line in the log.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Any
from uuid import UUID

from prefect import runtime
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client

from flows import run_report
from flows.form import OFFERED
from flows.ingestion import Ingestion
from flows.left_runs import find_left_runs
from flows.observer import Observer

log = logging.getLogger(__name__)

# Seconds between two updates of the progress.
INTERVAL = 2.0
# Seconds that the end of a run waits for the server at most, for each thing that it is told.
PATIENCE = 15.0


def run_name() -> str:
    """The name of the flow run that this is called in."""
    return run_report.run_name(runtime.flow_run.flow_name or "", runtime.flow_run.parameters or {})


class Page(Observer):
    """The page of a run: hears of its progress, and passes everything on to whoever listened before.

    Use it as a context manager around the run.

    Args:
        ingestion: the run, which reports here from now on.
    """

    def __init__(self, ingestion: Ingestion) -> None:
        self._ingestion = ingestion
        self._inner = ingestion.observer
        self._lock = threading.Lock()
        self._total = self._done = self._documents = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        ingestion.observer = self

    def __enter__(self) -> Page:
        report, request = self._ingestion.report, self._ingestion.request
        flow = runtime.flow_run.flow_name or ""
        _tell("the run's tags", lambda: _add_tags(run_report.tags(flow, report, request)))
        if runtime.deployment.id and not request.dry_run:
            # A private server of a single command has nobody who could clear what is left there.
            _tell("the question which runs are left", self._note_left_runs)
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._thread:
            self._thread.join(PATIENCE)
        self.publish()

    def _note_left_runs(self) -> None:
        report = self._ingestion.report
        for run in find_left_runs(runtime.flow_run.id, report.corpus, [*report.strategies]):
            log.warning("flow run %s %s", run.name, run.told())
            report.notes.append((f"flow run {run.name}", run.told()))

    def planned(self, strategies: dict[str, int]) -> None:
        self._total, self._documents = sum(strategies.values()), max(strategies.values(), default=0)
        if not self._ingestion.request.dry_run:
            context = contextvars.copy_context()  # the artifact belongs to this flow run
            self._thread = threading.Thread(target=context.run, args=(self._show,), name="progress", daemon=True)
            self._thread.start()
        self._inner.planned(strategies)

    def advanced(self, strategy: str, documents: int) -> None:
        with self._lock:
            self._done += documents
        self._inner.advanced(strategy, documents)

    def noted(self, message: str) -> None:
        self._inner.noted(message)

    def percent(self) -> float:
        """How much of what is to be written is settled; 100 where nothing is."""
        return 100.0 if not self._total else min(100.0, round(100.0 * self._done / self._total, 1))

    def _show(self) -> None:
        """Creates the progress artifact, and keeps it up to date until the run has ended."""
        try:
            report = self._ingestion.report
            what = f"{self._documents:,} documents to be written under {len(report.strategies)} strategies"
            key = run_report.artifact_key("progress", report)
            shown = self.percent()
            made: Any = create_progress_artifact(shown, key=key, description=f"Corpus {report.corpus}: {what}")
            while True:
                ended = self._ended.wait(INTERVAL)
                if self.percent() != shown:
                    shown = self.percent()
                    update_progress_artifact(UUID(str(made)), shown)
                if ended:
                    return
        except Exception as error:
            log.warning("the Prefect server does not take the run's progress: %s", error)

    def publish(self) -> None:
        """The table and the report, as far as the run came."""
        report, settings = self._ingestion.report, self._ingestion.settings
        ran = run_report.Ran(
            self._ingestion.request,
            settings.model_dump(include=settings.model_fields_set.intersection(OFFERED)),
            settings.qdrant_url,
            str(settings.home / "qdrant"),
        )
        summary = run_report.escape(report.summary())  # Prefect shows a description as markdown
        _tell(
            "the run's table",
            lambda: create_table_artifact(
                run_report.table(report), key=run_report.artifact_key("table", report), description=summary
            ),
        )
        _tell(
            "the run's report",
            lambda: create_markdown_artifact(
                run_report.markdown(report, ran), key=run_report.artifact_key("report", report), description=summary
            ),
        )


def _add_tags(tags: list[str]) -> None:
    id_ = UUID(runtime.flow_run.id)
    with get_client(sync_client=True) as client:
        client.update_flow_run(id_, tags=sorted({*client.read_flow_run(id_).tags, *tags}))


def _tell(what: str, call: Callable[[], object]) -> None:
    """`call()`, which is given `PATIENCE` seconds. The run's work is stored already, so a server that is gone does not undo it."""
    failed: list[Exception] = []

    def attempt() -> None:
        try:
            call()
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(attempt,), name="page", daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if thread.is_alive() or failed:
        told = failed[0] if failed else f"no answer within {PATIENCE:.0f} s"
        log.warning("the Prefect server does not take %s: %s", what, told)
