"""A process that does one run after another, each in a forked child, and kills the child with SIGKILL where it is told to.

Everything slow is imported and loaded once, before the first fork, so a run costs what the run itself costs. Nothing is opened before a
fork: no store, no cache, no thread. A child is killed after some seconds, from outside, or by itself, exactly before or after the n-th of
the operations in `OPERATIONS`. `Server` is the other end, for tests.
"""

from __future__ import annotations

import functools
import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

# Seconds after which a run is taken to hang; none takes more than a few.
BOUND = 120.0
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Kill:
    """Where a run is killed: after some seconds, or before (or, if `applied`, after) the n-th operation of a name, counted from 1."""

    after: float | None = None
    operation: str | None = None
    number: int = 1
    applied: bool = False


@dataclass(frozen=True)
class Job:
    """A run.

    Attributes:
        work: `ingest`, `repair`, `rollback` or `drop`.
        home, source: folders of the store and of the documents.
        strategies: of an ingest.
        names: collections to drop.
        settings: put over the defaults.
        small: documents of a batch, of a sub-batch and points of a request, so that few documents make several; the product's own if None.
        kill: where the run is killed, if it is.
    """

    work: str
    home: str
    source: str = ""
    strategies: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    settings: dict[str, str] = field(default_factory=dict)
    rebuild: bool = False
    small: tuple[int, int, int] | None = None
    kill: Kill | None = None


@dataclass(frozen=True)
class Told:
    """What became of a run.

    Attributes:
        killed: it was killed.
        report: what the run told, as JSON; empty if it was killed.
        error: a traceback, if it raised.
        counts: how often each operation was done.
        seconds: how long it took.
    """

    killed: bool
    report: dict[str, Any]
    error: str
    counts: dict[str, int]
    seconds: float


class Trap:
    """Counts operations in a child, and kills the child at one of them."""

    def __init__(self, kill: Kill | None) -> None:
        self._kill = kill
        self._counting = threading.Lock()
        self.counts: Counter[str] = Counter()

    def set(self, owner: Any, attribute: str, name: str) -> None:
        """Puts itself before and behind `owner.attribute`."""
        inner = getattr(owner, attribute)

        @functools.wraps(inner)
        def trapped(*args: Any, **kwargs: Any) -> Any:
            with self._counting:
                self.counts[name] += 1
                number = self.counts[name]
            due = self._kill is not None and (self._kill.operation, self._kill.number) == (name, number)
            if due and not (self._kill and self._kill.applied):
                os.kill(os.getpid(), signal.SIGKILL)
            value = inner(*args, **kwargs)
            if due:
                os.kill(os.getpid(), signal.SIGKILL)
            return value

        setattr(owner, attribute, trapped)


def set_traps(trap: Trap) -> None:
    """All operations that change something, and those between which the work on a document goes on."""
    from qdrant_client import QdrantClient
    from qdrant_client.local.persistence import CollectionPersistence

    import flows.loading
    import stores.writer
    from chunkers.models import ModelCache
    from chunkers.models.wordllama_embedder import WordllamaEmbedder

    operations: dict[str, tuple[Any, str]] = {
        "upsert": (QdrantClient, "upsert"),
        "delete": (QdrantClient, "delete"),
        "payloads": (QdrantClient, "batch_update_points"),
        "create": (QdrantClient, "create_collection"),
        "metadata": (QdrantClient, "update_collection"),
        "alias": (QdrantClient, "update_collection_aliases"),
        "index": (QdrantClient, "create_payload_index"),
        "drop": (QdrantClient, "delete_collection"),
        # Inside a request: embedded, each point is a transaction of its own, and the list of collections is one file.
        "point written": (CollectionPersistence, "persist"),
        "point deleted": (CollectionPersistence, "delete"),
        "file replaced": (os, "replace"),
        "load": (flows.loading, "load_document"),
        "chunk": (stores.writer, "prepare"),
        "embed": (WordllamaEmbedder, "embed"),
        "vectors kept": (ModelCache, "put_vectors"),
        "contexts kept": (ModelCache, "put_contexts"),
    }
    for name, (owner, attribute) in operations.items():
        trap.set(owner, attribute, name)


def make_small(documents: int, together: int, points: int) -> None:
    """Few documents and points make several batches and requests."""
    import flows.batches
    import stores.batches
    import stores.writer

    flows.batches.SMALLEST_BATCH = documents
    stores.writer.DOCUMENTS = stores.writer.DELETED = together
    stores.batches.point_batches.__defaults__ = (points, stores.batches.BYTES)


