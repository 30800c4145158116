"""What one edit of a long document costs: the texts that a model is sent again.

Each edit starts from the document as it was, with everything of it in the cache. What is counted are the texts that reach the model,
as in a run: a text that it has seen costs nothing. Units that only decide boundaries are counted apart from chunks.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from chunkers import STRATEGIES, Document, build_chunker
from chunkers.models import open_embedder
from chunkers.models.base import Embedder, Vectors
from tests.benchmarks.nothing import NoWriter

EDITS = 100
# A hundred pages of 3,000 characters.
CHARACTERS = 300_000


class Remembering:
    """The built-in embedder, but no text goes to it twice. Counts those that do go, and forgets what it learnt when it is told to."""

    def __init__(self, inner: Embedder) -> None:
        self._inner = inner
        self._known: dict[str, Vectors] = {}
        self._added: list[str] = []
        self.name, self.dimensions = inner.name, inner.dimensions
        self.semantic_threshold, self.paragraph_threshold = inner.semantic_threshold, inner.paragraph_threshold
        self.max_input_tokens = inner.max_input_tokens
        self.count_tokens: Callable[[str], int] = inner.count_tokens

    @property
    def sent(self) -> set[str]:
        return set(self._added)

    def keep(self) -> None:
        """From now on what it knows is what `forget` comes back to."""
        self._added = []

    def forget(self) -> None:
        for text in self._added:
            del self._known[text]
        self._added = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        if missing:
            self._known.update(zip(missing, self._inner.embed(missing), strict=True))
            self._added += missing
        return np.array([self._known[text] for text in texts], dtype=np.float32).reshape(-1, self.dimensions)


class Cost(NamedTuple):
    """Texts sent to the model: those that only decide boundaries, and those of chunks, whatever they were first asked for."""

    units: int
    chunks: int


def long_document(text: str, characters: int = CHARACTERS) -> list[str]:
    """The paragraphs of the first so many characters of a text (or less, if it is shorter)."""
    paragraphs = text[:characters].split("\n\n")
    return [paragraph for paragraph in (paragraphs[:-1] or paragraphs) if paragraph.strip()]


def edited(paragraphs: Sequence[str], rng: random.Random) -> list[str]:
    """The paragraphs after one random edit of one of them."""
    result = list(paragraphs)
    at = rng.randrange(len(result))
    kind = rng.choice(("insert a sentence", "delete a sentence", "change a word", "insert a paragraph", "delete one"))
    added = f"Note {rng.randrange(10**6)}: this was put in later, and it says one thing more."
    sentences = result[at].split(". ")
    words = result[at].split(" ")
    if kind == "insert a sentence":
        sentences.insert(rng.randrange(len(sentences)), added.removesuffix("."))
        result[at] = ". ".join(sentences)
    elif kind == "delete a sentence" and len(sentences) > 1:
        del sentences[rng.randrange(len(sentences))]
        result[at] = ". ".join(sentences)
    elif kind == "insert a paragraph":
        result.insert(at, f"{added} " * rng.randint(1, 6))
    elif kind == "delete one":
        del result[at]
    else:
        words[rng.randrange(len(words))] = f"word{rng.randrange(10**6)}"
        result[at] = " ".join(words)
    return result


class Long:
    """A long document under one strategy, with all of it known to the model's cache."""

    def __init__(self, strategy: str, document: Document, embedder: Embedder) -> None:
        self._embedder = Remembering(embedder)
        self._chunker = build_chunker(strategy, embedder=self._embedder, context_writer=NoWriter())
        self.first = self._cost(document)
        self._embedder.keep()

    def cost(self, document: Document) -> Cost:
        """What an edited document costs."""
        found = self._cost(document)
        self._embedder.forget()
        return found

    def _cost(self, document: Document) -> Cost:
        (chunked,) = self._chunker.chunk([document])
        texts = [chunk.embedding_text for chunk in chunked.chunks]
        self._embedder.embed(texts)
        chunks = len(self._embedder.sent.intersection(texts))
        return Cost(len(self._embedder.sent) - chunks, chunks)


def document_of(paragraphs: Sequence[str]) -> Document:
    return Document(text="\n\n".join(paragraphs) + "\n", uri="long.md", title="A long document")


def measure(texts: dict[str, str], edits: int, console: Console) -> None:
    """Print a table for each text."""
    embedder = open_embedder("auto", None)
    for name, text in texts.items():
        paragraphs = long_document(text)
        document = document_of(paragraphs)
        longs = {strategy: Long(strategy, document, embedder) for strategy in STRATEGIES}
        rng = random.Random(1)
        found: dict[str, list[Cost]] = {strategy: [] for strategy in STRATEGIES}
        for _ in range(edits):
            # One analysis for all strategies.
            document = document_of(edited(paragraphs, rng))
            for strategy, long in longs.items():
                found[strategy].append(long.cost(document))
        length = sum(map(len, paragraphs))
        table = Table(title=f"{name}: {edits} edits of {length:,} characters, texts embedded", title_justify="left")
        for column in (
            "",
            "chunks, at first",
            "median",
            "mean",
            "worst",
            "boundary units, at first",
            "median",
            "worst",
        ):
            table.add_column(column, justify="right" if column else "left")
        for strategy, costs in found.items():
            first = longs[strategy].first
            chunks, units = [cost.chunks for cost in costs], [cost.units for cost in costs]
            table.add_row(
                strategy,
                f"{first.chunks:,}",
                f"{median(chunks):g}",
                f"{sum(chunks) / len(chunks):.1f}",
                f"{max(chunks)}",
                *((f"{first.units:,}", f"{median(units):g}", f"{max(units)}") if first.units else ("", "", "")),
            )
        console.print(table)
