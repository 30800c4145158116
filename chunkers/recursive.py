"""Strategy `recursive`: the text is parted at its strongest boundaries first, and parts are merged up to a target in characters.

The cascade itself is in `chunkers.cascade`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chunkers import parameters
from chunkers.assembly import make_chunks
from chunkers.cascade import split
from chunkers.chunker import Chunked
from chunkers.document import Document
from chunkers.spans import Limit


class RecursiveChunker:
    """Chunks of up to `recursive_chunk_chars` characters and never over `chunk_size` tokens.

    Raises:
        SettingError: one of them is below 1.
    """

    strategy = "recursive"

    def __init__(self, *, chunk_size: int = 512, recursive_chunk_chars: int = 2000) -> None:
        self.chunk_size = parameters.whole("chunk_size", chunk_size, 1)
        self.recursive_chunk_chars = parameters.whole("recursive_chunk_chars", recursive_chunk_chars, 1)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"chunk_size": self.chunk_size, "recursive_chunk_chars": self.recursive_chunk_chars}

    def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
        limit = Limit(self.chunk_size, self.recursive_chunk_chars)
        return [
            Chunked(document, make_chunks(document, spans, header_tokens=self.chunk_size), [])
            for document in documents
            for spans in [split(document.analysis, 0, len(document.text), limit)]
        ]