def do(job: Job) -> dict[str, Any]:
    """The work of a child."""
    from flows.ingestion import Ingestion
    from flows.observer import Observer
    from flows.request import Request
    from flows.running import PlainRunner, run
    from flows.settings import Settings
    from flows.upkeep import drop_collections, roll_back, verify_corpora

    os.environ["QUARRY_HOME"] = job.home
    settings = Settings.load(job.settings)
    if job.work == "ingest":
        request = Request(job.source, strategies=job.strategies, rebuild=job.rebuild, allow_deletes=99)
        with Ingestion(request, settings, Observer()) as ingestion, PlainRunner(len(job.strategies)) as runner:
            report = run(ingestion, runner)
        return report.as_json()
    if job.work == "repair":
        found = verify_corpora(settings, None, [], repair=True, say=lambda message: None)
        return {"sound": all(one.sound for one in found), "collections": [one.as_json() for one in found]}
    if job.work == "rollback":
        return {"steps": [asdict(step) for step in roll_back(settings, None, [])]}
    return {"dropped": drop_collections(settings, job.names)}


def warm_up() -> None:
    """Loads what every run needs, by chunking a text and asking an empty store. No file and no busy thread may be left afterwards."""
    # What an embedded store imports when it locks its folder.
    import portalocker  # noqa: F401
    from qdrant_client import QdrantClient

    from chunkers import STRATEGIES, Document, build_chunker
    from chunkers.models import open_context_writer, open_embedder
    from flows import ingestion, running, upkeep  # noqa: F401
    from flows.language import most_likely

    text = "# Warm\n\nThe pump starts at dawn. It stops at dusk.\n\nOil the bearings every month. Use thin oil.\n"
    document = Document(id="0" * 8, uri="a.md", text=text, media_type="text/markdown")
    for name in STRATEGIES:
        embedder, writer = open_embedder("wordllama"), open_context_writer("outline")
        chunker = build_chunker(name, embedder=embedder, context_writer=writer if "context" in name else None)
        embedder.embed([one.embedding_text for one in chunker.chunk([document])[0].chunks])
    most_likely(text)
    QdrantClient(":memory:").close()
    # The thread of the encoding idles, and a child makes one of its own (`chunkers.encoding`).
    assert {thread.name for thread in threading.enumerate()} <= {"MainThread", "encoding_0"}
    # Objects that live on are left out of collections, which would copy their pages in every child.
    gc.collect()
    gc.freeze()


def serve(job: Job) -> Told:
    """Does a job in a child, and kills it if the job says so."""
    reading, writing = os.pipe()
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _child(job, reading, writing)
    os.close(writing)
    after = job.kill.after if job.kill else None
    if not select.select([reading], [], [], BOUND if after is None else after)[0]:
        os.kill(pid, signal.SIGKILL)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    _, status = os.waitpid(pid, 0)
    seconds = time.monotonic() - began
    if os.WIFSIGNALED(status):
        # Killed by nobody who was asked to: that is no kill, but a crash or a run that hangs.
        unasked = job.kill is None or os.WTERMSIG(status) != signal.SIGKILL
        return Told(True, {}, f"ended by signal {os.WTERMSIG(status)}" if unasked else "", {}, seconds)
    told = json.loads(data)
    return Told(False, told["report"], told["error"], told["counts"], seconds)


def _child(job: Job, reading: int, writing: int) -> None:
    os.close(reading)
    os.dup2(2, 1)
    trap = Trap(job.kill)
    told: dict[str, Any] = {"report": {}, "error": ""}
    try:
        set_traps(trap)
        if job.small:
            make_small(*job.small)
        told["report"] = do(job)
    except BaseException:
        told["error"] = traceback.format_exc()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(json.dumps({**told, "counts": trap.counts}).encode())
    os._exit(0)


def main() -> None:
    warm_up()
    for line in sys.stdin:
        job = json.loads(line)
        kill = Kill(**job.pop("kill")) if job["kill"] else job.pop("kill")
        lists = {name: tuple(job.pop(name)) for name in ("strategies", "names")}
        small = job.pop("small")
        told = serve(Job(**job, **lists, small=tuple(small) if small else None, kill=kill))
        print(json.dumps(asdict(told)), flush=True)


class Server:
    """The server as tests use it; a context manager."""

    def __init__(self, log: Path) -> None:
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("QUARRY_", "OPENAI_", "QDRANT_"))
        }
        # Threads of a library would not live on in a forked child.
        single = {"TOKENIZERS_PARALLELISM": "false", "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self.log = log
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.flows.kill_server"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                cwd=ROOT,
                env={**environment, **single},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, job: Job) -> Told:
        """Does a job."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(job)).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, self.log.read_text()
        return Told(**json.loads(answer))


Run = Callable[[Job], Told]

if __name__ == "__main__":
    main()
