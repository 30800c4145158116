"""Points a second into the embedded store: through `Points` and `Writer`, and through plain qdrant-client."""

from __future__ import annotations

import threading
import time
import uuid
import warnings
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from qdrant_client import QdrantClient, models
from rich.console import Console
from rich.table import Table

from chunkers import Document, build_chunker
from chunkers.ids import document_id
from stores import Recipe, Writer, connect, open_target
from stores.points import Points
from tests.benchmarks.nothing import NoModel

BATCH = 128
DIMENSIONS = 256
# Documents of the size of those of `runs`, for the writer.
CHARACTERS = 1500


def points_of(text: str, count: int) -> list[models.PointStruct]:
    """Points with a payload of about a kilobyte of real text."""
    vectors = np.random.default_rng(1).normal(size=(count, DIMENSIONS))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return [
        models.PointStruct(
            id=str(uuid.UUID(int=number)),
            vector=vector.tolist(),
            payload={"kind": "chunk", "text": text[number * 10 : number * 10 + 1000], "metadata": {"index": number}},
        )
        for number, vector in enumerate(vectors)
    ]


def plain(folder: Path, points: list[models.PointStruct]) -> float:
    """Seconds of upserts in batches with qdrant-client as it comes."""
    client = QdrantClient(path=str(folder))
    client.create_collection("plain", models.VectorParams(size=DIMENSIONS, distance=models.Distance.COSINE))
    began = time.perf_counter()
    for begin in range(0, len(points), BATCH):
        client.upsert("plain", points[begin : begin + BATCH])
    seconds = time.perf_counter() - began
    client.close()
    return seconds


def ours(folder: Path, points: list[models.PointStruct]) -> float:
    """Seconds of `Points.upsert`."""
    with connect(path=folder) as client:
        client.create_collection("ours", models.VectorParams(size=DIMENSIONS, distance=models.Distance.COSINE))
        began = time.perf_counter()
        Points(client, "ours").upsert(points)
        return time.perf_counter() - began


def writer(folder: Path, text: str, documents: int) -> tuple[float, int]:
    """Seconds and points of a `Writer` that chunks documents (`recursive`), journals and stores them; a model that costs nothing."""
    sources = [
        Document(
            id=document_id("bench", f"{number}.md"),
            uri=f"{number}.md",
            text=f"# Document {number}\n\n{text[number * 100 : number * 100 + CHARACTERS]}",
        )
        for number in range(documents)
    ]
    chunker = build_chunker("recursive")
    recipe = Recipe("recursive", chunker.parameters, NoModel.name, NoModel.dimensions)
    with connect(path=folder) as client:
        target = open_target(client, "bench", str(folder), recipe)
        writer = Writer(client, target, chunker, NoModel(), "run")
        began = time.perf_counter()
        writer.write(sources, stop=threading.Event())
        seconds = time.perf_counter() - began
        return seconds, client.count(target.collection).count


def measure(text: str, count: int, rounds: int, console: Console) -> None:
    """Print one table; of each the best of several rounds in turn."""
    points = points_of(text, count)
    runs: dict[str, Callable[[Path], tuple[float, int]]] = {
        f"qdrant-client, upserts of {BATCH}": lambda folder: (plain(folder, points), count),
        "Points.upsert": lambda folder: (ours(folder, points), count),
        "Writer (chunks, journal rows)": lambda folder: writer(folder, text, count // 4),
    }
    best: dict[str, float] = dict.fromkeys(runs, 0.0)
    with warnings.catch_warnings(action="ignore"):
        for _ in range(rounds):
            for name, run in runs.items():
                with TemporaryDirectory() as folder:
                    seconds, stored = run(Path(folder))
                best[name] = max(best[name], stored / seconds)
    (reference, *_) = best.values()
    table = Table(title=f"into the embedded store: {count:,} points", title_justify="left")
    for column in ("", "points/s", "times as fast"):
        table.add_column(column, justify="right" if column else "left")
    for name, speed in best.items():
        table.add_row(name, f"{speed:,.0f}", f"{speed / reference:.1f}")
    console.print(table)
