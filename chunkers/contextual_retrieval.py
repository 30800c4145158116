"""Strategy `contextual_retrieval`: token windows, each with a short context prefix that tells where it stands.

The enriched text (context, blank line, window) is embedded; the window is stored as it is and the context beside it. The model that
writes the contexts is shown some text around the window, or the whole document where it has room for it.
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
from chunkers.errors import ModelError, SettingError
from chunkers.models.base import Context, ContextRequest, ContextWriter
from chunkers.windows import token_windows

_Request = tuple[ContextRequest, "str | None"]


class ContextualRetrievalChunker:
    """Windows of `chunk_size` tokens with a context each.

    Args:
        context_writer: writes the contexts.
        chunk_size, chunk_overlap: as for `fixed_size`; the cap counts the window, not the context.
        context_window_chars: characters before and after the window that the writer is shown.
        context_scope: `document` shows it the whole document instead, which costs its tokens once more for each window.
        context_max_document_tokens: documents of more are shown by `context_window_chars` all the same, as are those that the
            writer finds too long.

    Raises:
        SettingError: a parameter is out of its range, or the writer makes no use of whole documents.
    """

    strategy = "contextual_retrieval"

    def __init__(
        self,
        context_writer: ContextWriter,
        *,
        chunk_size: int = 512,
        chunk_overlap: int | None = None,
        context_window_chars: int = 500,
        context_scope: str = parameters.WINDOW,
        context_max_document_tokens: int = 100_000,
    ) -> None:
        self.context_writer = context_writer
        self.chunk_size = parameters.whole("chunk_size", chunk_size, 1)
        self.chunk_overlap = parameters.overlap("chunk_overlap", chunk_overlap, "chunk_size", self.chunk_size)
        self.context_window_chars = parameters.whole("context_window_chars", context_window_chars, 0)
        self.context_scope = parameters.context_scope(context_scope)
        self.context_max_document_tokens = parameters.whole(
            "context_max_document_tokens", context_max_document_tokens, 1
        )
        if self._whole and getattr(context_writer, "document_prompt_version", None) is None:
            known = f"{parameters.WINDOW!r} with {context_writer.name}, which makes no use of whole documents"
            raise SettingError("context_scope", context_scope, known)

    @property
    def parameters(self) -> dict[str, Any]:
        told: dict[str, Any] = {
            "chunk_size": self.chunk_size,
            "chunk_overlap": self.chunk_overlap,
            "context_window_chars": self.context_window_chars,
        }
        if self._whole:
            told["context_scope"] = self.context_scope
            told["context_max_document_tokens"] = self.context_max_document_tokens
        return told

    @property
    def _whole(self) -> bool:
        return self.context_scope == parameters.DOCUMENT

    def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
        plain = [self._plain(document) for document in documents]
        requests = [
            self._request(document, chunk, alone=len(chunks) == 1)
            for document, chunks in zip(documents, plain, strict=True)
            for chunk in chunks
        ]
        contexts = iter(self._contexts(requests))
        return [
            Chunked(document, [_enriched(chunk, *next(contexts)) for chunk in chunks], [])
            for document, chunks in zip(documents, plain, strict=True)
        ]

    def _contexts(self, requests: list[_Request]) -> list[tuple[Context, str | None]]:
        """The context of each chunk, and what the writer was shown for it."""
        contexts = self._written([request for request, _ in requests])
        scopes = [scope for _, scope in requests]
        too_long = [place for place, context in enumerate(contexts) if context.too_long]
        windows = self._written([replace(requests[place][0], document=None) for place in too_long])
        for place, context in zip(too_long, windows, strict=True):
            contexts[place], scopes[place] = context, parameters.WINDOW
        return list(zip(contexts, scopes, strict=True))

    def _written(self, requests: list[ContextRequest]) -> list[Context]:
        contexts = self.context_writer.write(requests) if requests else []
        if len(contexts) != len(requests):
            name = self.context_writer.name
            raise ModelError(f"{name} was asked for {len(requests)} contexts and gave {len(contexts)}")
        return contexts

    def _plain(self, document: Document) -> list[Chunk]:
        spans = token_windows(document.analysis, self.chunk_size, self.chunk_overlap)
        return make_chunks(document, spans)

    def _request(self, document: Document, chunk: Chunk, *, alone: bool) -> _Request:
        """What is asked for a chunk, and what is shown for it; None where that is always the window."""
        window = self.context_window_chars
        request = ContextRequest(
            text=chunk.text,
            preceding=document.text[max(0, chunk.start_char - window) : chunk.start_char],
            following=document.text[chunk.end_char : chunk.end_char + window],
            title=document.title,
            headings=chunk.headings,
        )
        if not self._whole:
            return request, None
        if len(document.analysis.tokens) > self.context_max_document_tokens:
            return request, parameters.WINDOW
        # A chunk that is alone is the whole document, which need not be shown twice.
        return request if alone else replace(request, document=document.text), parameters.DOCUMENT


def _enriched(chunk: Chunk, context: Context, scope: str | None) -> Chunk:
    if not context.text:
        return replace(chunk, context=None, context_source=None)
    scope = None if context.fallback else scope
    return replace(chunk, context=context.text, context_source=context.source, context_scope=scope)
