"""`quarry serve`: the deployments `ingest/CORPUS`, on a schedule, and `backfill/CORPUS`, run from one process, one run at a time.

Everything is checked as for a run before anything is registered. Then Prefect's runner looks for scheduled runs and starts each in a
process of its own; so an embedded store is open in one process at a time. A signal ends the run in hand as a cancellation does, and then
the service. Without `PREFECT_API_URL` a private server runs as long as the service does, with its UI at a fixed port. When that one dies
the service ends, too, so that whatever supervises it starts both again; a server of `PREFECT_API_URL` that is away is waited for.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

from chunkers.redaction import in_words, shown_address
from flows.command import probe
from flows.form import OFFERED
from flows.ingestion import Ingestion
from flows.observer import Observer
from flows.request import Request
from flows.schedule import Schedule
from flows.server import ServerError, prefect_environment, private_server
from flows.settings import Settings, variable

if TYPE_CHECKING:
    from prefect.deployments.runner import RunnerDeployment
    from prefect.runner import Runner

Say = Callable[[str], None]

# Prefect's own, so that its command line finds the private server, too.
UI_PORT = 4200
# Of the schedule, and a tag by which `deploy/automations.yaml` knows the runs that must complete each night.
NIGHTLY = "nightly"
TAG = "chunk-quarry"
# Seconds between two looks at the server of PREFECT_API_URL.
WATCH = 30.0


def serve(request: Request, settings: Settings, *, say: Say) -> None:
    """Serves until SIGTERM or SIGINT.

    Args:
        request: the source, corpus and strategies that both deployments take by default.
        settings: of every run, and the schedule.
        say: prints a line for a person.

    Raises:
        SettingError: the schedule cannot be used.
        ServerError: the Prefect server does not answer or start, or it ended before the service did.
        What opening an `Ingestion` raises.
    """
    schedule = Schedule(settings.schedule, settings.time_zone)
    # A dry run opens and checks all that a run does, and writes nothing.
    with Ingestion(
        Request(request.source, request.corpus, request.strategies, dry_run=True), settings, Observer()
    ) as checked:
        corpus, root = checked.corpus, checked.listing.root
        say(f"corpus {corpus} below {root}: {len(checked.listing.entries)} documents; {checked.report.models()}")
        example = next((entry.uri for entry in checked.listing.entries), "**")
    with _server(settings, say) as server:
        # Flow runs are processes of their own, with this environment.
        os.environ["QUARRY_HOME"] = str(settings.home)
        if settings.model_folder:
            os.environ["QUARRY_MODEL_FOLDER"] = str(settings.model_folder)
        os.environ.update({variable(name): value for name, value in settings.given.items() if name not in OFFERED})
        parameters = _parameters(request, settings, corpus)
        runner = _runner(_deployments(parameters, schedule, corpus), server)
        next_run = schedule.next_run(datetime.now(UTC))
        say(
            f"serving ingest/{corpus}: {schedule.cron} {schedule.time_zone}, next on {next_run:%A %d %B %Y at %H:%M %Z}"
        )
        say(
            f"serving backfill/{corpus}: start one in the UI at {server.shown.removesuffix('/api')}/deployments, or with"
        )
        documents = shlex.quote(f"documents={json.dumps([example])}")
        say(f"  PREFECT_API_URL={server.shown} prefect deployment run backfill/{corpus} --param {documents}")
        say("stop with Ctrl-C or SIGTERM: a run in hand ends after the documents it is at")
        _run(runner, server)
        say("stopped")


@dataclass
class _Server:
    """The Prefect server that is used.

    Attributes:
        url: for `PREFECT_API_URL`.
        failure: why it ended before the service did.
    """

    url: str
    failure: ServerError | None = None

    @property
    def shown(self) -> str:
        """The address for messages."""
        return shown_address(self.url)

    def ended(self, failure: ServerError) -> None:
        self.failure = failure
        # The runner's own way to end. Whoever else waits in the main thread is interrupted.
        os.kill(os.getpid(), signal.SIGTERM)


def _run(runner: Runner, server: _Server) -> None:
    """Runs until a signal.

    Raises:
        ServerError: the server ended, or does not let the runner register or pause its schedule.
    """
    from httpx import HTTPError
    from prefect.exceptions import PrefectException

    try:
        asyncio.run(runner.start())
    except Exception as error:
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        if not isinstance(cause, HTTPError | PrefectException):
            raise
        if server.failure is None:
            raise ServerError(f"the Prefect server {server.shown}: {in_words(cause)}") from error
    if server.failure is not None:
        raise server.failure


@contextmanager
def _server(settings: Settings, say: Say) -> Iterator[_Server]:
    named = os.environ.get("PREFECT_API_URL")
    if named:
        probe(named)
        os.environ.update(_loud(prefect_environment(named)))
        with _watched(named, say):
            yield _Server(named)
        return
    server = _Server("")
    with private_server(settings.home, port=UI_PORT, notify=say, ended=server.ended) as server.url:
        url = server.url
        os.environ.update(_loud(prefect_environment(url, home=settings.home)))
        say(f"Prefect UI: {url.removesuffix('/api')}")
        try:
            yield server
        except (KeyboardInterrupt, SystemExit):
            # The signal came before the runner had started.
            if server.failure is None:
                raise
            raise server.failure from None


@contextmanager
def _watched(url: str, say: Say) -> Iterator[None]:
    """Says when a server that others look after goes away, and when it is back; Prefect's runner asks it on and on."""
    over = threading.Event()

    def watch() -> None:
        away = False
        while not over.wait(WATCH):
            try:
                probe(url)
            except ServerError as error:
                if not away:
                    say(f"{str(error).partition(';')[0]}; no run starts until it does")
                away = True
            else:
                if away:
                    say(f"the Prefect server {shown_address(url)} answers again")
                away = False

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _loud(environment: dict[str, str]) -> dict[str, str]:
    """Without the quiet console of a command: a service's log is its console."""
    return {name: value for name, value in environment.items() if name != "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"}


