"""The last records of a run, before its private server is stopped.

Prefect's client sends events and logs from the background, and the server writes task runs from a queue in its memory; both lose what
is left when they end. So the client is flushed first, and then the server is asked until nothing changes any more.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from datetime import datetime
from typing import Any

# Seconds for the client's last events; its last logs have five.
FLUSH_BOUND = 10.0
# Seconds without change after which the records are taken for complete: with every task run at its end, and with some that are not,
# as after an interruption. The server writes every second.
QUIET_WHEN_DONE = 1.5
QUIET_WHEN_OPEN = 3.0
SETTLE_BOUND = 20.0
_POLL = 0.1


def flush_client() -> None:
    """Sends what Prefect's client in this process has collected: at its exit, as it would otherwise, the server is gone."""
    if "prefect" in sys.modules:
        from prefect.events.worker import EventsWorker
        from prefect.logging.handlers import APILogHandler

        EventsWorker.drain_all(timeout=FLUSH_BOUND)
        APILogHandler().flush()


def wait_until_recorded(port: int, since: datetime) -> None:
    """Waits until the server at `port` has written the task runs that began after `since`; `SETTLE_BOUND` seconds at most."""
    begun = changed = time.monotonic()
    before = None
    while time.monotonic() - begun < SETTLE_BOUND:
        try:
            total = _count(port, {})
            running = _count(
                port,
                {
                    "state": {"type": {"any_": ["PENDING", "RUNNING", "CANCELLING"]}},
                    "start_time": {"after_": since.isoformat()},
                },
            )
        except (OSError, ValueError, http.client.HTTPException):
            return  # A server that does not answer records nothing more.
        if total == 0:
            return
        if (total, running) != before:
            before, changed = (total, running), time.monotonic()
        if time.monotonic() - changed >= (QUIET_WHEN_OPEN if running else QUIET_WHEN_DONE):
            return
        time.sleep(_POLL)


def _count(port: int, task_runs: dict[str, Any]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        body = json.dumps({"task_runs": task_runs})
        connection.request("POST", "/api/task_runs/count", body, {"Content-Type": "application/json"})
        return int(connection.getresponse().read())
    finally:
        connection.close()
