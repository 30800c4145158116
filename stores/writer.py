"""Brings one collection up to date with a batch of documents, in an order that loses nothing wherever it is cut off.

For a sub-batch of documents: raise the attempts in the journal; chunk (and write contexts); journal as `writing` with old and new ids
together; embed what is new; upsert parents, then new chunks, then the payloads of kept chunks that differ; delete the ids that are no
longer wanted; journal as `done`. Old text stays searchable until the new text is in, every point that exists is named by a row, and
`done` is written last. A chunk is kept when its id and the hash of what is embedded are the same: its vector is not made again.
A document that moved takes its chunks and vectors along, and leaves its old place when it is stored at the new one.

A document that fails takes nobody with it: a sub-batch that cannot be chunked or embedded is done again one document at a time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from qdrant_client import QdrantClient

from chunkers import Chunker, Document
from chunkers.models.base import Embedder
from chunkers.redaction import in_words
from stores import payloads
from stores.attempts import Attempts, Pending
from stores.errors import StoreError
from stores.inventory import Target
from stores.journal import DONE, WRITING, DocumentState, JournalRow
from stores.journal_io import read_rows
from stores.languages import Languages
from stores.points import Points
from stores.work import Outcome, Work, counts, dense_vectors, prepare, vectors_of

# Documents and characters of a sub-batch: what is chunked and embedded together, and done again one by one if it fails.
DOCUMENTS = 32
CHARACTERS = 1_000_000
# Documents deleted together: their rows, with all ids, are in memory.
DELETED = 500

Progress = Callable[[int], None]

log = logging.getLogger(__name__)


class Writer:
    """Writes documents of one strategy to its collection.

    Args:
        client, target: where to.
        chunker, embedder: what makes chunks and vectors.
        run_id: of this run, for the journal.
        journal: states of the collection's documents by id; kept up to date by the writer.
        moves: where documents were stored before they moved, by their new document id.
    """

    def __init__(
        self,
        client: QdrantClient,
        target: Target,
        chunker: Chunker,
        embedder: Embedder,
        run_id: str,
        journal: dict[str, DocumentState] | None = None,
        moves: Mapping[str, DocumentState] | None = None,
    ) -> None:
        self._points = Points(client, target.collection)
        self._exists = target.exists
        self.strategy = target.recipe.strategy
        self._chunker = chunker
        self._embedder = embedder
        self.journal: dict[str, DocumentState] = {} if journal is None else journal
        self.moves: Mapping[str, DocumentState] = {} if moves is None else moves
        self._attempts = Attempts(self._points, run_id, self.journal)
        self._languages = Languages(client, target.collection)

    def begin(self, documents: Iterable[Pending]) -> None:
        """Journals an attempt at each of `documents`, before they are read.

        Raises:
            StoreError: the store failed.
        """
        self._attempts.begin(documents, self.moves)

    def fail(self, doc_id: str, told: str) -> None:
        """Journals that a document that was begun could not be read."""
        self._attempts.fail([doc_id], told)

    def forgive(self, doc_ids: Sequence[str]) -> None:
        """Takes back the attempt that was counted against documents that failed."""
        self._attempts.forgive(doc_ids)

    def give_back(self) -> None:
        """Makes the rows of documents that were begun and not tried what they were."""
        self._attempts.give_back()

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
            self.begin(Pending(document.id, document.uri, document.content_hash) for document in batch)
            self._write_together(batch, outcome, stop)
            if progress:
                progress(len(batch))
        return outcome

    def rehearse(self, documents: Sequence[Document], *, stop: threading.Event, progress: Progress) -> Outcome:
        """What `write` would do, as far as it can be known: everything is chunked, and the models are asked for what is new; nothing
        is written. With models that only count, that tells what a run would cost.

        Raises:
            StoreError: the store cannot be read.
        """
        outcome = Outcome()
        for batch in _batches(documents, lambda document: False):
            if stop.is_set():
                break
            self._rehearse_together(batch, outcome)
            progress(len(batch))
        return outcome

    def _rehearse_together(self, documents: list[Document], outcome: Outcome) -> None:
        """Counts for a sub-batch; if anything in it fails, for each of its documents alone."""
        try:
            moves = {document.id: self.moves[document.id].doc_id for document in documents if document.id in self.moves}
            rows = self._rows([*(document.id for document in documents), *moves.values()])
            olds = {doc_id: rows[old] for doc_id, old in moves.items() if old in rows}
            works = prepare(documents, rows, olds, chunker=self._chunker, points=self._points)
            dense_vectors(works, self._embedder)
        except Exception as error:
            if getattr(error, "fatal", False):
                raise
            if len(documents) > 1:
                for document in documents:
                    self._rehearse_together([document], outcome)
                return
            outcome.attempted += 1
            outcome.failed.append((documents[0].uri, in_words(error)))
            return
        outcome.add(counts(works))

    def delete(self, states: Sequence[DocumentState]) -> Outcome:
        """Removes documents: their points, then their rows.

        Raises:
            StoreError: the store failed, or points that were deleted are still there.
        """
        outcome = Outcome()
        for begin in range(0, len(states), DELETED):
            rows = self._rows([state.doc_id for state in states[begin : begin + DELETED]])
            # No row says `done` of points that are going: if this is cut off and a document comes back as it was, it is written anew.
            self._attempts.mark([*rows.values()], WRITING)
            points = [id_ for row in rows.values() for id_ in row.ids]
            self._points.delete(points)
            self._attempts.forget([*rows])
            outcome.deleted += len(points)
        return outcome

    def _rows(self, doc_ids: Sequence[str]) -> dict[str, JournalRow]:
        return read_rows(self._points.client, self._points.collection, doc_ids) if self._exists else {}

    def _sub_batches(self, documents: Sequence[Document]) -> Iterator[list[Document]]:
        """Documents together up to a bound; those that an earlier run did not finish alone, since one of them may have killed it."""

        def alone(document: Document) -> bool:
            if self._attempts.holds(document.id):
                return not self._attempts.was_finished(document.id)
            state = self.journal.get(document.id)
            return state is not None and state.status != DONE

        return _batches(documents, alone)

    def _write_together(self, documents: list[Document], outcome: Outcome, stop: threading.Event | None) -> None:
        """A sub-batch that is begun; if anything in it fails, each of its documents alone."""
        try:
            written = self._attempt(documents)
        except Exception as error:
            told = in_words(error)
            doc_ids = [document.id for document in documents]
            if getattr(error, "fatal", False):
                # No document's own fault: the attempt does not count against any of them.
                self._attempts.fail(doc_ids, told, counted=False)
                raise
            if len(documents) == 1:
                self._attempts.fail(doc_ids, told)
                outcome.attempted += 1
                outcome.failed.append((documents[0].uri, told))
                return
            for document in documents:
                if stop is not None and stop.is_set():
                    return
                self._write_together([document], outcome, stop)
            return
        outcome.add(counts(written))
        self.leave([work.old for work in written if work.old])

    def _attempt(self, documents: Sequence[Document]) -> list[Work]:
        """The work on a sub-batch whose attempts are journalled."""
        rows = {document.id: self._attempts.row(document.id) for document in documents}
        olds = {document.id: old for document in documents if (old := self._attempts.old(document.id))}
        works = prepare(documents, rows, olds, chunker=self._chunker, points=self._points)
        self._attempts.record({work.doc_id: work.writing() for work in works})
        vectors = vectors_of(works, self._embedder)
        self._languages.note(work.wanted.language for work in works if work.changes.embed)
        self._points.upsert(
            payloads.point(id_, work.wanted.parents[id_]) for work in works for id_ in work.changes.parents
        )
        self._points.upsert(
            payloads.point(id_, work.wanted.chunks[id_], vectors[id_]) for work in works for id_ in work.changes.embed
        )
        self._points.overwrite_payloads(
            {id_: work.wanted.chunks[id_] for work in works for id_ in work.changes.restamp}
        )
        self._points.delete([id_ for work in works for id_ in work.changes.delete])
        self._attempts.record({work.doc_id: work.done() for work in works})
        return works

    def leave(self, rows: Sequence[JournalRow]) -> None:
        """Removes documents from the places that they moved from, where a move that is cut off leaves a row that says so."""
        try:
            self._points.delete([id_ for row in rows for id_ in row.ids])
            self._attempts.forget([row.doc_id for row in rows])
        except StoreError as error:
            if error.fatal:
                raise
            log.warning("what moved is stored, and its old place is left to the next run: %s", error)


def _batches(documents: Sequence[Document], alone: Callable[[Document], bool]) -> Iterator[list[Document]]:
    batch: list[Document] = []
    for document in documents:
        apart = alone(document)
        total = sum(len(other.text) for other in batch) + len(document.text)
        if batch and (apart or len(batch) == DOCUMENTS or total > CHARACTERS):
            yield batch
            batch = []
        batch.append(document)
        if apart:
            yield batch
            batch = []
    if batch:
        yield batch
