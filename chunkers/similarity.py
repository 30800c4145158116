"""How alike neighbouring units are, and which of the gaps between them are boundaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from chunkers.document import Document
from chunkers.errors import ModelError
from chunkers.models.base import Embedder, Vectors
from chunkers.parameters import PERCENTILE
from chunkers.spans import Span

# Texts embedded in one call, and units whose vectors are in memory: bounds both whatever the size of the batch of documents.
WINDOW = 4096

_ROUNDING = 1e-9

# What a unit is made of: the sentence or the paragraph itself, or the parts of a paragraph that is over the cap.
Unit = Sequence[Span]


def adjacent_cosines(
    embedder: Embedder, documents: Sequence[Document], units: Sequence[Sequence[Unit]]
) -> list[NDArray[np.float64]]:
    """The cosine of each unit of a document with the next. The vector of a unit is the mean of those of its parts.

    The units of all documents are embedded together, in calls of at most `WINDOW` texts; no more vectors than that are kept.

    Args:
        units: for each document its units, none without a part.

    Returns:
        One array per document, shape (units - 1,), or (0,) without units. A vector of zeros is like nothing: its cosines are 0.

    Raises:
        ModelError: the model gave no usable answer, or not one finite vector of its dimensions for each text.
    """
    every = [(document, unit) for document, own in zip(documents, units, strict=True) for unit in own]
    cosines = np.zeros(len(every))
    before = np.zeros((0, embedder.dimensions))
    at = 0
    for window in _windows(every):
        rows = np.concatenate([before, _unit_vectors(embedder, window)])
        squares = np.einsum("ij,ij->i", rows, rows)
        lengths = np.sqrt(squares[:-1] * squares[1:])
        dots = np.einsum("ij,ij->i", rows[:-1], rows[1:])
        # Each window also finds the cosine of its first unit with the last of the window before.
        found = np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0)
        first = at - len(before)
        cosines[first : first + len(found)] = found
        before, at = rows[-1:], at + len(window)
    edges = np.cumsum([0, *(len(own) for own in units)])
    return [cosines[start : max(end - 1, start)] for start, end in pairwise(edges)]


def _windows(every: list[tuple[Document, Unit]]) -> Iterator[list[tuple[Document, Unit]]]:
    """Runs of units that have `WINDOW` parts or hardly more together."""
    window: list[tuple[Document, Unit]] = []
    parts = 0
    for document, unit in every:
        if window and parts + len(unit) > WINDOW:
            yield window
            window, parts = [], 0
        window.append((document, unit))
        parts += len(unit)
    if window:
        yield window


def _unit_vectors(embedder: Embedder, window: list[tuple[Document, Unit]]) -> NDArray[np.float64]:
    """The sum of the vectors of each unit's parts, shape (units, dimensions): it points where their mean does."""
    owners = np.repeat(np.arange(len(window)), [len(unit) for _, unit in window])
    texts = [document.text[start:end] for document, unit in window for start, end in unit]
    sums = np.zeros((len(window), embedder.dimensions))
    for begin in range(0, len(texts), WINDOW):
        vectors = _embedded(embedder, texts[begin : begin + WINDOW])
        own = owners[begin : begin + WINDOW]
        if len(own) == len(window):
            sums += vectors
        else:
            firsts = np.flatnonzero(np.diff(own, prepend=-1))
            sums[own[firsts]] += np.add.reduceat(vectors, firsts, axis=0, dtype=np.float64)
    return sums


def _embedded(embedder: Embedder, texts: list[str]) -> Vectors:
    answer = embedder.embed(texts)
    try:
        found = np.asarray(answer, dtype=np.float32)
    except (TypeError, ValueError):
        raise ModelError(f"{embedder.name} was asked for {len(texts)} vectors and gave something else") from None
    if found.shape != (len(texts), embedder.dimensions) or not np.isfinite(found).all():
        raise ModelError(
            f"{embedder.name} was asked for {len(texts)} vectors of {embedder.dimensions} numbers "
            f"and gave an array of shape {found.shape}{'' if np.isfinite(found).all() else ' with NaN'}"
        )
    return found


def boundaries(cosines: NDArray[np.float64], threshold: float, mode: str) -> NDArray[np.bool_]:
    """Which gaps are boundaries: cosine under `threshold`, or under that percentile of the document's own cosines."""
    if mode == PERCENTILE and len(cosines):
        threshold = float(np.percentile(cosines, threshold))
    # Vectors that are the same have a cosine of 1 but for the last digits.
    return cosines < threshold - _ROUNDING
