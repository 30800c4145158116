"""What `quarry serve` does when its Prefect server goes away, without one; the rest is in `test_deployments`."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import SimpleQueue
from typing import Any, cast

import httpx
import pytest

from flows import serve
from flows.server import ServerError

BOUND = 30
REFUSED = httpx.ConnectError("all attempts\nfailed")


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def answering(port: int = 0) -> Any:
    with HTTPServer(("127.0.0.1", port), Healthy) as http:
        threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
        yield http.server_address[1]
        http.shutdown()


class Runner:
    """Stands in for Prefect's; ends as `end` says."""

    def __init__(self, end: Exception | None = None) -> None:
        self.end = end

    async def start(self) -> None:
        if self.end:
            raise self.end


def run(runner: Runner, server: serve._Server) -> None:
    serve._run(cast("Any", runner), server)


def test_a_server_that_goes_away_and_comes_back_is_told_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve, "WATCH", 0.01)
    said: SimpleQueue[str] = SimpleQueue()
    with answering() as port:
        pass
    url = f"http://127.0.0.1:{port}/api"
    with serve._watched(url, said.put):
        assert said.get(timeout=BOUND).startswith(f"the Prefect server {url} does not answer (")
        with answering(port):
            assert said.get(timeout=BOUND) == f"the Prefect server {url} answers again"
        assert said.get(timeout=BOUND).endswith("; no run starts until it does")


def test_a_private_server_that_ends_ends_the_service_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = threading.Event()
    monkeypatch.setattr("os.kill", lambda pid, number: stopped.set() if number == signal.SIGTERM else None)
    server = serve._Server("http://127.0.0.1:1/api")
    server.ended(ServerError("the private Prefect server ended with status -9"))
    assert stopped.is_set()
    with pytest.raises(ServerError, match="ended with status -9"):
        run(Runner(), server)
    # What the runner met because of that is not the reason.
    with pytest.raises(ServerError, match="ended with status -9"):
        run(Runner(httpx.ConnectError("refused")), server)


@pytest.mark.parametrize("error", [REFUSED, ExceptionGroup("of a task group", [REFUSED])])
def test_a_server_that_cannot_be_told_of_the_end_is_one_clear_line(error: Exception) -> None:
    with pytest.raises(ServerError, match=r"^the Prefect server http://127.0.0.1:1/api: all attempts failed$"):
        run(Runner(error), serve._Server("http://127.0.0.1:1/api"))


def test_an_error_of_ours_is_not_taken_for_the_server_s() -> None:
    with pytest.raises(ValueError, match="ours"):
        run(Runner(ValueError("ours")), serve._Server("http://127.0.0.1:1/api"))
