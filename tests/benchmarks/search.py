"""What sparse vectors cost: the time they add to an embedded ingestion, and how long a question takes in each search mode.

Both with and without them in turns. Questions are those of the sample corpus; chunks are 60 to 120 words out of real texts.

python -m tests.benchmarks.search [DOCUMENTS] [ROUNDS]
"""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from rich.console import Console
from rich.table import Table

from chunkers import STRATEGIES, Document, build_chunker
from chunkers.ids import document_id
from chunkers.models import open_embedder
from stores import Recipe, Retriever, Writer, connect, finish_target, open_target
from stores.search_modes import MODES
from tests.benchmarks.runs import PLAIN, WORDLESS, Measured, measure, write_corpus
from tests.benchmarks.texts import named_texts, paragraphs

QUESTIONS = Path(__file__).parent.parent / "corpus" / "questions.jsonl"
SIZES = (1_000, 10_000, 50_000)
ASKED = 20


def ingestion(documents: int, rounds: int, console: Console) -> None:
    """Print what sparse vectors add to a first run."""
    table = Table(title=f"first runs over {documents:,} documents (median of {rounds})", title_justify="left")
    for column in ("strategies", "dense only, s", "both, s", "both / dense only"):
        table.add_column(column, justify="left" if column == "strategies" else "right")
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_corpus(folder / "source", paragraphs(named_texts([])), documents)
        for strategies in (("recursive",), STRATEGIES):
            found: dict[str, list[Measured]] = {WORDLESS: [], PLAIN: []}
            for number in range(rounds):
                for step, own in found.items():
                    home = folder / f"{step}-{len(strategies)}-{number}"
                    own.append(measure(step, folder / "source", home, strategies))
            without, both = (median(one.seconds for one in own) for own in found.values())
            told = "all six" if strategies == STRATEGIES else ", ".join(strategies)
            table.add_row(told, f"{without:.1f}", f"{both:.1f}", f"{both / without:.2f}")
    console.print(table)


def latency(console: Console) -> None:
    """Print the median and the worst time of a question, over embedded collections of several sizes."""
    questions = [json.loads(line)["question"] for line in QUESTIONS.read_text(encoding="utf-8").splitlines()][:ASKED]
    table = Table(
        title=f"a question, embedded, median (worst) of {ASKED}, its embedding included", title_justify="left"
    )
    table.add_column("chunks", justify="right")
    for mode in MODES:
        table.add_column(f"{mode}, ms", justify="right")
    for chunks in SIZES:
        with TemporaryDirectory() as folder, connect(path=folder) as client:
            _fill(client, folder, chunks)
            retriever = Retriever(client, "bench")
            row = []
            for mode in MODES:
                retriever.search(questions[0], "recursive", mode=mode)
                spent = [_spent(retriever, question, mode) for question in questions]
                row.append(f"{median(spent):.0f} ({max(spent):.0f})")
        table.add_row(f"{chunks:,}", *row)
    console.print(table)


def _spent(retriever: Retriever, question: str, mode: str) -> float:
    """Milliseconds of one search."""
    began = time.perf_counter()
    retriever.search(question, "recursive", mode=mode)
    return (time.perf_counter() - began) * 1000


class _Rows:
    """An embedder of random vectors of wordllama's size, since only their number matters here."""

    name = "wordllama"
    dimensions = open_embedder("wordllama").dimensions
    max_input_tokens: int | None = None
    semantic_threshold = paragraph_threshold = 0.5

    def __init__(self) -> None:
        self._rng = np.random.default_rng(1)

    def count_tokens(self, text: str) -> int:
        return len(text)

    def embed(self, texts: list[str]) -> np.ndarray:
        rows = self._rng.normal(size=(len(texts), self.dimensions)).astype(np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _fill(client: object, folder: str, chunks: int) -> None:
    words = " ".join(paragraphs(named_texts([]))).split()
    rng = random.Random(1)
    chunker = build_chunker("recursive")
    embedder = _Rows()
    recipe = Recipe("recursive", chunker.parameters, embedder.name, embedder.dimensions)
    target = open_target(client, "bench", folder, recipe)  # type: ignore[arg-type]
    writer = Writer(client, target, chunker, embedder, "run")  # type: ignore[arg-type]
    for first in range(0, chunks, 1_000):
        documents = []
        for number in range(first, first + 1_000):
            at = rng.randrange(len(words) - 120)
            text = " ".join(words[at : at + rng.randint(60, 120)])[:1_900]
            uri = f"{number}.txt"
            documents.append(Document(document_id("bench", uri), uri, text, media_type="text/plain"))
        writer.write(documents)
    finish_target(client, target)  # type: ignore[arg-type]


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    ingestion(*(given + [1000, 3][len(given) :]), console=Console())
    latency(Console())
