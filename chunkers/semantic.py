"""Strategy `semantic`: neighbouring sentences stay together while their embeddings are alike.

A chunk ends where the cosine of two adjacent sentences falls under the threshold and the chunk has at least the minimum of
sentences, and wherever the cap would be passed. The cap beats the minimum; a last group under the minimum joins the one before it if
it fits.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chunkers import parameters
from chunkers.analysis import Analysis
from chunkers.assembly import make_chunks
from chunkers.chunker import Chunked
from chunkers.document import Document
from chunkers.models.base import Embedder
from chunkers.similarity import adjacent_cosines, boundaries
from chunkers.spans import Limit, Span, furthest
from chunkers.units import sentence_units

# Percentile under which a gap is a boundary, where the mode is percentile and no threshold is set.
DEFAULT_PERCENTILE = 25.0


class SemanticChunker:
    """Groups of sentences that are about one thing.

    Args:
        embedder: gives the sentence embeddings.
        chunk_size: tokens a chunk has at most.
        semantic_threshold: a cosine, or a percentile; unset, the model's own default or the 25th percentile.
        semantic_threshold_mode: `absolute` or `percentile`.
        semantic_min_chunk_size: sentences a chunk should have at least.

    Raises:
        SettingError: a parameter is out of its range.
    """

    strategy = "semantic"

    def __init__(
        self,
        embedder: Embedder,
        *,
        chunk_size: int = 512,
        semantic_threshold: float | None = None,
        semantic_threshold_mode: str = parameters.ABSOLUTE,
        semantic_min_chunk_size: int = 5,
    ) -> None:
        self.embedder = embedder
        self.chunk_size = parameters.whole("chunk_size", chunk_size, 1)
        self.mode = parameters.threshold_mode(semantic_threshold_mode)
        own = embedder.semantic_threshold if self.mode == parameters.ABSOLUTE else DEFAULT_PERCENTILE
        threshold = parameters.threshold(semantic_threshold, self.mode)
        self.threshold = own if threshold is None else threshold
        self.minimum = parameters.whole("semantic_min_chunk_size", semantic_min_chunk_size, 1)

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            "chunk_size": self.chunk_size,
            "semantic_threshold": self.threshold,
            "semantic_threshold_mode": self.mode,
            "semantic_min_chunk_size": self.minimum,
        }

    def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
        limit = Limit(self.chunk_size)
        units = [sentence_units(document.analysis, limit) for document in documents]
        # A document of one group needs no embedding, since no gap in it could be a boundary.
        wanted = [[[unit] for unit in own] if len(own) > self.minimum else [] for own in units]
        cosines = adjacent_cosines(self.embedder, documents, wanted)
        results = []
        for document, own, found in zip(documents, units, cosines, strict=True):
            gaps = boundaries(found, self.threshold, self.mode)
            spans = group(document.analysis, own, gaps, limit, self.minimum)
            results.append(Chunked(document, make_chunks(document, spans, header_tokens=self.chunk_size), []))
        return results


def group(analysis: Analysis, units: Sequence[Span], gaps: NDArray[np.bool_], limit: Limit, minimum: int) -> list[Span]:
    """Spans of runs of units: cut at a gap that is a boundary once `minimum` units are in, and where `limit` would be passed."""
    ends = [end for _, end in units]
    cuts = (np.flatnonzero(gaps) + 1).tolist()
    runs: list[tuple[int, int]] = []
    first = 0
    while first < len(units):
        start = units[first][0]
        at = bisect_left(cuts, first + minimum)
        last = cuts[at] if at < len(cuts) else len(units)
        guess = bisect_right(ends, limit.reach(analysis, start)) - 1
        if last > guess + 2 or not limit.fits(analysis, start, ends[last - 1]):
            fits = partial(_fits, analysis, limit, start, ends)
            last = furthest(first + 1, last, fits, guess) + 1
        runs.append((first, last))
        first = last
    if len(runs) > 1 and runs[-1][1] - runs[-1][0] < minimum:
        joined = (runs[-2][0], runs[-1][1])
        if limit.fits(analysis, units[joined[0]][0], units[joined[1] - 1][1]):
            runs[-2:] = [joined]
    return [(units[begin][0], units[end - 1][1]) for begin, end in runs]


def _fits(analysis: Analysis, limit: Limit, start: int, ends: list[int], unit: int) -> bool:
    return limit.fits(analysis, start, ends[unit])
