"""How alike neighbouring units are, and which of the gaps between them are boundaries."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chunkers.document import Document
from chunkers.errors import ModelError
from chunkers.models.base import Embedder, Vectors
from chunkers.parameters import PERCENTILE
from chunkers.spans import Span

# Units embedded in one call: bounds the memory of a call whatever the size of the batch of documents.
WINDOW = 4096


def embed_spans(embedder: Embedder, documents: Sequence[Document], spans: Sequence[Sequence[Span]]) -> list[Vectors]:
    """The vectors of each document's spans, all embedded together in calls of at most `WINDOW` texts.

    Returns:
        One array of shape (number of the document's spans, dimensions) per document.

    Raises:
        ModelError: the model gave no usable answer, or not one finite vector of its dimensions for each text.
    """
    texts = [document.text[start:end] for document, own in zip(documents, spans, strict=True) for start, end in own]
    vectors = np.zeros((len(texts), embedder.dimensions), dtype=np.float32)
    for begin in range(0, len(texts), WINDOW):
        asked = texts[begin : begin + WINDOW]
        found = np.asarray(embedder.embed(asked))
        if found.shape != (len(asked), embedder.dimensions) or not np.isfinite(found).all():
            raise ModelError(
                f"{embedder.name} was asked for {len(asked)} vectors of {embedder.dimensions} numbers "
                f"and gave an array of shape {found.shape}{'' if np.isfinite(found).all() else ' with NaN'}"
            )
        vectors[begin : begin + WINDOW] = found
    edges = np.cumsum([0, *(len(own) for own in spans)])
    return [vectors[edges[n] : edges[n + 1]] for n in range(len(spans))]


def adjacent_cosines(vectors: Vectors) -> NDArray[np.float64]:
    """Cosine of each row with the next, shape (rows - 1,). A zero row is like nothing: its cosines are 0."""
    if len(vectors) < 2:
        return np.zeros(0)
    left, right = vectors[:-1].astype(np.float64), vectors[1:].astype(np.float64)
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    dots = np.einsum("ij,ij->i", left, right)
    return np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0)


def boundaries(cosines: NDArray[np.float64], threshold: float, mode: str) -> NDArray[np.bool_]:
    """Which gaps are boundaries: cosine under `threshold`, or under that percentile of the document's own cosines."""
    if mode == PERCENTILE and len(cosines):
        threshold = float(np.percentile(cosines, threshold))
    return cosines < threshold
