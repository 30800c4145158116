"""Whole runs over a generated corpus, each in a process of its own: its seconds, the peak of its memory, and what it did.

A step is timed from when everything is imported. The limit of a run over an unchanged corpus is what it cannot do without: reading and
hashing every file, and opening the store with plain qdrant-client, which reads all of it into memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple
from unittest.mock import patch

from tests.benchmarks.growth import peak_bytes

INGEST, PLAIN, WORDLESS, FLOW, LIMIT, OPEN, TOUCH = "ingest", "plain", "wordless", "flow", "limit", "open", "touch"
CHARACTERS = 1500


class Measured(NamedTuple):
    """One step, or the median of several.

    Attributes:
        seconds: by the clock.
        peak: bytes of memory at most, what importing takes included.
        embedded, written: texts that reached the model; points written or deleted.
    """

    seconds: float
    peak: float
    embedded: int = 0
    written: int = 0


class Trial:
    """A corpus of `documents` markdown files below `folder`, stored by a first run.

    Attributes:
        first: that run.
    """

    def __init__(self, folder: Path, paragraphs: list[str], documents: int, strategies: tuple[str, ...]) -> None:
        self.documents = documents
        self.strategies = strategies
        self.source, self.home = folder / "source", folder / "home"
        write_corpus(self.source, paragraphs, documents)
        self.first = self._step(INGEST)

    def unchanged(self, rounds: int) -> Measured:
        """A run over the same corpus.

        Raises:
            RuntimeError: it embedded or wrote something.
        """
        before = self._rows()
        found = self._median(INGEST, rounds)
        changed = len(before ^ self._rows())
        if found.embedded or found.written or changed:
            raise RuntimeError(f"an unchanged run embedded {found.embedded} texts and changed {changed} points")
        return found

    def limit(self, rounds: int) -> Measured:
        return self._median(LIMIT, rounds)

    def opened(self) -> Measured:
        """Opening the store alone."""
        return self._step(OPEN)

    def touched(self) -> Measured:
        """Opening the store and writing a point to each collection, with plain qdrant-client, which then doubles its room."""
        with TemporaryDirectory() as folder:
            shutil.copytree(self.home, folder, dirs_exist_ok=True)
            return self._step(TOUCH, Path(folder))

    def stored_bytes(self) -> int:
        return sum(path.stat().st_size for path in self._databases())

    def _databases(self) -> list[Path]:
        return sorted(self.home.glob("qdrant/collection/*/storage.sqlite"))

    def _rows(self) -> set[tuple[str, str, bytes]]:
        """Every stored point: collection, id and a hash of what is stored."""
        found = set()
        for path in self._databases():
            with closing(sqlite3.connect(path)) as database:
                for id_, point in database.execute("SELECT id, point FROM points"):
                    found.add((path.parent.name, str(id_), hashlib.sha256(point).digest()))
        return found

    def _median(self, step: str, rounds: int) -> Measured:
        found = [self._step(step) for _ in range(rounds)]
        return Measured(*(median(values) for values in zip(*found, strict=True)))

    def _step(self, step: str, home: Path | None = None) -> Measured:
        return measure(step, self.source, home or self.home, self.strategies)


def measure(
    step: str, source: Path, home: Path, strategies: tuple[str, ...], environment: Mapping[str, str] | None = None
) -> Measured:
    """A step, in a process of its own, with `environment` added to that of this one."""
    command = [sys.executable, "-m", __spec__.name, step, str(source), str(home), *strategies]
    # Nothing of the user's own: a key would have the corpus embedded by an endpoint, at a price.
    own = {name: value for name, value in os.environ.items() if not name.startswith(("QUARRY_", "OPENAI_", "QDRANT_"))}
    told = subprocess.check_output(command, text=True, env={**own, **(environment or {})}).splitlines()[-1]
    return Measured(*json.loads(told))


def write_corpus(folder: Path, paragraphs: list[str], documents: int) -> None:
    """Documents of a title and real paragraphs, no two alike, a hundred in a folder."""
    rng = random.Random(1)
    for number in range(documents):
        parts = [f"# Document {number}"]
        while sum(map(len, parts)) < CHARACTERS:
            parts.append(rng.choice(paragraphs))
        path = folder / f"part-{number // 100:03}" / f"document-{number:05}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def perform(step: str, source: Path, home: Path, strategies: tuple[str, ...]) -> Measured:
    """The step, in this process."""
    from qdrant_client import QdrantClient, models

    import flows.running  # noqa: F401  # so that the memory of every step includes what ours imports

    if step == INGEST:
        return _plain(source, home, strategies)
    if step in (PLAIN, WORDLESS, FLOW):
        return _second({PLAIN: _plain, WORDLESS: _wordless, FLOW: _flow}[step], source, home, strategies)
    began = time.perf_counter()
    if step == LIMIT:
        for folder, _, names in os.walk(source):
            for name in names:
                hashlib.sha256(Path(folder, name).read_bytes()).hexdigest()
    with warnings.catch_warnings(action="ignore"):
        client = QdrantClient(path=str(home / "qdrant"))
        if step == TOUCH:
            for collection in client.get_collections().collections:
                client.upsert(collection.name, [models.PointStruct(id=0, vector={}, payload={})])
    client.close()
    return Measured(time.perf_counter() - began, peak_bytes())


def _second(
    run_over: Callable[[Path, Path, tuple[str, ...]], Measured], source: Path, home: Path, strategies: tuple[str, ...]
) -> Measured:
    """A run in a process where one over a single document has ended before, into another store: start-up apart."""
    with TemporaryDirectory() as folder:
        document = next(path for path in source.rglob("*.md"))
        (Path(folder) / "source").mkdir()
        shutil.copy(document, Path(folder) / "source")
        run_over(Path(folder) / "source", Path(folder) / "home", strategies)
    return run_over(source, home, strategies)


def _plain(source: Path, home: Path, strategies: tuple[str, ...]) -> Measured:
    """A run without Prefect."""
    from flows.ingestion import Ingestion
    from flows.observer import Observer
    from flows.request import Request
    from flows.running import PlainRunner, run
    from flows.settings import Settings

    began = time.perf_counter()
    settings = Settings.load({"home": str(home)})
    request = Request(str(source), strategies=strategies)
    with Ingestion(request, settings, Observer()) as ingestion, PlainRunner(len(strategies)) as runner:
        report = run(ingestion, runner)
    seconds = time.perf_counter() - began
    if report.exit_status:
        raise SystemExit("; ".join(report.failures()))
    own = report.strategies.values()
    written = sum(strategy.upserted + strategy.deleted for strategy in own)
    return Measured(seconds, peak_bytes(), sum(strategy.embedded for strategy in own), written)


def _wordless(source: Path, home: Path, strategies: tuple[str, ...]) -> Measured:
    """A run without Prefect that makes, stores and verifies no sparse vectors."""
    from chunkers.models.bm25 import SparseVector

    with (
        patch("stores.work.document_vector", lambda text, language: SparseVector([], [])),
        patch("stores.contents.stored_collection", lambda client, name: None),  # nor looks whether they are there
    ):
        return _plain(source, home, strategies)


def _flow(source: Path, home: Path, strategies: tuple[str, ...]) -> Measured:
    """A run by the Prefect flow, on a server that runs."""
    from flows.ingest import ingest
    from flows.server import without_heartbeats

    os.environ["QUARRY_HOME"] = str(home)
    with without_heartbeats():
        began = time.perf_counter()
        state = ingest(str(source), list(strategies), return_state=True)
        seconds = time.perf_counter() - began
    if not state.is_completed():
        raise SystemExit(state.message)
    return Measured(seconds, peak_bytes())


if __name__ == "__main__":
    arguments = sys.argv[2:]
    print(json.dumps(perform(sys.argv[1], Path(arguments[0]), Path(arguments[1]), tuple(arguments[2:]))))
