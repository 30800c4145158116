"""The work on a sub-batch of documents, prepared: what is wanted of each, what is stored, and so what must be written and deleted.

Nothing is written here. A document that moved is made from the points of its old place, any other by the chunker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from chunkers import Chunked, Chunker, Document
from chunkers.document import embedding_text
from chunkers.models.base import Embedder, Vectors
from chunkers.models.bm25 import document_vector
from chunkers.parameters import WINDOW
from stores import payloads
from stores.attempts import now
from stores.changes import Changes, changes, same_embedding
from stores.errors import StoreError
from stores.journal import DONE, WRITING, JournalRow
from stores.moves import relocate
from stores.points import Points

Payloads = dict[str, dict[str, Any]]


@dataclass
class Outcome:
    """What was done.

    Attributes:
        attempted: documents tried, those that failed included.
        chunks: chunks that the stored ones among them have now.
        upserted: points written: new chunks and parents, and kept ones whose payload changed.
        deleted: chunk and parent points deleted.
        moved: documents that came from another uri.
        window_contexts: chunks among them with a context from a window, since their document is too long to be shown whole.
        shortened_contexts: chunks among them whose context is not whole, or not there, since the embedding model has no room for it.
        failed: (uri, error) of each document that failed.
    """

    attempted: int = 0
    chunks: int = 0
    upserted: int = 0
    deleted: int = 0
    moved: int = 0
    window_contexts: int = 0
    shortened_contexts: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)

    def add(self, other: Outcome) -> None:
        """Counts what `other` counted, too."""
        for name in ("attempted", "chunks", "upserted", "deleted", "moved", "window_contexts", "shortened_contexts"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.failed += other.failed


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted of one document: payloads by id, and what each chunk's vector is made of.

    Attributes:
        chunks, parents: payloads.
        texts: what the vectors of each chunk are made from.
        language: that the words of those texts are stemmed by.
        dense: dense vectors of chunks that have one already.
    """

    chunks: Payloads
    parents: Payloads
    texts: Mapping[str, str]
    language: str
    dense: dict[str, list[float]]


@dataclass(frozen=True, slots=True)
class Work:
    """One document on its way.

    Attributes:
        doc_id, content_hash: which, and SHA-256 of the bytes that its points are made from. They may be others than were planned with,
            since a file can change in between.
        row: the journal's row of it; None where nothing is stored.
        old: the row of the place that it moved from.
        wanted: its points as they shall be.
        changes: what must be done for that.
    """

    doc_id: str
    content_hash: str
    row: JournalRow | None
    old: JournalRow | None
    wanted: Wanted
    changes: Changes

    def writing(self) -> dict[str, Any]:
        """What the journal says while points are written: old and new ids together."""
        chunk_ids, parent_ids = (self.row.chunk_ids, self.row.parent_ids) if self.row else ((), ())
        return {
            "status": WRITING,
            "content_hash": self.content_hash,
            "chunk_ids": tuple(dict.fromkeys([*chunk_ids, *self.wanted.chunks])),
            "parent_ids": tuple(dict.fromkeys([*parent_ids, *self.wanted.parents])),
        }

    def done(self) -> dict[str, Any]:
        """What the journal says in the end."""
        return {
            "status": DONE,
            "content_hash": self.content_hash,
            "chunk_ids": tuple(self.wanted.chunks),
            "parent_ids": tuple(self.wanted.parents),
            "attempts": 0,
            "error": None,
        }


def prepare(
    documents: Sequence[Document],
    rows: Mapping[str, JournalRow],
    olds: Mapping[str, JournalRow],
    *,
    chunker: Chunker,
    points: Points,
) -> list[Work]:
    """The work on `documents`, in their order.

    Args:
        documents: to be stored.
        rows: their journal rows, by document id, as far as they have one.
        olds: rows of the places that they moved from, by their document id now.
        chunker: of the strategy.
        points: of the collection.

    Raises:
        StoreError: the store cannot be read, or the chunker gave something else than was asked for.
    """
    stamp = now()
    wanted: dict[str, Wanted] = {}
    for document in documents:
        old = olds.get(document.id)
        moved = relocate(document, old, points.records(old.ids), stamp) if old else None
        if moved:
            texts = {
                id_: embedding_text(payload.get("context"), payload["text"]) for id_, payload in moved.chunks.items()
            }
            wanted[document.id] = Wanted(moved.chunks, moved.parents, texts, document.language, moved.vectors)
    rest = [document for document in documents if document.id not in wanted]
    chunked = chunker.chunk(rest) if rest else []
    if [one.document.id for one in chunked] != [document.id for document in rest]:
        raise StoreError(f"the chunker gave {len(chunked)} results, not one for each of {len(rest)} documents")
    wanted |= {one.document.id: _wanted(one, chunker.strategy, stamp) for one in chunked}

    known = {doc_id: frozenset(row.ids) for doc_id, row in rows.items()}
    stored = points.payloads(
        [
            id_
            for doc_id, own in wanted.items()
            for id_ in (*own.chunks, *own.parents)
            if id_ in known.get(doc_id, frozenset())
        ]
    )
    works = []
    for document in documents:
        own = wanted[document.id]
        todo = changes(rows[document.id].ids if document.id in rows else (), own.chunks, own.parents, stored)
        row, old = rows.get(document.id), olds.get(document.id)
        works.append(Work(document.id, document.content_hash, row, old, own, todo))
    _keep_dense(works, stored, points)
    return works


