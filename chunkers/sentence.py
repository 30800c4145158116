"""Strategy `sentence`: whole sentences up to the cap, the last few repeated at the start of the next chunk.

A chunk ends in the last quarter of the cap: before a heading, at the end of a paragraph or of another block if there is one, else after
the sentence that a checksum chooses. So the boundaries depend on what stands around them, and an edit moves only those near it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from chunkers import parameters
from chunkers.assembly import make_chunks
from chunkers.chunker import Chunked
from chunkers.document import Chunk, Document
from chunkers.packing import pack
from chunkers.spans import Limit
from chunkers.units import sentence_units


class SentenceChunker:
    """Chunks of whole sentences, at most `chunk_size` tokens, `sentence_overlap` sentences shared by neighbours.

    A sentence over the cap is parted inside. The overlap gives way where it would leave no room for a new sentence.

    Raises:
        SettingError: `chunk_size` is below 1 or `sentence_overlap` below 0.
    """

    strategy = "sentence"

    def __init__(self, *, chunk_size: int = 512, sentence_overlap: int = 2) -> None:
        self.chunk_size = parameters.whole("chunk_size", chunk_size, 1)
        self.sentence_overlap = parameters.whole("sentence_overlap", sentence_overlap, 0)

    @property
    def parameters(self) -> dict[str, Any]:
        return {"chunk_size": self.chunk_size, "sentence_overlap": self.sentence_overlap}

    def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
        return [Chunked(document, self._chunks(document), []) for document in documents]

    def _chunks(self, document: Document) -> list[Chunk]:
        limit = Limit(self.chunk_size)
        units = sentence_units(document.analysis, limit)
        spans = pack(document.analysis, units, limit, self.sentence_overlap, steady=True)
        return make_chunks(document, spans, header_tokens=self.chunk_size)
