"""How the command line runs an ingestion: everything is checked first, then a Prefect server is found or started, then it runs.

The run is opened before the server is started, so a wrong folder or setting costs nothing; the flow takes over the opened run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.request import urlopen

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from chunkers.redaction import keep_address, redacted, shown_address
from flows.ingestion import Ingestion
from flows.observer import Observer, observed
from flows.report import Report
from flows.request import Request
from flows.running import PlainRunner, run
from flows.server import ServerError, prefect_environment, private_server, without_heartbeats
from flows.settings import Settings
from flows.workers import check

Say = Callable[[str], None]


class Watcher(Observer):
    """Shows a run's progress on standard error, and hands the opened run to the flow."""

    def __init__(self, say: Say, progress: Progress | None) -> None:
        self._say = say
        self._progress = progress
        self._bars: dict[str, TaskID] = {}
        self.ingestion: Ingestion | None = None

    def prepared(self, request: Request) -> Ingestion | None:
        return self.ingestion

    def planned(self, strategies: dict[str, int]) -> None:
        if self._progress:
            self._bars = {
                name: self._progress.add_task(name, total=total) for name, total in strategies.items() if total
            }

    def advanced(self, strategy: str, documents: int) -> None:
        if self._progress and strategy in self._bars:
            self._progress.advance(self._bars[strategy], documents)

    def noted(self, message: str) -> None:
        self._say(message)


def run_ingest(request: Request, settings: Settings, *, plain: bool, say: Say, quiet: bool) -> Report:
    """Runs `request` and returns its report, also after an interruption.

    Args:
        request: what to do.
        settings: parameters, models, places.
        plain: without Prefect.
        say: prints a line for a person.
        quiet: no progress bars.

    Raises:
        What opening an `Ingestion` raises, and ServerError where the Prefect server does not start.
    """
    if not request.dry_run:
        check(settings, plain=plain)
    progress = None if quiet or not sys.stderr.isatty() else _bars()
    watcher = Watcher(say, progress)
    with observed(watcher), Ingestion(request, settings) as ingestion:
        watcher.ingestion = ingestion
        with progress or nullcontext():
            try:
                if plain:
                    with PlainRunner(len(request.strategies)) as runner:
                        run(ingestion, runner)
                else:
                    with _server(settings, say):
                        _run_flow(request, ingestion)
            except KeyboardInterrupt:
                ingestion.report.interrupted = True
    return ingestion.report


def _bars() -> Progress:
    columns = (TextColumn("{task.description:22}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _run_flow(request: Request, ingestion: Ingestion) -> None:
    from prefect.exceptions import TerminationSignal

    from flows.form import OFFERED
    from flows.ingest import ingest

    given = ingestion.settings.model_dump(include=ingestion.settings.model_fields_set)
    try:
        state = ingest(
            # As anybody would have to give it to repeat the run from elsewhere.
            os.path.abspath(os.path.expanduser(request.source)),
            list(request.strategies),
            corpus=ingestion.corpus,
            rebuild=request.rebuild,
            dry_run=request.dry_run,
            allow_deletes=request.allow_deletes,
            retry_parked=request.retry_parked,
            max_failed=request.max_failed,
            max_cost=request.max_cost,
            **{name: value for name, value in given.items() if name in OFFERED},
            return_state=True,
        )
    except TerminationSignal as signal:
        # SIGTERM while Prefect has its own handler for it.
        raise KeyboardInterrupt from signal
    if not state.is_completed() and not ingestion.report.failures():
        ingestion.report.error = state.message or "the flow run did not complete"


@contextmanager
def _server(settings: Settings, say: Say) -> Iterator[None]:
    """The server that PREFECT_API_URL names, or a private one for this run."""
    named = os.environ.get("PREFECT_API_URL")
    if named:
        probe(named)
        os.environ.update(prefect_environment(named))
        say(f"Prefect server: {shown_address(named)}")
        yield
        return
    with private_server(settings.home, notify=say) as url:
        os.environ.update(prefect_environment(url, home=settings.home))
        with without_heartbeats():
            yield


def probe(url: str) -> None:
    """Raises ServerError where nothing answers at a Prefect server's address; any answer will do."""
    keep_address(url)
    try:
        with urlopen(f"{url.rstrip('/')}/health", timeout=10):
            return
    except HTTPError:
        return
    except (OSError, ValueError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        told = f"the Prefect server {shown_address(url)} does not answer ({redacted(str(reason))})"
        raise ServerError(f"{told}; start it, unset PREFECT_API_URL, or use --plain") from error
