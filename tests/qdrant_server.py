"""A Qdrant server on loopback for tests: real HTTP, a real (embedded) store behind it, faults on demand.

    with QdrantServer() as server:
        server.fail("PUT", "/points", status(500), after=1)
        with connect(url=server.url) as client:
            ...
        assert [request.points for request in server.sent("PUT", "/points")] == [128, 2, 2]

Faults are queued by method and by how the path ends, and each such request takes one. As the real service, it refuses requests over
its limit with 400, wrong keys with 401 and, with `strict`, filters without an index.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import chain
from typing import Any
from urllib.parse import urlsplit

import pytest

from stores.client import StoreClient
from tests.qdrant_answers import Answers, too_large

LIMIT = 33_554_432


@dataclass(frozen=True)
class Request:
    """What the server was sent."""

    method: str
    path: str
    body: bytes

    @property
    def size(self) -> int:
        return len(self.body)

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else {}

    @property
    def points(self) -> int:
        """How many points it names or brings."""
        told = self.json
        if "operations" in told:
            return len(told["operations"])
        return len(told.get("points") or told.get("ids") or ())

    @property
    def writes(self) -> bool:
        """It changes points."""
        return self.path.endswith(("/points/delete", "/points/batch")) or (
            self.method == "PUT" and self.path.endswith("/points")
        )


@dataclass(frozen=True)
class Fault:
    """How one answer differs from a good one.

    Attributes:
        status, headers, body: of the answer; a body of None keeps the good one, bytes are sent as they are.
        applied: the request takes effect before it goes wrong.
        change: done to the good answer before it is sent.
        drop: close the connection without an answer.
        hang: answer nothing (`"before"`), or only the first half (`"inside"`), until the server ends.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    applied: bool = False
    change: Callable[[Any], object] | None = None
    drop: bool = False
    hang: str = ""


def status(http: int, message: str = "", headers: dict[str, str] | None = None) -> Fault:
    """An error answer in Qdrant's shape."""
    return Fault(http, headers or {}, {"status": {"error": message or f"status {http}"}, "time": 0.0})


def overloaded(retry_after: str | None = None) -> Fault:
    return status(429, "Too many requests", {"Retry-After": retry_after} if retry_after is not None else None)


def dropped(*, applied: bool) -> Fault:
    return Fault(drop=True, applied=applied)


def hanging(where: str = "before", *, applied: bool = False) -> Fault:
    return Fault(hang=where, applied=applied or where == "inside")


def garbage(body: bytes = b"<html>welcome</html>") -> Fault:
    return Fault(body=body, applied=True)


def not_waited_for() -> Fault:
    """The good answer to a write, but it says that the server stopped waiting for it to be applied."""

    def change(answer: Any) -> None:
        results = answer["result"] if isinstance(answer["result"], list) else [answer["result"]]
        for result in results:
            result["status"] = "wait_timeout"

    return Fault(applied=True, change=change)


