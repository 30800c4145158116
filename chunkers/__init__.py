"""Text in, chunks out: six chunking strategies with exact offsets, a hard token cap and full coverage.

    >>> from chunkers import chunk
    >>> [c.text for c in chunk("First. Second.", "sentence", chunk_size=3, sentence_overlap=0)]
    ['First.', 'Second.']

Strategies decide on spans, one packer enforces caps, text is cut last: a chunk is always a slice of its document. This package reads
no files and knows neither Prefect nor Qdrant. `chunkers.models` holds what talks to a model.
"""

from __future__ import annotations

from chunkers.chunker import Chunked, Chunker
from chunkers.document import Chunk, Document, Parent
from chunkers.errors import ModelError, SettingError
from chunkers.strategies import STRATEGIES, build_chunker, chunk, chunk_document

__all__ = [
    "STRATEGIES",
    "Chunk",
    "Chunked",
    "Chunker",
    "Document",
    "ModelError",
    "Parent",
    "SettingError",
    "build_chunker",
    "chunk",
    "chunk_document",
]
