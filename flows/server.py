"""A private Prefect server for one run, and the environment that a client of it needs. Nothing here imports Prefect.

Prefect's own way without a server loses task records and hangs on Ctrl-C, so a run without `PREFECT_API_URL` starts a real server:
on a free port of the loopback interface, with its database in the store's own folder, and in a session of its own, so that Ctrl-C at a
terminal reaches the run and not the server that has to record how it ended. The server is stopped when the run is over. If the run
dies before that, the server ends by itself (`flows.server_process`).
"""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from flows import server_process
from flows.server_records import flush_client, wait_until_recorded

# Seconds until a server must answer; the first start creates the database, and a busy machine has taken 24.
START_BOUND = 120.0
# Seconds between TERM and KILL; an idle server takes about two.
STOP_BOUND = 10.0
_PORTS = 3
_TAIL = 15

_QUIET = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
}
# A default server takes 40 ms of processor time for each task run, mostly for events written one by one.
_SERVER = {
    **_QUIET,
    "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "100",
    # Whole seconds: Prefect 3.9 cuts off the rest, and with 0 it would spin.
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_READ_BATCH_SIZE": "50",
    "PREFECT_SERVER_SERVICES_TRIGGERS_READ_BATCH_SIZE": "50",
}
_CLIENT = {
    **_QUIET,
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING",
    "PREFECT_LOGGING_EXTRA_LOGGERS": "chunkers,stores,flows",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}


class ServerError(RuntimeError):
    """A private server that did not come up. The message ends with what its log says."""


def prefect_environment(api_url: str, *, home: Path | None = None) -> dict[str, str]:
    """What to put into the environment before Prefect is first imported by a client of the server at `api_url`.

    What the environment already says of logging and telemetry stays. With `home`, the client keeps its own files beside the private
    server's and reads no profile of the user's, which may name another server's key.
    """
    own = {"PREFECT_HOME": str(_prefect_home(home))} if home else {}
    kept = {name: os.environ.get(name, value) for name, value in _CLIENT.items()}
    return {**kept, **own, **_past_proxies(), "PREFECT_API_URL": api_url}


@contextmanager
def private_server(
    home: Path,
    *,
    port: int | None = None,
    notify: Callable[[str], None] = lambda message: None,
    ended: Callable[[ServerError], None] = lambda error: None,
) -> Iterator[str]:
    """Runs a Prefect server while the block does.

    Args:
        home: the store's own folder; the database and the log are in `prefect/` below it.
        port: to be tried first, so that the UI stays at one address; another one if it is taken.
        notify: told in one line what the user is waiting for.
        ended: told, in another thread, when the server ends before the block does.

    Yields:
        The address for `PREFECT_API_URL`.

    Raises:
        ServerError: the server ended or did not answer within `START_BOUND` seconds.
    """
    folder = _prefect_home(home)
    folder.mkdir(parents=True, exist_ok=True)
    first = "" if (folder / "prefect.db").exists() else "; the first time it creates its database, up to 30 s"
    notify(f"starting a private Prefect server{first}")
    since = datetime.now(UTC)
    with _running_server(folder, port) as (process, port):
        over = threading.Event()

        def watch() -> None:
            process.wait()
            if not over.is_set():
                told = (
                    f"the private Prefect server ended with status {process.returncode}{_tail(folder / 'server.log')}"
                )
                ended(ServerError(told))

        threading.Thread(target=watch, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{port}/api"
        finally:
            over.set()
            if process.poll() is None:
                flush_client()
                wait_until_recorded(port, since)


@contextmanager
def without_heartbeats() -> Iterator[None]:
    """No heartbeats of the flow runs inside: a private server ends with its run, so nobody would miss them there, and Prefect waits a
    second at a run's end for the thread that sends them."""
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

    with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}):
        yield


class _PortTakenError(ServerError):
    """Another process took the port between our finding it free and the server's binding it."""


@contextmanager
def _running_server(folder: Path, wanted: int | None) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A server that answers, and its port; stopped behind the block, and if it does not come up."""
    for attempt in range(_PORTS):
        port = wanted if wanted and attempt == 0 and _is_free(wanted) else _free_port()
        process = _start(folder, port)
        try:
            try:
                _wait_until_healthy(process, port, folder / "server.log")
            except _PortTakenError:
                if attempt == _PORTS - 1:
                    raise
                continue
            yield process, port
            return
        finally:
            _stop(process)


def _prefect_home(home: Path) -> Path:
    return Path(os.path.abspath(home)) / "prefect"


def _past_proxies() -> dict[str, str]:
    """`NO_PROXY` with the loopback interface added, where a proxy is set: it could not reach a server on this machine."""
    if not any(os.environ.get(name) for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy")):
        return {}
    told = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    hosts = ",".join(dict.fromkeys([*filter(None, told.split(",")), "127.0.0.1", "localhost"]))
    return {"NO_PROXY": hosts, "no_proxy": hosts}


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server binds
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _start(folder: Path, port: int) -> subprocess.Popen[bytes]:
    # Settings meant for the user's own server (a database, a password) must not reach this one; nor must a prefect.toml or .env of
    # the working folder, hence `cwd`.
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    own = {
        "PREFECT_HOME": str(folder),
        "PREFECT_SERVER_API_HOST": "127.0.0.1",
        "PREFECT_SERVER_API_PORT": str(port),
        # Else the links in what automations send would say None.
        "PREFECT_UI_URL": f"http://127.0.0.1:{port}",
        "PYTHONUNBUFFERED": "1",
    }
    # -P keeps this package's folder off the server's import path, where its modules could be taken for others.
    command = [sys.executable, "-P", server_process.__file__, "server", "start"]
    with (folder / "server.log").open("wb") as log:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**inherited, **_SERVER, **own},
            start_new_session=True,
        )


def _wait_until_healthy(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    begun = time.monotonic()
    while process.poll() is None:
        if _is_healthy(port):
            return
        if time.monotonic() - begun > START_BOUND:
            raise ServerError(f"the private Prefect server did not answer within {START_BOUND:.0f} s{_tail(log)}")
        time.sleep(0.1)
    said = _tail(log)
    kind = _PortTakenError if "already in use" in said else ServerError
    raise kind(f"the private Prefect server ended at once with status {process.returncode}{said}")


def _is_healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/api/health")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _tail(log: Path) -> str:
    lines = log.read_text("utf-8", "replace").splitlines()[-_TAIL:] if log.exists() else []
    told = "".join(f"\n  {line}" for line in lines if line.strip())
    return f"; its log ({log}) ends with:{told}" if told else f"; its log ({log}) is empty"


def _stop(process: subprocess.Popen[bytes]) -> None:
    """TERM to the server's process group, KILL after a bound. A second Ctrl-C while waiting kills at once."""
    try:
        _signal_group(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_BOUND)
    finally:
        _signal_group(process, signal.SIGKILL)
        if process.stdin:
            process.stdin.close()
        process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    # Only while the process has not been waited for: after that its number may belong to another.
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
