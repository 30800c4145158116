"""Where the tasks of a run are done: in threads of this process, in a pool of processes, or by a Dask cluster.

`check` refuses, before any work, what cannot work; it imports neither Prefect nor Dask. `started` gives Prefect's task runner for the other
two, with child processes that stay quiet and leave a Ctrl-C at the terminal, which reaches them too, to the run.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING, Any

from chunkers.redaction import in_words, keep_address, shown_address
from flows.settings import Settings, SettingsError, variable

if TYPE_CHECKING:
    from prefect.task_runners import TaskRunner

THREADS, PROCESSES, DASK = "threads", "processes", "dask"

# Seconds that a child whose parent died, or that is told to end, may take for the documents in hand.
LEAVE = 20.0
# Seconds that a cluster's workers may take to send what they have to tell the Prefect server.
FLUSH = 5.0


def check(settings: Settings, *, plain: bool = False) -> None:
    """Refuses a way of doing tasks that cannot work.

    Args:
        settings: of the run.
        plain: the run is to be one without Prefect.

    Raises:
        SettingsError: it says why, and what to do.
    """
    runner, name = settings.task_runner, variable("task_runner")
    if runner == THREADS:
        return
    if plain:
        raise SettingsError(f"{name}: {runner!r} needs Prefect, and --plain does without; leave one of them out")
    if not settings.qdrant_url:
        raise SettingsError(
            f"{name}: {runner!r} cannot be used with an embedded store, since its folder can be open in one process only; "
            f"run a Qdrant server and set QDRANT_URL, or use {THREADS}"
        )
    if runner == DASK and not (find_spec("prefect_dask") and find_spec("distributed")):
        raise SettingsError(
            f"{name}: {runner!r} needs packages that are not installed; pip install 'chunk-quarry[dask]'"
        )


@contextmanager
def started(settings: Settings) -> Iterator[tuple[TaskRunner[Any], int]]:
    """The task runner that settings name, and how many tasks it does at a time.

    Raises:
        SettingsError: the cluster cannot be reached.
    """
    workers = settings.task_workers or os.cpu_count() or 1
    with ExitStack() as stack:
        if settings.task_runner == DASK:
            yield stack.enter_context(_dask(settings.dask_address, workers))
        else:
            from prefect.task_runners import ProcessPoolTaskRunner

            pool = ProcessPoolTaskRunner(max_workers=workers, initializer=_child)
            yield stack.enter_context(pool), workers


@contextmanager
def _dask(address: str | None, workers: int) -> Iterator[tuple[TaskRunner[Any], int]]:
    # Read when the library is imported, here and in the workers; else they print dozens of lines.
    os.environ.setdefault("DASK_LOGGING__DISTRIBUTED", "error")
    import dask
    import distributed  # noqa: F401  (its defaults come before what is set here)
    from prefect_dask import DaskTaskRunner

    if address:
        keep_address(address)
        runner = DaskTaskRunner(address=address)
    else:
        own = {"n_workers": workers, "threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
        runner = DaskTaskRunner(cluster_kwargs=own)
    # Dask looks at every thread's stack each 10 ms, which can stop a process for good before Python 3.11.9 (python/cpython#106883): a task
    # never ends then, and nobody is told. A cluster of the run's own takes this over; another one is set up by whoever starts it.
    with dask.config.set({"distributed.worker.profile.enabled": False}), runner:
        try:
            with no_interrupts_for_children():
                client = runner.client
        except (OSError, TimeoutError) as error:
            raise SettingsError(
                f"{variable('dask_address')}: {shown_address(address or '')}: the cluster cannot be used: {in_words(error)}"
            ) from error
        if address:
            workers = sum(worker["nthreads"] for worker in client.scheduler_info(n_workers=-1)["workers"].values())
        try:
            yield runner, max(workers, 1)
        finally:
            # What workers have to tell the Prefect server is sent in the background, and would be lost with them.
            with suppress(Exception):
                client.run(_flush)


def abandon(runner: TaskRunner[Any]) -> None:
    """Ends the processes of a pool, whatever they have in hand. A cluster of the run's own ends them itself, another one is not ours."""
    pool = getattr(runner, "_executor", None)
    for process in list((getattr(pool, "_processes", None) or {}).values()):
        process.kill()


def _flush() -> None:
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    # There is one by the settings of the run's tasks. To ask for `instance()` here, outside of a task, could start another Prefect server.
    senders = [sender.wait_until_empty for sender in list(getattr(EventsWorker, "_instances", {}).values())]
    # In threads, since a worker's own thread has an event loop, where neither would wait. The log is sent in batches, which an empty
    # queue says nothing of; another run's next line starts another sender.
    waits = [threading.Thread(target=wait, daemon=True) for wait in (*senders, APILogWorker.drain_all)]
    until = time.monotonic() + FLUSH
    for thread in waits:
        thread.start()
    for thread in waits:
        thread.join(max(0.0, until - time.monotonic()))


@contextmanager
def no_interrupts_for_children() -> Iterator[None]:
    """Processes that are started inside, also by threads that are started inside, never get a SIGINT.

    A Ctrl-C at a terminal goes to all processes of a run. Its own process tells the others to stop; each ends with the documents in hand. A
    handler in the child would be too late for those that are just starting.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Else it is started inside, and unblocks the signal.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _child() -> None:
    """Prepares a process of a pool."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: threading.Thread(target=_leave, daemon=True).start())
    threading.Thread(target=_outlive, daemon=True).start()


def _outlive() -> None:
    """Ends this process when its parent has died, which a pool's processes do not notice."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        _leave()


def _leave() -> None:
    from flows import remote

    remote.leave(LEAVE)
    # The answer of the last task is still on its way.
    time.sleep(0.2)
    os._exit(1)
