"""How much of what answers a question is found: recall by strategy and search mode.

Recall is that of Chroma's evaluation of chunking (Smith and Troynikov, "Evaluating Chunking Strategies for Retrieval", 2024): the part of
the reference passages' characters that lies in what is returned, averaged over the questions. A hit with a parent counts as the parent,
which is what an application would read. Once over the five best hits, and once over the best that fit into 1,500 tokens.

python -m tests.benchmarks.recall [FOLDER QUESTIONS]... [--set NAME=VALUE]...

Over the sample corpus, or over any folders of documents, each with its questions in the format of the sample's `questions.jsonl`.
Settings such as `embedding_model` or `fusion_k` are those of the command.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from chunkers import STRATEGIES
from flows.ingestion import Ingestion
from flows.models import endpoint_of
from flows.observer import Observer
from flows.places import open_store
from flows.request import Request
from flows.running import PlainRunner, run
from flows.settings import Settings
from stores import Hit, Retriever
from stores.search_modes import MODES

HITS, TOKENS = 5, 1_500
SAMPLE = Path(__file__).parent.parent / "corpus"


def recall(question: dict[str, Any], found: Iterable[Hit]) -> float:
    """The part of a question's reference passages that hits cover, by characters, from 0 to 1."""
    spans = [
        (around.start_char, around.end_char)
        for hit in found
        if hit.source == question["document"]
        for around in (hit.parent or hit,)
    ]
    covered = total = 0
    for reference in question["references"]:
        start, end = reference["start_index"], reference["end_index"]
        seen = np.zeros(end - start, dtype=bool)
        for first, last in spans:
            seen[max(first - start, 0) : max(last - start, 0)] = True
        covered += int(seen.sum())
        total += end - start
    return covered / total


def measure(folder: Path, questions: Path, overrides: dict[str, str], console: Console) -> None:
    """Print the recall of every strategy and mode over one question set."""
    asked = [json.loads(line) for line in questions.read_text(encoding="utf-8").splitlines()]
    table = Table(
        title=f"{folder}: {len(asked)} questions, recall in % at {HITS} hits / at {TOKENS:,} tokens",
        title_justify="left",
    )
    table.add_column("strategy")
    table.add_column("chunks", justify="right")
    for mode in MODES:
        table.add_column(mode, justify="right")
    sums = np.zeros((len(MODES), 2))
    with TemporaryDirectory() as home:
        settings = Settings.load({**overrides, "home": home})
        with Ingestion(Request(str(folder), "recall", STRATEGIES), settings, Observer()) as ingestion:
            report = run(ingestion, PlainRunner(len(STRATEGIES)))
        if report.exit_status:
            raise SystemExit("; ".join(report.failures()))
        with open_store(settings, create=False) as client:
            retriever = Retriever(client, "recall", endpoint=endpoint_of(settings), fusion=settings.fusion())
            for strategy in STRATEGIES:
                row = np.array([_recalls(retriever, strategy, mode, asked) for mode in MODES])
                sums += row
                told = [f"{at_hits:.1f} / {at_tokens:.1f}" for at_hits, at_tokens in row]
                table.add_row(strategy, str(report.strategies[strategy].chunks), *told)
    table.add_row("mean", "", *(f"{one:.1f} / {other:.1f}" for one, other in sums / len(STRATEGIES)))
    console.print(table)


def _recalls(retriever: Retriever, strategy: str, mode: str, asked: Sequence[dict[str, Any]]) -> tuple[float, float]:
    """Mean recall in % at a number of hits and at a budget of tokens."""
    pairs = [
        (
            recall(question, retriever.search(question["question"], strategy, HITS, mode=mode)),
            recall(question, retriever.search(question["question"], strategy, mode=mode, max_tokens=TOKENS)),
        )
        for question in asked
    ]
    at_hits, at_tokens = np.mean(pairs, axis=0) * 100
    return float(at_hits), float(at_tokens)


if __name__ == "__main__":
    given, wanted = sys.argv[1:], dict[str, str]()
    while "--set" in given:
        at = given.index("--set")
        name, _, value = given[at + 1].partition("=")
        wanted[name] = value
        del given[at : at + 2]
    places = [*zip(map(Path, given[::2]), map(Path, given[1::2]), strict=True)]
    for documents, named in places or [(SAMPLE, SAMPLE / "questions.jsonl")]:
        measure(documents, named, wanted, Console())
