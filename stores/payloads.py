"""Chunks and parents as points: payloads and vectors, pure.

The layout is read by plain qdrant-client, by LangChain (`content_payload_key="text"`) and by LlamaIndex: the text and the ids at top level,
everything else under `metadata`. Front matter is anything that somebody wrote, so values are cleaned until every client and server
takes them.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from qdrant_client import models

from chunkers import Chunk, Document, Parent
from chunkers.ids import text_hash
from chunkers.models.bm25 import SparseVector

# The sparse vector's name. The dense one has none, which is to say the empty one.
SPARSE = "bm25"

_SURROGATE = re.compile("[\ud800-\udfff]")
_DEEPEST = 8
_I64 = 2**63


def clean(value: Any, depth: int = 0) -> Any:
    """`value` as JSON that Qdrant takes: text without lone surrogates, finite numbers, keys that are text, at most eight levels deep.

    A number that JSON or Qdrant has no place for (NaN, infinity, beyond 64 bits) becomes text, as does anything of an unknown type.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return clean(value.tolist(), depth)
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, int):
        return value if -_I64 <= value < _I64 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if depth >= _DEEPEST:
        return clean(str(value))
    if isinstance(value, Mapping):
        return {clean(str(key)): clean(item, depth + 1) for key, item in value.items()}
    if isinstance(value, set | frozenset):
        # Its order differs from process to process, and a payload that differs is written again.
        value = sorted(value, key=lambda item: (type(item).__name__, str(item)))
    if isinstance(value, list | tuple):
        return [clean(item, depth + 1) for item in value]
    return clean(str(value))


def chunk_payload(document: Document, chunk: Chunk, strategy: str, ingested_at: str) -> dict[str, Any]:
    """The payload of a chunk point. Front matter never overwrites what we say ourselves; where it would, it is left out here."""
    metadata = {
        **_front_matter(document),
        **_place(document, chunk, strategy, ingested_at),
        "index": chunk.index,
        "context_source": chunk.context_source,
        "context_scope": chunk.context_scope,
        "context_shortened": chunk.context_shortened or None,
    }
    for name in ("context_scope", "context_shortened"):
        # Only where they say something; the names are ours all the same.
        if metadata[name] is None:
            del metadata[name]
    return {
        "kind": "chunk",
        "text": chunk.text,
        "context": clean(chunk.context),
        "doc_id": document.id,
        "parent_id": chunk.parent_id,
        "embedding_hash": text_hash(chunk.embedding_text),
        "metadata": metadata,
    }


def parent_payload(document: Document, parent: Parent, strategy: str, ingested_at: str) -> dict[str, Any]:
    """The payload of a parent point."""
    metadata = {**_front_matter(document), **_place(document, parent, strategy, ingested_at)}
    return {"kind": "parent", "text": parent.text, "doc_id": document.id, "metadata": metadata}


def _place(document: Document, piece: Chunk | Parent, strategy: str, ingested_at: str) -> dict[str, Any]:
    return {
        "source": clean(document.uri),
        "title": clean(document.title),
        "headings": list(piece.headings),
        "start_char": piece.start_char,
        "end_char": piece.end_char,
        "token_count": piece.token_count,
        "strategy": strategy,
        "language": document.language,
        "ingested_at": ingested_at,
    }


def _front_matter(document: Document) -> dict[str, Any]:
    cleaned: dict[str, Any] = clean(document.metadata)
    return cleaned


def same_but_for_stamp(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether two payloads differ in nothing but the time of ingestion."""
    return _without_stamp(stored) == _without_stamp(wanted)


def _without_stamp(payload: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in (payload.get("metadata") or {}).items() if name != "ingested_at"}
    return {**payload, "metadata": metadata}


def vectors(dense: list[float], sparse: SparseVector) -> dict[str, Any]:
    """The vectors of a chunk. One without words has no sparse vector, rather than an empty one."""
    if not sparse.indices:
        return {"": dense}
    return {"": dense, SPARSE: models.SparseVector(indices=sparse.indices, values=sparse.values)}


def dense_vector(stored: Any) -> list[float] | None:
    """The dense one of the vectors that a point was read with; None without one."""
    return stored.get("") if isinstance(stored, Mapping) else stored or None


def point(id_: str, payload: dict[str, Any], vectors: dict[str, Any] | None = None) -> models.PointStruct:
    """A point with vectors by name, or without any."""
    return models.PointStruct(id=id_, payload=payload, vector=vectors or {})
