"""The six strategies by name, and the short ways to use one: `chunk`, `chunk_document`, `build_chunker`."""

from __future__ import annotations

import inspect
from typing import Any

from chunkers.chunker import Chunker
from chunkers.contextual_retrieval import ContextualRetrievalChunker
from chunkers.document import Chunk, Document, Parent
from chunkers.errors import SettingError
from chunkers.fixed_size import FixedSizeChunker
from chunkers.input_limit import WithinInputLimit
from chunkers.models.base import ContextWriter, Embedder
from chunkers.recursive import RecursiveChunker
from chunkers.semantic import SemanticChunker
from chunkers.semantic_parent_child import SemanticParentChildChunker
from chunkers.sentence import SentenceChunker

_CHUNKERS: dict[str, Any] = {
    chunker.strategy: chunker
    for chunker in (
        FixedSizeChunker,
        RecursiveChunker,
        SentenceChunker,
        SemanticChunker,
        ContextualRetrievalChunker,
        SemanticParentChildChunker,
    )
}

STRATEGIES: tuple[str, ...] = tuple(_CHUNKERS)


def build_chunker(
    strategy: str,
    *,
    embedder: Embedder | None = None,
    context_writer: ContextWriter | None = None,
    **parameters: Any,
) -> Chunker:
    """A chunker for `strategy`, its parameters checked.

    Args:
        strategy: one of `STRATEGIES`.
        embedder: for the strategies that embed sentences or paragraphs, the built-in one by default; whichever the strategy, a
            context is shortened where it would make a text too long for it.
        context_writer: for `contextual_retrieval`; the built-in outline by default.
        parameters: the strategy's own, such as `chunk_size`; see the class of the strategy.

    Raises:
        SettingError: the strategy or a parameter is unknown, or a value is out of its range.
    """
    if not isinstance(strategy, str) or strategy not in _CHUNKERS:
        raise SettingError("strategy", strategy, f"one of {', '.join(STRATEGIES)}")
    chunker = _CHUNKERS[strategy]
    wanted = inspect.signature(chunker).parameters
    known = [name for name in wanted if name not in ("embedder", "context_writer")]
    for name, value in parameters.items():
        if name not in known:
            raise SettingError(name, value, f"left out: {strategy} takes {', '.join(known)}")
    if embedder is not None and not hasattr(embedder, "embed"):
        raise SettingError("embedder", embedder, "an `Embedder`, such as `chunkers.models` makes")
    if context_writer is not None and not hasattr(context_writer, "write"):
        raise SettingError("context_writer", context_writer, "a `ContextWriter`, such as `chunkers.models` makes")
    if "embedder" in wanted:
        parameters["embedder"] = embedder or _builtin_embedder()
    if "context_writer" in wanted:
        parameters["context_writer"] = context_writer or _builtin_context_writer()
    built: Chunker = chunker(**parameters)
    longest = getattr(embedder, "max_input_tokens", None)
    return built if not embedder or longest is None else WithinInputLimit(built, embedder, longest)


def chunk_document(
    document: Document,
    strategy: str,
    *,
    embedder: Embedder | None = None,
    context_writer: ContextWriter | None = None,
    **parameters: Any,
) -> tuple[list[Chunk], list[Parent]]:
    """The chunks of a document, in order, and the parents that they name.

    Raises:
        SettingError: as `build_chunker`.
        ModelError: a model that the strategy needs gave no usable answer.
    """
    chunker = build_chunker(strategy, embedder=embedder, context_writer=context_writer, **parameters)
    (chunked,) = chunker.chunk([document])
    return chunked.chunks, chunked.parents


def chunk(text_or_document: str | Document, strategy: str, **parameters: Any) -> list[Chunk]:
    """The chunks of a text or a document, in order. A string is chunked whole, as markdown in English.

    Raises:
        SettingError, ModelError: as `chunk_document`.
    """
    document = text_or_document if isinstance(text_or_document, Document) else Document(text=text_or_document)
    return chunk_document(document, strategy, **parameters)[0]


def _builtin_embedder() -> Embedder:
    from chunkers.models.wordllama_embedder import WordllamaEmbedder

    return WordllamaEmbedder()


def _builtin_context_writer() -> ContextWriter:
    from chunkers.models.outline import OutlineWriter

    return OutlineWriter()
