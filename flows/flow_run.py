"""What both flows do: open a run, carry it out by tasks, show it on the run's page, and end in the state that its counts mean.

The state is computed from the report: Completed, or Failed with a message that names what failed while everything else is stored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from prefect import runtime
from prefect.client.schemas.objects import State
from prefect.exceptions import TerminationSignal
from prefect.states import Cancelled, Completed, Failed

from chunkers import ModelError, SettingError
from chunkers.redaction import in_words
from flows import form, logs, running
from flows.ingestion import Ingestion
from flows.observer import current
from flows.page import Page
from flows.remote_runner import remote_runner
from flows.request import Request
from flows.running import Runner, run
from flows.settings import Settings, SettingsError
from flows.sources import SourceError
from flows.stopping import no_keyboard
from flows.tasks import PrefectRunner
from flows.workers import THREADS, check
from stores import StoreError


def run_as_flow(settings: dict[str, Any], **request: Any) -> State[None]:
    """Carries out a request inside a flow run; the final state of that.

    Args:
        settings: those that were given for this run, by name.
        request: the fields of a `Request`.
    """
    logs.set_up_for_run()
    try:
        asked = Request(**request)
        ingestion = current().prepared(asked) or _open(asked, Settings.load(form.overrides(settings)))
    except (SourceError, SettingError, SettingsError, StoreError, ModelError, OSError) as error:
        return Failed(message=in_words(error))
    # The runner or worker that started this process cancels the run by SIGTERM when it is interrupted itself.
    keyboard = no_keyboard() if runtime.deployment.id else nullcontext()
    with keyboard, logs.about(run=ingestion.run_id, corpus=ingestion.corpus), Page(ingestion), ingestion:
        try:
            with _runner(ingestion) as runner:
                report = run(ingestion, runner)
        except SettingsError as error:
            return Failed(message=in_words(error))
        except (KeyboardInterrupt, TerminationSignal):
            if runtime.deployment.id:
                # Whoever started this process set the state to Cancelling, and sets it to Cancelled when the process has ended.
                raise
            return Cancelled(message=ingestion.report.summary())
    if report.exit_status:
        return Failed(message=report.summary())
    return Completed(message=report.summary())


@contextmanager
def _runner(ingestion: Ingestion) -> Iterator[Runner]:
    """Who does the tasks of a run. A dry run writes nothing and shares its models' answers, so threads do it."""
    if ingestion.settings.task_runner != THREADS and not ingestion.request.dry_run:
        with remote_runner(ingestion) as remote:
            yield remote
        return
    running.under_way[ingestion.run_id] = threads = PrefectRunner(ingestion)
    try:
        yield threads
    finally:
        del running.under_way[ingestion.run_id]


def _open(request: Request, settings: Settings) -> Ingestion:
    """A run of a deployment, or of somebody who calls the flow.

    Raises:
        SettingsError: a worker starts the flow in a temporary folder, where an embedded store would be lost.
    """
    if runtime.deployment.id and not settings.qdrant_url and "QUARRY_HOME" not in os.environ:
        raise SettingsError("set QUARRY_HOME to an absolute folder, or QDRANT_URL, in the environment of the worker")
    if not request.dry_run:
        check(settings)
    return Ingestion(request, settings)
