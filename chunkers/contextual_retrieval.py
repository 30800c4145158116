"""Strategy `contextual_retrieval`: token windows, each with a short context prefix that tells where it stands.

The enriched text (context, blank line, window) is embedded; the window is stored as it is and the context beside it.
After Anthropic, "Introducing Contextual Retrieval", 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from chunkers import parameters
from chunkers.assembly import make_chunks
from chunkers.chunker import Chunked
from chunkers.document import Chunk, Document
from chunkers.errors import ModelError
from chunkers.models.base import Context, ContextRequest, ContextWriter
from chunkers.windows import token_windows


class ContextualRetrievalChunker:
    """Windows of `chunk_size` tokens with a context each.

    Args:
        context_writer: writes the contexts.
        chunk_size, chunk_overlap: as for `fixed_size`; the cap counts the window, not the context.
        context_window_chars: characters before and after the window that the writer is shown.

    Raises:
        SettingError: a parameter is out of its range.
    """

    strategy = "contextual_retrieval"

    def __init__(
        self,
        context_writer: ContextWriter,
        *,
        chunk_size: int = 512,
        chunk_overlap: int | None = None,
        context_window_chars: int = 500,
    ) -> None:
        self.context_writer = context_writer
        self.chunk_size = parameters.whole("chunk_size", chunk_size, 1)
        self.chunk_overlap = parameters.overlap("chunk_overlap", chunk_overlap, "chunk_size", self.chunk_size)
        self.context_window_chars = parameters.whole("context_window_chars", context_window_chars, 0)

    @property
    def parameters(self) -> dict[str, Any]:
        return {
            "chunk_size": self.chunk_size,
            "chunk_overlap": self.chunk_overlap,
            "context_window_chars": self.context_window_chars,
        }

    def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
        plain = [self._plain(document) for document in documents]
        requests = [
            self._request(document, chunk)
            for document, chunks in zip(documents, plain, strict=True)
            for chunk in chunks
        ]
        contexts = iter(self._written(requests))
        results = []
        for document, chunks in zip(documents, plain, strict=True):
            written = [(chunk, next(contexts)) for chunk in chunks]
            enriched = [
                replace(
                    chunk,
                    context=context.text or None,
                    context_source=context.source if context.text else None,
                )
                for chunk, context in written
            ]
            results.append(Chunked(document, enriched, []))
        return results

    def _written(self, requests: list[ContextRequest]) -> list[Context]:
        contexts = self.context_writer.write(requests) if requests else []
        if len(contexts) != len(requests):
            name = self.context_writer.name
            raise ModelError(f"{name} was asked for {len(requests)} contexts and gave {len(contexts)}")
        return contexts

    def _plain(self, document: Document) -> list[Chunk]:
        spans = token_windows(document.analysis, self.chunk_size, self.chunk_overlap)
        return make_chunks(document, spans)

    def _request(self, document: Document, chunk: Chunk) -> ContextRequest:
        window = self.context_window_chars
        return ContextRequest(
            text=chunk.text,
            preceding=document.text[max(0, chunk.start_char - window) : chunk.start_char],
            following=document.text[chunk.end_char : chunk.end_char + window],
            title=document.title,
            headings=chunk.headings,
        )
