"""What rounds of killed runs start from: a corpus with its next versions, a store of the first, clean stores of all; and how long and of
what operations a run is, so that a kill can be anywhere in it."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

from tests.flows.kill_corpora import Corpus, edited, first, write
from tests.flows.kill_server import Job, Kill, Server, Told
from tests.flows.stored import Points, Stored, differences, point_differences, read

STRATEGIES = (
    ("recursive", "semantic_parent_child"),
    ("fixed_size", "contextual_retrieval"),
    ("sentence", "semantic"),
    ("semantic_parent_child",),
    ("contextual_retrieval", "semantic_parent_child", "semantic"),
)
# Small enough for several chunks a document.
SETTINGS = {
    "chunk_size": "48",
    "chunk_overlap": "8",
    "recursive_chunk_chars": "220",
    "semantic_min_chunk_size": "2",
    "semantic_threshold": "0.4",
}
REBUILT = {**SETTINGS, "chunk_size": "40", "recursive_chunk_chars": "150"}
# Documents of a batch, of a sub-batch, points of a request; None is the product's own.
SIZES = (None, (3, 2, 4), (32, 3, 7), (2, 32, 128))


class Scenario:
    """A corpus in three versions, and a store of the first.

    Args:
        server: does the runs.
        folder: for its files.
        seed: of everything.
    """

    def __init__(self, server: Server, folder: Path, seed: int) -> None:
        rng = random.Random(seed)
        self.server, self.seed = server, seed
        self.folder = folder / f"scenario-{seed}"
        self.source = self.folder / "docs"
        self.strategies = STRATEGIES[seed % len(STRATEGIES)]
        self.small = rng.choice(SIZES)
        a = first(rng)
        self.versions: list[Corpus] = [a, edited(rng, a), edited(rng, a)]
        self.sound = self.folder / "sound"
        self.run(self.sound, self.versions[0])
        self.beginning = self.run(self.folder / "clean-1", self.versions[1])
        self.run(self.folder / "clean-2", self.versions[2])
        self.clean = [read(self.folder / name) for name in ("sound", "clean-1", "clean-2")]
        assert not any(any(stored.findings.values()) for stored in self.clean), seed
        self.vectors = {
            payload["embedding_hash"]: vector
            for stored in self.clean
            for points in stored.collections.values()
            for payload, vector in points.values()
            if payload["kind"] == "chunk"
        }
        self.update = self.measured(self.job(self.folder, self.versions[1]))

    def job(self, home: Path, version: Corpus, **options: object) -> Job:
        """An ingest of a version, which is in the source afterwards."""
        write(version, self.source)
        job = Job("ingest", str(home), str(self.source), self.strategies, settings=SETTINGS, small=self.small)
        return replace(job, **options)  # type: ignore[arg-type]

    def run(self, home: Path, version: Corpus, **options: object) -> Told:
        """An ingest that is not killed."""
        return self.finished(self.job(home, version, **options))

    def finished(self, job: Job) -> Told:
        """A job that is not killed and does what it shall."""
        told = self.server.run(job)
        assert not told.killed, (self.seed, told.error)
        assert not told.error, (self.seed, told.error)
        assert not told.report.get("failures"), (self.seed, told.report)
        return told

    def copy(self, name: str, of: Path | None = None) -> Path:
        """A home folder with a copy of the sound store."""
        home = self.folder / name
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(of or self.sound, home)
        return home

    def measured(self, job: Job) -> Told:
        """What a job counts and how long it takes on a copy of the sound store."""
        return self.finished(replace(job, home=str(self.copy("measured"))))


def some_kill(rng: random.Random, uncut: Told, *, clock: bool = True) -> Kill:
    """A kill of a run such as `uncut`: after a random time, or at one of its operations, the rare ones as often as the others.

    Not by the clock, if the run is over in no time.
    """
    if clock and rng.random() < 0.35:
        return Kill(after=rng.uniform(0, uncut.seconds))
    name = rng.choice(sorted(uncut.counts))
    return Kill(operation=name, number=rng.randint(1, uncut.counts[name]), applied=rng.random() < 0.5)


def same(found: Stored, expected: Stored, where: object) -> None:
    told = differences(found, expected)
    assert not told, (where, told[:5])


def same_points(found: Points, expected: Points, where: object) -> None:
    told = point_differences(found, expected)
    assert not told, (where, told[:5])
