"""An OpenAI-compatible server on loopback for tests: real HTTP, deterministic answers, faults on demand.

    with OpenAIServer() as server:
        server.faults.append(status(429, {"Retry-After": "0"}))
        OpenAIEmbedder("text-embedding-3-small", api_key=server.key, base_url=server.url).embed(["one"])
        assert [request.path for request in server.requests] == ["/v1/embeddings", "/v1/embeddings"]

Each request takes one fault from the queue, or is answered well when there is none. As the real service does, it refuses a wrong key,
blank inputs, more than 2048 of them, more than 8,192 tokens in one or 300,000 in all.

A vector counts the hashed words of its text, so texts with words in common are alike; equal texts have equal vectors.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from chunkers.encoding import count_tokens

DIMENSIONS = {"text-embedding-3-small": 1536, "text-embedding-3-large": 3072, "text-embedding-ada-002": 1536}
OTHER_DIMENSIONS = 64


@dataclass(frozen=True)
class Request:
    """What the server was sent."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass(frozen=True)
class Fault:
    """How one answer differs from a good one.

    Attributes:
        status, headers: of the answer.
        body: the whole answer (bytes as they are, anything else as JSON); None keeps the good one.
        change: what is done to the good answer before it is sent.
        delay: seconds before answering.
        drop: close the connection without an answer (`"before"`) or in the middle of it (`"inside"`).
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    change: Callable[[dict[str, Any]], object] | None = None
    delay: float = 0.0
    drop: str = ""


def status(http: int, headers: dict[str, str] | None = None, *, message: str = "", **error: Any) -> Fault:
    """An error answer in OpenAI's shape; `error` gives its `code`, `type` and `param`."""
    body = {"error": {"message": message or f"status {http}", "type": None, "param": None, "code": None, **error}}
    return Fault(http, headers or {}, body)


def quota_spent() -> Fault:
    return status(429, message="You exceeded your current quota", code="insufficient_quota", type="insufficient_quota")


def disconnect(where: str = "before") -> Fault:
    return Fault(drop=where)


def slow(seconds: float) -> Fault:
    return Fault(delay=seconds)


def changed(change: Callable[[dict[str, Any]], object]) -> Fault:
    """The good answer, changed in place."""
    return Fault(change=change)


def shuffled_order() -> Fault:
    """All vectors with their right indexes, last first."""
    return changed(lambda answer: answer["data"].reverse())


def dropped_vector(index: int = 0) -> Fault:
    return changed(lambda answer: answer["data"].pop(index))


def repeated_index() -> Fault:
    """As many vectors as were asked for, but two say they are the first."""
    return changed(lambda answer: answer["data"][-1].update(index=0))


def wrong_dimension() -> Fault:
    """Every vector one number short."""
    return changed(lambda answer: [entry["embedding"].pop() for entry in answer["data"]])


def number(value: float | None) -> Fault:
    """`value` (NaN, infinity, null) as the first number of the first vector."""
    return changed(lambda answer: answer["data"][0]["embedding"].__setitem__(0, value))


def reply(text: str | None, *, finish_reason: str = "stop", refusal: str | None = None) -> Fault:
    """A chat answer of this text."""
    return Fault(body=_completion("model", text, finish_reason, refusal))


# Seconds after which a held answer is sent all the same: against a test that hangs.
HELD_BOUND = 120


@dataclass
class Gate:
    """Holds back the answer to the n-th next request."""

    left: int = -1

    def __post_init__(self) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        self._counting = threading.Lock()

    def __call__(self, request: Request) -> None:
        with self._counting:
            self.left -= 1
            held = self.left == 0
        if held:
            self.reached.set()
            self.opened.wait(HELD_BOUND)