def _keep_dense(works: Sequence[Work], stored: Payloads, points: Points) -> None:
    """Takes along the dense vectors of chunks that are written anew for their words' sake only."""
    of_chunk = {
        id_: work.wanted
        for work in works
        for id_ in work.changes.embed
        if same_embedding(stored.get(id_), work.wanted.chunks[id_])
    }
    for id_, record in points.records([*of_chunk]).items():
        dense = payloads.dense_vector(record.vector)
        if dense:
            of_chunk[id_].dense[id_] = dense


def _wanted(chunked: Chunked, strategy: str, stamp: str) -> Wanted:
    document = chunked.document
    return Wanted(
        chunks={one.id: payloads.chunk_payload(document, one, strategy, stamp) for one in chunked.chunks},
        parents={one.id: payloads.parent_payload(document, one, strategy, stamp) for one in chunked.parents},
        texts={one.id: one.embedding_text for one in chunked.chunks},
        language=document.language,
        dense={},
    )


def vectors_of(works: Sequence[Work], embedder: Embedder) -> dict[str, dict[str, Any]]:
    """Vectors by name of the chunks that are to be written, by id.

    Raises:
        StoreError, ModelError: as `dense_vectors`.
    """
    dense = dense_vectors(works, embedder)
    todo = {id_: work.wanted for work in works for id_ in work.changes.embed}
    return {
        id_: payloads.vectors(dense[id_], document_vector(wanted.texts[id_], wanted.language))
        for id_, wanted in todo.items()
    }


def dense_vectors(works: Sequence[Work], embedder: Embedder) -> dict[str, list[float]]:
    """Dense vectors of the chunks that are to be written, by id: those that they have already, and for the rest the model's.

    Raises:
        StoreError: the model gave something else than was asked for.
        ModelError: it gave nothing.
    """
    todo = {id_: work.wanted for work in works for id_ in work.changes.embed}
    dense = {id_: wanted.dense[id_] for id_, wanted in todo.items() if id_ in wanted.dense}
    texts = {id_: wanted.texts[id_] for id_, wanted in todo.items() if id_ not in dense}
    vectors = _embedded([*texts.values()], embedder)
    dense.update((id_, vector.tolist()) for id_, vector in zip(texts, vectors, strict=True))
    return dense


def _embedded(texts: list[str], embedder: Embedder) -> Vectors:
    if not texts:
        return np.zeros((0, embedder.dimensions), dtype=np.float32)
    vectors = embedder.embed(texts)
    if vectors.shape != (len(texts), embedder.dimensions):
        raise StoreError(f"{embedder.name} gave vectors of shape {vectors.shape} for {len(texts)} texts")
    return vectors


def counts(works: Sequence[Work]) -> Outcome:
    """What is counted once `works` are done."""
    told = [payload["metadata"] for work in works for payload in work.wanted.chunks.values()]
    return Outcome(
        attempted=len(works),
        chunks=sum(len(work.wanted.chunks) for work in works),
        upserted=sum(len(work.changes.embed) + len(work.changes.restamp) + len(work.changes.parents) for work in works),
        deleted=sum(len(work.changes.delete) + len(work.old.ids if work.old else ()) for work in works),
        moved=sum(work.old is not None for work in works),
        window_contexts=sum(metadata.get("context_scope") == WINDOW for metadata in told),
        # Front matter's own word of it never gets here.
        shortened_contexts=sum("context_shortened" in metadata for metadata in told),
    )
