"""One text through any strategy, with the settings that the strategy has, for tests of behaviour that all of them share."""

from __future__ import annotations

from typing import Any

from chunkers import STRATEGIES, Chunk, Document, Parent, chunk_document
from tests.chunkers.conftest import EchoWriter
from tests.doubles import HashEmbedder

WINDOWS = ("fixed_size", "contextual_retrieval")
SEMANTIC = ("semantic", "semantic_parent_child")
STRUCTURED = tuple(name for name in STRATEGIES if name not in WINDOWS)


def settings(strategy: str, size: int, overlap: int = 0) -> dict[str, Any]:
    """`chunk_size`, and the overlap (in tokens or sentences) where the strategy has one."""
    own: dict[str, Any] = {"chunk_size": size}
    if strategy in WINDOWS:
        own["chunk_overlap"] = overlap
    if strategy == "sentence":
        own["sentence_overlap"] = overlap
    if strategy in SEMANTIC:
        # Nothing is under it, so only structure and cap make a cut.
        own["semantic_threshold"] = -1
    return own


def chunked(text: str | Document, strategy: str, size: int = 512, overlap: int = 0) -> tuple[list[Chunk], list[Parent]]:
    document = text if isinstance(text, Document) else Document(text=text)
    models = {"embedder": HashEmbedder(), "context_writer": EchoWriter()}
    return chunk_document(document, strategy, **models, **settings(strategy, size, overlap))


def chunks_of(text: str | Document, strategy: str, size: int = 512, overlap: int = 0) -> list[Chunk]:
    return chunked(text, strategy, size, overlap)[0]


def texts_of(text: str | Document, strategy: str, size: int = 512, overlap: int = 0) -> list[str]:
    return [c.text for c in chunks_of(text, strategy, size, overlap)]


def places_of(text: str | Document, strategy: str, size: int = 512, overlap: int = 0) -> list[tuple[int, str]]:
    """Where each chunk starts, and its text without white space around it, the start moved along."""
    found = chunks_of(text, strategy, size, overlap)
    return [(c.end_char - len(c.text.lstrip()), c.text.strip()) for c in found]
