"""Strategy `fixed_size`: windows of a fixed number of tokens that overlap. It ignores structure; sizes are even and cost is lowest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chunkers import parameters
from chunkers.assembly import make_chunks
from chunkers.chunker import Chunked
from chunkers.document import Chunk, Document
from chunkers.windows import token_windows


class FixedSizeChunker:
    """Windows of `chunk_size` tokens, each `chunk_size - chunk_overlap` tokens after the one before.

    An unset overlap is 50 tokens, or a tenth of a `chunk_size` of 50 or less.

    Raises:
        SettingError: `chunk_size` is below 1, or `chunk_overlap` is not below `chunk_size`.
    """

    strategy = "fixed_size"

    def __init__(self, *, chunk_size: int = 512, chunk_overlap: int | None = None) -> None:
        self.chunk_size = parameters.whole("chunk_size", chunk_size, 1)
        self.chunk_overlap = parameters.overlap("chunk_overlap", chunk_overlap, "chunk_size", self.chunk_size)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"chunk_size": self.chunk_size, "chunk_overlap": self.chunk_overlap}

    def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
        return [Chunked(document, self._chunks(document), []) for document in documents]

    def _chunks(self, document: Document) -> list[Chunk]:
        spans = token_windows(document.analysis, self.chunk_size, self.chunk_overlap)
        return make_chunks(document, spans)