def _parameters(request: Request, settings: Settings, corpus: str) -> dict[str, Any]:
    """What both deployments take by default; absolute, since a run may start in another folder."""
    given = settings.model_dump(include=settings.model_fields_set.intersection(OFFERED))
    source = os.path.abspath(os.path.expanduser(request.source))
    return {"source": source, "corpus": corpus, "strategies": list(request.strategies), **given}


def _deployments(parameters: dict[str, Any], schedule: Schedule, corpus: str) -> list[RunnerDeployment]:
    from prefect.flows import EntrypointType
    from prefect.schedules import Cron

    from flows.backfill import backfill
    from flows.ingest import ingest

    common: dict[str, Any] = {
        "parameters": parameters,
        "entrypoint_type": EntrypointType.MODULE_PATH,
    }
    cron = Cron(schedule.cron, timezone=schedule.time_zone, slug=NIGHTLY, active=True)
    told = "Brings every collection up to date with the corpus."
    tags = [TAG, f"corpus:{corpus}"]
    scheduled = ingest.to_deployment(corpus, schedules=[cron], description=told, tags=[*tags, NIGHTLY], **common)
    told = "Brings some documents or strategies up to date, when asked to."
    on_demand = backfill.to_deployment(corpus, description=told, tags=tags, **common)
    # Outside of an event loop, as here, they are no coroutines.
    return cast("list[RunnerDeployment]", [scheduled, on_demand])


def _runner(deployments: list[RunnerDeployment], server: _Server) -> Runner:
    """A runner that both signals stop; a second one changes nothing, since the run in hand is ending already."""
    from prefect.runner import Runner

    runner = Runner(name="quarry", limit=1, pause_on_shutdown=True)
    for deployment in deployments:
        runner.add_deployment(deployment)
    stop = runner.handle_sigterm

    def handle(number: int, frame: FrameType | None) -> None:
        if not runner.stopping:
            # There is nobody to ask when the server is gone, which takes Prefect a minute and a half to believe.
            runner.pause_on_shutdown = server.failure is None
            stop()

    # Prefect takes this for SIGTERM when it starts; asyncio leaves SIGINT to a handler that is there before.
    runner.handle_sigterm = handle  # type: ignore[method-assign]
    signal.signal(signal.SIGINT, handle)
    return runner
