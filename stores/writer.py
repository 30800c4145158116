"""Brings one collection up to date with a batch of documents, in an order that loses nothing wherever it is cut off.

For a sub-batch of documents: raise the attempts in the journal; chunk (and write contexts); journal as `writing` with old and new ids
together; embed what is new; upsert parents, then new chunks, then the payloads of kept chunks that differ; delete the ids that are no
longer wanted; journal as `done`. Old text stays searchable until the new text is in, every point that exists is named by a row, and
`done` is written last. A chunk is kept when its id and the hash of what is embedded are the same: its vector is not made again.

A document that fails takes nobody with it: a sub-batch that cannot be chunked or embedded is done again one document at a time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np
from qdrant_client import QdrantClient

from chunkers import Chunked, Chunker, Document
from chunkers.models.base import Embedder, Vectors
from stores import payloads
from stores.changes import changes
from stores.errors import StoreError
from stores.inventory import Target
from stores.journal import DONE, FAILED, STARTED, WRITING, JournalRow
from stores.points import Points

# Documents and characters of a sub-batch: what is chunked and embedded together, and done again one by one if it fails.
DOCUMENTS = 32
CHARACTERS = 1_000_000

log = logging.getLogger(__name__)

Progress = Callable[[int], None]


@dataclass
class Outcome:
    """What was done.

    Attributes:
        attempted: documents tried, those that failed included.
        chunks: chunks that the stored ones among them have now.
        upserted: points written: new chunks and parents, and kept ones whose payload changed.
        deleted: chunk and parent points deleted.
        failed: (uri, error) of each document that failed.
    """

    attempted: int = 0
    chunks: int = 0
    upserted: int = 0
    deleted: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Work:
    """One document on its way: its row before this attempt, the ids that may be stored, and what is wanted by id."""

    row: JournalRow
    known: frozenset[str]
    chunks: dict[str, dict[str, Any]]
    parents: dict[str, dict[str, Any]]
    texts: dict[str, str]


class Writer:
    """Writes documents of one strategy to its collection.

    Args:
        client, target: where to.
        chunker, embedder: what makes chunks and vectors.
        run_id: of this run, for the journal.
        journal: the collection's rows by document id; kept up to date by the writer.
    """

    def __init__(
        self,
        client: QdrantClient,
        target: Target,
        chunker: Chunker,
        embedder: Embedder,
        run_id: str,
        journal: dict[str, JournalRow] | None = None,
    ) -> None:
        self._points = Points(client, target.collection)
        self.strategy = target.recipe.strategy
        self._chunker = chunker
        self._embedder = embedder
        self._run_id = run_id
        self.journal: dict[str, JournalRow] = {} if journal is None else journal

    def write(
        self,
        documents: Sequence[Document],
        *,
        stop: threading.Event | None = None,
        progress: Progress | None = None,
        outcome: Outcome | None = None,
    ) -> Outcome:
        """Brings the collection up to date with `documents`; ends early, after the sub-batch in hand, when `stop` is set.

        A sub-batch that is done again one document at a time ends after the document in hand.

        Args:
            documents: to be stored.
            stop: ends the work early.
            progress: told the number of documents done after each sub-batch.
            outcome: counts what is done, so that it is known also when an error ends the work; a new one by default.

        Raises:
            StoreError, ModelError: nothing in this store or of this model would work; documents not tried are left as they are.
        """
        outcome = Outcome() if outcome is None else outcome
        for batch in self._sub_batches(documents):
            if stop is not None and stop.is_set():
                break
            self._write_together(batch, outcome, stop)
            if progress:
                progress(len(batch))
        return outcome

    def delete(self, rows: Sequence[JournalRow]) -> Outcome:
        """Removes documents: their points, then their rows.

        Raises:
            StoreError: the store failed, or points that were deleted are still there.
        """
        # No row says `done` of points that are going: if this is cut off and a document comes back as it was, it is written anew.
        self._journal_rows([self._stamped(row, status=WRITING) for row in rows])
        points = [id_ for row in rows for id_ in (*row.chunk_ids, *row.parent_ids)]
        self._points.delete(points)
        self._points.delete([row.doc_id for row in rows])
        for row in rows:
            self.journal.pop(row.doc_id, None)
        return Outcome(deleted=len(points))

    def _sub_batches(self, documents: Sequence[Document]) -> Iterator[list[Document]]:
        """Documents together up to a bound; those that an earlier run did not finish alone, since one of them may have killed it."""
        batch: list[Document] = []
        for document in documents:
            row = self.journal.get(document.id)
            alone = row is not None and row.status != DONE
            total = sum(len(other.text) for other in batch) + len(document.text)
            if batch and (alone or len(batch) == DOCUMENTS or total > CHARACTERS):
                yield batch
                batch = []
            batch.append(document)
            if alone:
                yield batch
                batch = []
        if batch:
            yield batch

    def _write_together(self, documents: list[Document], outcome: Outcome, stop: threading.Event | None) -> None:
        """A sub-batch; if anything in it fails, each of its documents alone."""
        rows = [self._start(document) for document in documents]
        self._journal_rows(rows)
        try:
            written = self._attempt(documents)
        except Exception as error:
            told = " ".join(str(error).split()) or type(error).__name__
            if getattr(error, "fatal", False):
                # No document's own fault: the attempt does not count against any of them.
                self._record_failure(documents, told, attempts=-1)
                raise
            if len(documents) == 1:
                self._record_failure(documents, told)
                outcome.attempted += 1
                outcome.failed.append((documents[0].uri, told))
                return
            for document in documents:
                if stop is not None and stop.is_set():
                    return
                self._write_together([document], outcome, stop)
            return
        outcome.attempted += len(documents)
        outcome.chunks += written.chunks
        outcome.upserted += written.upserted
        outcome.deleted += written.deleted

    def _start(self, document: Document) -> JournalRow:
        row = self.journal.get(document.id) or JournalRow(document.id, document.uri, document.content_hash, STARTED)
        # A second try at the same documents, one by one, is the same attempt.
        again = row.run_id == self._run_id and row.status in (STARTED, WRITING)
        return self._stamped(
            row, status=STARTED, content_hash=document.content_hash, attempts=row.attempts + (0 if again else 1)
        )

    def _record_failure(self, documents: Sequence[Document], told: str, *, attempts: int = 0) -> None:
        rows = [self.journal[document.id] for document in documents]
        failed = [self._stamped(row, status=FAILED, error=told, attempts=row.attempts + attempts) for row in rows]
        try:
            self._journal_rows(failed)
        except StoreError as error:
            # It is the store that fails. The rows say `started` or `writing`, which the next run takes up just the same.
            log.warning("the journal could not be told of a failure: %s", error)

    def _attempt(self, documents: list[Document]) -> Outcome:
        """The work on a sub-batch whose attempts are journalled."""
        stamp = _now()
        chunked = self._chunker.chunk(documents)
        if [one.document.id for one in chunked] != [document.id for document in documents]:
            raise StoreError(f"the chunker gave {len(chunked)} results, not one for each of {len(documents)} documents")
        works = [self._work(one, stamp) for one in chunked]
        stored = self._points.payloads(
            [id_ for work in works for id_ in (*work.chunks, *work.parents) if id_ in work.known]
        )
        self._journal_rows([self._writing(work) for work in works])

        todo = [(work, changes(work.known, work.chunks, work.parents, stored)) for work in works]
        embed = [(id_, work) for work, own in todo for id_ in own.embed]
        vectors = self._vectors([work.texts[id_] for id_, work in embed])
        self._points.upsert(payloads.point(id_, work.parents[id_]) for work, own in todo for id_ in own.parents)
        self._points.upsert(
            payloads.point(id_, work.chunks[id_], vector.tolist())
            for (id_, work), vector in zip(embed, vectors, strict=True)
        )
        self._points.overwrite_payloads({id_: work.chunks[id_] for work, own in todo for id_ in own.restamp})
        stale = [id_ for _, own in todo for id_ in own.delete]
        self._points.delete(stale)
        self._journal_rows([self._done(work) for work in works])
        return Outcome(
            chunks=sum(len(work.chunks) for work in works),
            upserted=sum(len(own.embed) + len(own.restamp) + len(own.parents) for _, own in todo),
            deleted=len(stale),
        )

    def _work(self, chunked: Chunked, stamp: str) -> _Work:
        document = chunked.document
        row = self.journal[document.id]
        return _Work(
            row=row,
            known=frozenset((*row.chunk_ids, *row.parent_ids)),
            chunks={one.id: payloads.chunk_payload(document, one, self.strategy, stamp) for one in chunked.chunks},
            parents={one.id: payloads.parent_payload(document, one, self.strategy, stamp) for one in chunked.parents},
            texts={one.id: one.embedding_text for one in chunked.chunks},
        )

    def _writing(self, work: _Work) -> JournalRow:
        chunk_ids = tuple(dict.fromkeys([*work.row.chunk_ids, *work.chunks]))
        parent_ids = tuple(dict.fromkeys([*work.row.parent_ids, *work.parents]))
        return self._stamped(work.row, status=WRITING, chunk_ids=chunk_ids, parent_ids=parent_ids)

    def _done(self, work: _Work) -> JournalRow:
        return self._stamped(
            work.row, status=DONE, chunk_ids=tuple(work.chunks), parent_ids=tuple(work.parents), attempts=0, error=None
        )

    def _stamped(self, row: JournalRow, **changes: Any) -> JournalRow:
        return row.with_(run_id=self._run_id, updated_at=_now(), **changes)

    def _vectors(self, texts: list[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self._embedder.dimensions), dtype=np.float32)
        vectors = self._embedder.embed(texts)
        if vectors.shape != (len(texts), self._embedder.dimensions):
            raise StoreError(f"{self._embedder.name} gave vectors of shape {vectors.shape} for {len(texts)} texts")
        return vectors

    def _journal_rows(self, rows: Sequence[JournalRow]) -> None:
        self._points.upsert(row.as_point() for row in rows)
        self.journal.update({row.doc_id: row for row in rows})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