class OpenAIServer:
    """Serves while its `with` block lasts.

    Attributes:
        key: the key that requests must show; None lets any pass.
        requests: what came in, in order.
        faults: one for each of the next requests; None among them means a good answer.
        always: a fault for every request once `faults` is empty, or a function from the request to one.
        answer: what the chat model says to a request's body.
        most_at_once: the most requests that were under way at the same time.
        packs: vectors come in base64 to who asks for it; a server that does not know it gives numbers.
        refuses: request fields that it complains about.
        most_inputs: it takes no request of more.
        headers: of every good answer.
    """

    def __init__(self, key: str | None = "sk-loopback-0123456789") -> None:
        self.key = key
        self.requests: list[Request] = []
        self.faults: deque[Fault | None] = deque()
        self.always: Fault | Callable[[Request], Fault | None] | None = None
        self.answer: Callable[[dict[str, Any]], str] = _default_answer
        self.most_at_once = 0
        self.packs = True
        self.refuses: set[str] = set()
        self.most_inputs = 2048
        self.headers: dict[str, str] = {}
        self._at_once = 0
        self._lock = threading.Lock()
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)

    def __enter__(self) -> OpenAIServer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def inputs(self) -> list[str]:
        """Every text that came in for embedding, in order."""
        return [text for request in self.requests if "input" in request.body for text in request.body["input"]]

    def begin(self, request: Request) -> Fault | None:
        with self._lock:
            self.requests.append(request)
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            if self.faults:
                return self.faults.popleft()
        return self.always(request) if callable(self.always) else self.always

    def end(self) -> None:
        with self._lock:
            self._at_once -= 1

    def respond(self, request: Request) -> tuple[int, dict[str, Any]]:
        """Status and body of a good answer, or of the refusal that the request deserves."""
        if self.key is not None and request.headers.get("authorization") != f"Bearer {self.key}":
            shown = request.headers.get("authorization", "").removeprefix("Bearer ")
            return 401, _error(f"Incorrect API key provided: {shown}", code="invalid_api_key")
        unknown = self.refuses & request.body.keys()
        if unknown:
            return 400, _error(
                f"Unsupported parameter: {min(unknown)}", code="unsupported_parameter", param=min(unknown)
            )
        if request.path == "/v1/embeddings":
            if len(request.body["input"]) > self.most_inputs:
                return 413, _error(
                    f"batch size {len(request.body['input'])} > maximum allowed batch size {self.most_inputs}"
                )
            return _embeddings(request.body)
        if request.path == "/v1/chat/completions":
            answer = self.answer(request.body)
            prompt = sum(count_tokens(message["content"]) + 3 for message in request.body["messages"]) + 3
            usage = {"prompt_tokens": prompt, "completion_tokens": count_tokens(answer)}
            return 200, _completion(request.body["model"], answer, "stop", None, usage)
        return 404, _error(f"Invalid URL (POST {request.path})")


@pytest.fixture
def openai_server() -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        yield server


def vector(text: str, dimensions: int) -> list[float]:
    """The vector that the server gives for `text`."""
    numbers = [0.0] * dimensions
    for word in re.findall(r"\w+", text.casefold()) or [text]:
        digest = hashlib.sha256(word.encode("utf-8", "surrogatepass")).digest()
        numbers[int.from_bytes(digest[:4], "big") % dimensions] += 1.0 if digest[4] % 2 else -1.0
    if not any(numbers):
        numbers[0] = 1.0
    length = sum(number * number for number in numbers) ** 0.5
    return [number / length for number in numbers]


def _embeddings(body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    texts, model = body["input"], body["model"]
    counts = [count_tokens(text) for text in texts]
    if not texts or len(texts) > 2048 or not all(texts) or max(counts) > 8192 or sum(counts) > 300_000:
        return 400, _error("'$.input' is invalid", type="invalid_request_error")
    dimensions = body.get("dimensions") or DIMENSIONS.get(model, OTHER_DIMENSIONS)
    data = [
        {"object": "embedding", "index": index, "embedding": vector(text, dimensions)}
        for index, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": sum(counts), "total_tokens": sum(counts)}
    return 200, {"object": "list", "model": model, "data": data, "usage": usage}


def _pack(answer: Any) -> None:
    """Vectors of a good answer as base64 of float32."""
    for entry in answer.get("data", []) if isinstance(answer, dict) else []:
        entry["embedding"] = base64.b64encode(struct.pack(f"<{len(entry['embedding'])}f", *entry["embedding"])).decode()


def _completion(
    model: str, text: str | None, finish_reason: str, refusal: str | None, usage: Any = None
) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "refusal": refusal}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason, "logprobs": None}
    told = {"id": "chat-1", "object": "chat.completion", "created": 0, "model": model, "choices": [choice]}
    return {**told, "usage": usage} if usage else told


def _default_answer(body: dict[str, Any]) -> str:
    digest = hashlib.sha256(json.dumps(body["messages"]).encode()).hexdigest()
    return f"This section is number {digest[:8]}."


def _error(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": None, "param": None, "code": None, **fields}}


def _handler(server: OpenAIServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: tests read `requests`."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            request = Request(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            fault = server.begin(request) or Fault()
            try:
                time.sleep(fault.delay)
                self._send(request, fault)
                self.wfile.flush()
            except ConnectionError:
                self.close_connection = True  # the client gave up waiting
            finally:
                server.end()

        def _send(self, request: Request, fault: Fault) -> None:
            self.close_connection = bool(fault.drop)
            if fault.drop == "before":
                return
            code, answer = server.respond(request)
            if fault.body is not None:
                code, answer = fault.status, fault.body
            if fault.change:
                fault.change(answer)
            elif code == 200 and server.packs and request.body.get("encoding_format") == "base64":
                _pack(answer)
            raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            for name, value in {**server.headers, **fault.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(raw[: len(raw) // 2] if fault.drop else raw)

    return Handler
