"""What it costs to keep a corpus up to date: edits, unchanged runs, memory, and points into the store. Run from the checkout:

    python -m tests.benchmarks.reingestion [--quick]

A table for each part. Most of the time goes into storing 10,000 documents under all six strategies; `--quick` takes small corpora and
few rounds, a few minutes in all.
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console

from chunkers import STRATEGIES
from tests.benchmarks import edits, memory, store, unchanged
from tests.benchmarks.runs import Trial
from tests.benchmarks.texts import named_texts, paragraphs

ONE = ("recursive",)


def main(quick: bool, console: Console) -> None:
    """Print every table."""
    texts = named_texts([])
    edits.measure(texts, 10 if quick else edits.EDITS, console)
    store.measure(texts["prose"], 1000 if quick else 5000, 1 if quick else 3, console)
    sizes = (100, 300) if quick else (300, 1000, 10_000)
    rounds = 1 if quick else 3
    with TemporaryDirectory() as folder:
        trials = [
            Trial(Path(folder, f"{documents}-{len(strategies)}"), paragraphs(texts), documents, strategies)
            for documents in sizes
            for strategies in (ONE, STRATEGIES)
        ]
        unchanged.measure(trials, rounds, console)
        memory.measure(trials, console)


if __name__ == "__main__":
    main("--quick" in sys.argv[1:], Console(width=160))
