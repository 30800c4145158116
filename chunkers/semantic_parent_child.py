"""Strategy `semantic_parent_child`: small children are found, the larger parent around them is read.

Consecutive paragraphs whose embeddings are alike form a cluster. The cluster's text is the parent, each paragraph a child that names
it; a paragraph over the cap gives several children. The vector of a paragraph is the mean of its children's, which are the texts
that are stored anyway: with a cache nothing is embedded twice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chunkers import parameters
from chunkers.analysis import Analysis
from chunkers.assembly import make_chunks, make_parents
from chunkers.cascade import split
from chunkers.chunker import Chunked
from chunkers.document import Document
from chunkers.errors import SettingError
from chunkers.models.base import Embedder
from chunkers.packing import pack
from chunkers.semantic import DEFAULT_PERCENTILE, group
from chunkers.similarity import adjacent_cosines, boundaries
from chunkers.spans import Limit, Span
from chunkers.units import paragraph_spans

DEFAULT_PARENT_TOKENS = 2048


class SemanticParentChildChunker:
    """Clusters of paragraphs as parents, paragraphs as children.

    Args:
        embedder: gives the paragraph embeddings.
        chunk_size: tokens a child has at most.
        parent_max_tokens: tokens a parent has at most; unset, 2048 or `chunk_size` if that is more.
        semantic_threshold: a cosine, or a percentile; unset, the model's own default or the 25th percentile.
        semantic_threshold_mode: `absolute` or `percentile`.

    Raises:
        SettingError: a parameter is out of its range, or `parent_max_tokens` is below `chunk_size`.
    """

    strategy = "semantic_parent_child"

    def __init__(
        self,
        embedder: Embedder,
        *,
        chunk_size: int = 512,
        parent_max_tokens: int | None = None,
        semantic_threshold: float | None = None,
        semantic_threshold_mode: str = parameters.ABSOLUTE,
    ) -> None:
        self.embedder = embedder
        self.chunk_size = parameters.whole("chunk_size", chunk_size, 1)
        unset = max(DEFAULT_PARENT_TOKENS, self.chunk_size)
        self.parent_max_tokens = (
            unset if parent_max_tokens is None else parameters.whole("parent_max_tokens", parent_max_tokens, 1)
        )
        if self.parent_max_tokens < self.chunk_size:
            raise SettingError("parent_max_tokens", parent_max_tokens, f"at least chunk_size ({self.chunk_size})")
        self.mode = parameters.threshold_mode(semantic_threshold_mode)
        own = embedder.paragraph_threshold if self.mode == parameters.ABSOLUTE else DEFAULT_PERCENTILE
        threshold = parameters.threshold(semantic_threshold, self.mode)
        self.threshold = own if threshold is None else threshold

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            "chunk_size": self.chunk_size,
            "parent_max_tokens": self.parent_max_tokens,
            "semantic_threshold": self.threshold,
            "semantic_threshold_mode": self.mode,
        }

    def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
        limit, parent_limit = Limit(self.chunk_size), Limit(self.parent_max_tokens)
        parted = [_paragraphs(document.analysis, limit, parent_limit) for document in documents]
        # A document of one paragraph is one cluster whatever its vector.
        wanted = [[children for _, children in own] if len(own) > 1 else [] for own in parted]
        cosines = adjacent_cosines(self.embedder, documents, wanted)
        return [self._chunked(*parts) for parts in zip(documents, parted, cosines, strict=True)]

    def _chunked(
        self, document: Document, parted: list[tuple[Span, list[Span]]], cosines: NDArray[np.float64]
    ) -> Chunked:
        gaps = boundaries(cosines, self.threshold, self.mode)
        paragraphs = [paragraph for paragraph, _ in parted]
        clusters = group(document.analysis, paragraphs, gaps, Limit(self.parent_max_tokens), 1)
        parents = make_parents(document, clusters)
        spans = [child for _, children in parted for child in children]
        of_child = []
        at = 0
        for start, _ in spans:
            while start >= parents[at].end_char:
                at += 1
            of_child.append(parents[at])
        chunks = make_chunks(document, spans, parents=of_child, header_tokens=self.chunk_size)
        return Chunked(document, chunks, parents)


def _paragraphs(analysis: Analysis, limit: Limit, parent_limit: Limit) -> list[tuple[Span, list[Span]]]:
    """The paragraphs of a document with their children; a paragraph over the parents' limit counts as several."""
    found: list[tuple[Span, list[Span]]] = []
    paragraphs = paragraph_spans(analysis)
    for (start, end), whole in zip(paragraphs, limit.trimmed_all(analysis, paragraphs), strict=True):
        if whole:
            found.append((whole, [whole]))
            continue
        children = split(analysis, start, end, limit)
        if any(analysis.clusters.floor(child) < child for child, _ in children):
            # A cluster that no child could hold may yet fit into a parent, so parents are cut before their children.
            found.extend((part, split(analysis, *part, limit)) for part in split(analysis, start, end, parent_limit))
            continue
        first = 0
        for part in pack(analysis, children, parent_limit):
            last = bisect_left(children, (part[1],), first)
            found.append((part, children[first:last]))
            first = last
    return found