class QdrantServer:
    """Serves while its `with` block lasts.

    Args:
        strict: refuse filters on fields without an index.
        limit: bytes of a request at most.
        key: the key that requests must show; None lets any pass.

    Attributes:
        answers: the store behind it.
        requests: what came in, in order, refused and failed requests included.
        proxy: a proxy stands before it and refuses what is over the limit, in its own way.
    """

    def __init__(self, *, strict: bool = False, limit: int = LIMIT, key: str | None = None) -> None:
        self.answers = Answers(strict)
        self.limit = limit
        self.key = key
        self.proxy = False
        self.requests: list[Request] = []
        self.ended = threading.Event()
        self._rules: list[tuple[str, str, Iterator[Fault | None]]] = []
        self._lock = threading.Lock()
        self._connections: set[socket.socket] = set()
        self._address = ("127.0.0.1", 0)
        self._start()

    def __enter__(self) -> QdrantServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.ended.set()
        self.go_away()

    def _start(self) -> None:
        self._http = ThreadingHTTPServer(self._address, _handler(self))
        self._http.daemon_threads = True
        self._address = self._http.server_address  # type: ignore[assignment]
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True)
        self._thread.start()

    def client(self, timeout: int = 60) -> StoreClient:
        """A client as `stores.connect` makes them, but soon: it reads no certificates."""
        return StoreClient(url=self.url, api_key=self.key, timeout=timeout, check_compatibility=False, verify=False)

    def go_away(self) -> None:
        """Closes every connection and refuses new ones."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):  # the client has closed it
                    connection.shutdown(socket.SHUT_RDWR)

    def come_back(self) -> None:
        """Serves again at the same address, with what was stored."""
        self._start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._address[1]}"

    def fail(self, method: str, path: str, *faults: Fault | None, after: int = 0, always: Fault | None = None) -> None:
        """Queues faults for requests of a method whose path ends so; None among them is a good answer.

        Args:
            method: of the requests.
            path: a regular expression of the end of their path.
            faults: one for each of them in turn.
            after: so many are answered well before that.
            always: for every one after `faults`.
        """
        queue: Iterable[Fault | None] = chain([None] * after, faults)
        self._rules.append((method, path, chain(queue, _forever(always))))

    def heal(self) -> None:
        """Forgets all faults."""
        self._rules.clear()

    def reset(self) -> None:
        """Forgets everything: faults, requests and what is stored."""
        if self._http.fileno() < 0:
            self.come_back()
        self.heal()
        self.requests.clear()
        self.answers = Answers(self.answers.strict)

    def sent(self, method: str, path: str) -> list[Request]:
        """The requests of a method whose path ends so."""
        return [request for request in self.requests if request.method == method and request.path.endswith(path)]

    def begin(self, request: Request) -> Fault:
        with self._lock:
            self.requests.append(request)
            for method, path, faults in self._rules:
                if request.method == method and re.search(f"{path}$", request.path):
                    fault = next(faults)
                    if fault:
                        return fault
        return Fault(applied=True)

    def respond(self, request: Request, key: str | None) -> tuple[int, Any]:
        if self.key is not None and key != self.key:
            return 401, {"status": {"error": "Must provide an API key or an Authorization bearer token"}, "time": 0.0}
        if request.size > self.limit:
            return (
                (413, b"<h1>413 Request Entity Too Large</h1>") if self.proxy else too_large(request.size, self.limit)
            )
        return self.answers.answer(request.method, request.path, request.body)

    def connected(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.add(connection)

    def disconnected(self, connection: socket.socket) -> None:
        with self._lock:
            self._connections.discard(connection)


def _forever(fault: Fault | None) -> Iterator[Fault | None]:
    while True:
        yield fault


@pytest.fixture
def qdrant() -> Iterator[QdrantServer]:
    with QdrantServer() as server:
        yield server


def _handler(server: QdrantServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def setup(self) -> None:
            super().setup()
            server.connected(self.connection)

        def finish(self) -> None:
            server.disconnected(self.connection)
            super().finish()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: tests read `requests`."""

        def _serve(self) -> None:
            try:
                body = self.rfile.read(int(self.headers["content-length"] or 0))
                request = Request(self.command, urlsplit(self.path).path, body)
                self._answer(request, server.begin(request))
                self.wfile.flush()
            except (ConnectionError, ValueError):
                self.close_connection = True  # the client gave up waiting, or the server went away

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _serve  # noqa: N815

        def _answer(self, request: Request, fault: Fault) -> None:
            code, answer = server.respond(request, self.headers["api-key"]) if fault.applied else (fault.status, None)
            if fault.hang == "before":
                server.ended.wait()
            if fault.drop or fault.hang == "before":
                self.close_connection = True
                return
            if fault.body is not None:
                code, answer = fault.status, fault.body
            if fault.change:
                fault.change(answer)
            raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            for name, value in fault.headers.items():
                self.send_header(name, value)
            self.end_headers()
            if fault.hang:
                self.wfile.write(raw[: len(raw) // 2])
                self.wfile.flush()
                server.ended.wait()
                self.close_connection = True
                return
            self.wfile.write(raw)

    return Handler
