"""The embedding model's input limit: a context prefix never makes a text longer than the model takes.

`chunk_size` caps the text, and settings that let the text alone pass the limit are refused before work starts. What a prefix may add
depends on the text, so a prefix is shortened here, at a word, to what is left beside its text, and left out where nothing is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from chunkers.chunker import Chunked, Chunker
from chunkers.document import Chunk, Document
from chunkers.models.base import Embedder
from chunkers.models.texts import shorten
from chunkers.spans import furthest


class WithinInputLimit:
    """`chunker`, with contexts shortened to the input limit of `embedder`."""

    def __init__(self, chunker: Chunker, embedder: Embedder, longest: int) -> None:
        self.strategy = chunker.strategy
        self._chunker, self._embedder, self._longest = chunker, embedder, longest

    @property
    def parameters(self) -> dict[str, Any]:
        return self._chunker.parameters

    def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
        return [
            replace(chunked, chunks=[self._fitted(chunk) for chunk in chunked.chunks])
            for chunked in self._chunker.chunk(documents)
        ]

    def _fitted(self, chunk: Chunk) -> Chunk:
        if not chunk.context or self._fits(chunk):
            return chunk
        context = chunk.context
        longest = furthest(2, len(context), lambda size: self._fits(replace(chunk, context=shorten(context, size))))
        if longest < 2:
            return replace(chunk, context=None, context_source=None, context_scope=None, context_shortened=True)
        return replace(chunk, context=shorten(context, longest), context_shortened=True)

    def _fits(self, chunk: Chunk) -> bool:
        text = chunk.embedding_text
        # A token has at least one byte, so most texts need not be counted.
        return len(text.encode()) <= self._longest or self._embedder.count_tokens(text) <= self._longest
