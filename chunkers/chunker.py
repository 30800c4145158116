"""What every strategy offers: a chunker is built once from its parameters and then chunks batches of documents.

A batch is chunked in one call so that strategies which embed sentences or paragraphs can embed those of the whole batch
together. Nothing is shared between the documents of a batch but the models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from chunkers.document import Chunk, Document, Parent


@dataclass(frozen=True, slots=True)
class Chunked:
    """One document's chunks, in order, and the parents that they name. Both are empty for a blank document."""

    document: Document
    chunks: list[Chunk]
    parents: list[Parent]


class Chunker(Protocol):
    """A strategy with its parameters.

    Attributes:
        strategy: the name in `chunkers.STRATEGIES`.
        parameters: every parameter that changes the chunks, by name; part of a collection's fingerprint.
    """

    strategy: str

    @property
    def parameters(self) -> dict[str, Any]: ...

    def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
        """One `Chunked` per document, in order.

        Raises:
            ModelError: a model that the strategy needs gave no usable answer.
        """
        ...
