"""What our client of an endpoint costs: beside a plain loop of the openai library, with several requests at a time, and through the cache.

The server is a process of its own that answers with ready-made vectors, so it costs next to nothing, and what it costs is not ours.

    python -m tests.benchmarks.endpoint [ROUNDS]
"""

from __future__ import annotations

import base64
import json
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import openai
from rich.console import Console
from rich.table import Table

from chunkers.models.cache import CachedEmbedder, ModelCache
from chunkers.models.openai_client import Manners
from chunkers.models.openai_embedder import OpenAIEmbedder
from chunkers.models.requests import Limits
from tests.benchmarks.timing import Run, best_seconds

MODEL, DIMENSIONS = "text-embedding-3-small", 1536
# Texts of about a hundred tokens.
TEXT = "The pump of the well stops at dusk, and the gate is mended with wire before the water rises again. " * 5
# Seconds that the server takes for an answer where requests run side by side.
SLOW = 0.05
SIZES = (1, 16, 128)
AT_ONCE = (1, 2, 4, 8)


def texts(count: int, mark: str) -> list[str]:
    return [f"{mark} {number}: {TEXT}" for number in range(count)]


def serve(told: Connection, seconds: float) -> None:
    """Answers each request after so long, until the process is ended."""
    vector = np.random.default_rng(1).normal(size=DIMENSIONS).astype("<f4")
    packed = base64.b64encode(vector.tobytes()).decode()
    ready: dict[int, bytes] = {}

    def answer(count: int) -> bytes:
        if count not in ready:
            data = [{"object": "embedding", "index": index, "embedding": packed} for index in range(count)]
            usage = {"prompt_tokens": 100 * count, "total_tokens": 100 * count}
            ready[count] = json.dumps({"object": "list", "model": MODEL, "data": data, "usage": usage}).encode()
        return ready[count]

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1

        def log_message(self, format: str, *args: object) -> None:
            """Nothing."""

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            raw = answer(len(body["input"]))
            time.sleep(seconds)
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.send(server.server_address[1])
    server.serve_forever()


@contextmanager
def server(seconds: float) -> Iterator[str]:
    """Its base URL."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(there, seconds), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{here.recv()}/v1"
    finally:
        process.terminate()
        process.join()


def embedder(url: str, size: int, parallel: int = 1) -> OpenAIEmbedder:
    # With an event that can stop it, as a run has.
    return OpenAIEmbedder(
        MODEL,
        api_key="none",
        base_url=url,
        limits=Limits(max_inputs=size),
        manners=Manners(parallel=parallel),
        cancelled=threading.Event(),
    )


def ours(url: str, requests: int, size: int) -> Callable[[], Run]:
    """One call, packed into so many requests."""

    def prepare() -> Run:
        model = embedder(url, size)
        model.embed(texts(1, "first"))
        many = texts(requests * size, "many")
        return lambda: model.embed(many)

    return prepare


def plain(url: str, requests: int, size: int) -> Callable[[], Run]:
    """The same texts in a loop of requests with the library as it comes."""

    def prepare() -> Run:
        client = openai.OpenAI(api_key="none", base_url=url, max_retries=0)
        client.embeddings.create(model=MODEL, input=texts(1, "first"))
        many = texts(requests * size, "many")
        calls = [many[begin : begin + size] for begin in range(0, len(many), size)]
        return lambda: [client.embeddings.create(model=MODEL, input=call) for call in calls]

    return prepare


def overhead(rounds: int, console: Console) -> None:
    table = Table(title="one request after the other, ms a request (best of rounds in turn)", title_justify="left")
    for column in ("texts a request", "openai library", "ours", "times as fast", "processor, times as little"):
        table.add_column(column, justify="right")
    with server(0.0) as url:
        for size in SIZES:
            requests = max(20, 400 // size)
            best = best_seconds({"plain": plain(url, requests, size), "ours": ours(url, requests, size)}, rounds)
            table.add_row(
                str(size),
                f"{best['plain'].wall / requests * 1000:.2f}",
                f"{best['ours'].wall / requests * 1000:.2f}",
                f"{best['plain'].wall / best['ours'].wall:.2f}",
                f"{best['plain'].processor / best['ours'].processor:.2f}",
            )
    console.print(table)


def side_by_side(rounds: int, console: Console) -> None:
    table = Table(title=f"requests at a time, answered after {SLOW * 1000:.0f} ms", title_justify="left")
    for column in ("at a time", "requests/s", "times as fast"):
        table.add_column(column, justify="right")
    requests, size = 64, 16

    def prepare(url: str, parallel: int) -> Run:
        model = embedder(url, size, parallel)
        model.embed(texts(1, "first"))
        many = texts(requests * size, "many")
        return lambda: model.embed(many)

    with server(SLOW) as url:
        runs = {str(parallel): (lambda parallel=parallel: prepare(url, parallel)) for parallel in AT_ONCE}
        best = best_seconds(runs, rounds)
    for name, seconds in best.items():
        table.add_row(name, f"{requests / seconds.wall:.0f}", f"{best['1'].wall / seconds.wall:.2f}")
    console.print(table)


def through_the_cache(rounds: int, console: Console) -> None:
    table = Table(title=f"vectors of {DIMENSIONS} numbers through the cache", title_justify="left")
    for column in ("", "vectors/s"):
        table.add_column(column, justify="right" if column else "left")
    count, size = 4096, 256
    many = texts(count, "cached")
    with server(0.0) as url, TemporaryDirectory() as folder:
        files = iter(range(1_000_000))

        def fresh() -> CachedEmbedder:
            cache = ModelCache(Path(folder) / f"{next(files)}.sqlite")
            return CachedEmbedder(embedder(url, size), cache)

        def none() -> Run:
            model = embedder(url, size)
            return lambda: model.embed(many)

        def missed() -> Run:
            model = fresh()
            return lambda: model.embed(many)

        def found() -> Run:
            model = fresh()
            model.embed(many)
            return lambda: model.embed(many)

        best = best_seconds({"no cache": none, "none is in it": missed, "all are in it": found}, rounds)
    for name, seconds in best.items():
        table.add_row(name, f"{count / seconds.wall:,.0f}")
    console.print(table)


def main(rounds: int) -> None:
    console = Console()
    overhead(rounds, console)
    side_by_side(rounds, console)
    through_the_cache(rounds, console)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
