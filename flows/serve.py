"""`quarry serve`: both deployments of one corpus, run from one process, one run at a time.

Everything is checked as for a run before anything is registered. Then Prefect's runner looks for scheduled runs and starts each in a
process of its own; so an embedded store is open in one process at a time. A signal ends the run in hand as a cancellation does, and then
the service. Without `PREFECT_API_URL` a private server runs as long as the service does, with its UI at a fixed port.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, Any, cast

from flows.command import probe
from flows.ingestion import Ingestion
from flows.observer import Observer
from flows.request import Request
from flows.schedule import Schedule
from flows.server import prefect_environment, private_server
from flows.settings import Settings

if TYPE_CHECKING:
    from prefect.deployments.runner import RunnerDeployment
    from prefect.runner import Runner

Say = Callable[[str], None]

# Prefect's own, so that its command line finds the private server, too.
UI_PORT = 4200
NIGHTLY, ON_DEMAND = "nightly", "on-demand"


def serve(request: Request, settings: Settings, *, say: Say) -> None:
    """Serves until SIGTERM or SIGINT.

    Args:
        request: the source, corpus and strategies that both deployments take by default.
        settings: of every run, and the schedule.
        say: prints a line for a person.

    Raises:
        SettingError: the schedule cannot be used.
        ServerError: the Prefect server does not answer, or does not start.
        What opening an `Ingestion` raises.
    """
    schedule = Schedule(settings.schedule, settings.time_zone)
    # A dry run opens and checks all that a run does, and writes nothing.
    with Ingestion(
        Request(request.source, request.corpus, request.strategies, dry_run=True), settings, Observer()
    ) as checked:
        corpus, root = checked.corpus, checked.listing.root
        say(f"corpus {corpus} below {root}: {len(checked.listing.entries)} documents; {checked.report.models()}")
    with _server(settings, say) as url:
        # Flow runs are processes of their own, with this environment.
        os.environ["QUARRY_HOME"] = str(settings.home)
        parameters = _parameters(request, settings, corpus)
        runner = _runner(_deployments(parameters, schedule, corpus))
        ui = url.removesuffix("/api")
        next_run = schedule.next_run(datetime.now(UTC))
        say(
            f"serving ingest/{NIGHTLY}: {schedule.cron} {schedule.time_zone}, next on {next_run:%A %d %B %Y at %H:%M %Z}"
        )
        say(f"serving backfill/{ON_DEMAND}: start one in the UI at {ui}/deployments, or with")
        say(f"  PREFECT_API_URL={url} prefect deployment run backfill/{ON_DEMAND} --param 'documents=[\"guides/**\"]'")
        say("stop with Ctrl-C or SIGTERM: a run in hand ends after the documents it is at")
        asyncio.run(runner.start())
        say("stopped")


@contextmanager
def _server(settings: Settings, say: Say) -> Iterator[str]:
    named = os.environ.get("PREFECT_API_URL")
    if named:
        probe(named)
        os.environ.update(_loud(prefect_environment(named)))
        yield named
        return
    with private_server(settings.home, port=UI_PORT, notify=say) as url:
        os.environ.update(_loud(prefect_environment(url, home=settings.home)))
        say(f"Prefect UI: {url.removesuffix('/api')}")
        yield url


def _loud(environment: dict[str, str]) -> dict[str, str]:
    """Without the quiet console of a command: a service's log is its console."""
    return {name: value for name, value in environment.items() if name != "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"}


def _parameters(request: Request, settings: Settings, corpus: str) -> dict[str, Any]:
    """What both deployments take by default; absolute, since a run may start in another folder."""
    from flows.form import OFFERED

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
        "tags": ["chunk-quarry", f"corpus:{corpus}"],
        "entrypoint_type": EntrypointType.MODULE_PATH,
    }
    cron = Cron(schedule.cron, timezone=schedule.time_zone, slug=NIGHTLY, active=True)
    told = "Brings every collection up to date with the corpus."
    nightly = ingest.to_deployment(NIGHTLY, schedules=[cron], description=told, **common)
    told = "Brings some documents or strategies up to date, when asked to."
    on_demand = backfill.to_deployment(ON_DEMAND, description=told, **common)
    # Outside of an event loop, as here, they are no coroutines.
    return cast("list[RunnerDeployment]", [nightly, on_demand])


def _runner(deployments: list[RunnerDeployment]) -> Runner:
    """A runner that both signals stop; a second one changes nothing, since the run in hand is ending already."""
    from prefect.runner import Runner

    runner = Runner(name="quarry", limit=1, pause_on_shutdown=True)
    for deployment in deployments:
        runner.add_deployment(deployment)
    stop = runner.handle_sigterm

    def handle(number: int, frame: FrameType | None) -> None:
        if not runner.stopping:
            stop()

    # Prefect takes this for SIGTERM when it starts; asyncio leaves SIGINT to a handler that is there before.
    runner.handle_sigterm = handle  # type: ignore[method-assign]
    signal.signal(signal.SIGINT, handle)
    return runner
