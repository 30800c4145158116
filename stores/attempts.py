"""The documents that a run has in hand: their journal rows before, during and after an attempt.

An attempt is journalled before any work on a document, reading its file included, so that one which kills the process is known for it.
What was begun and never tried, because the run was stopped, is given back: its row becomes what it was.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from stores.errors import StoreError
from stores.journal import DONE, FAILED, LEAVING, MOVING, STARTED, WRITING, DocumentState, JournalRow
from stores.journal_io import read_rows
from stores.points import Points

log = logging.getLogger(__name__)


class Pending(NamedTuple):
    """A document that is to be written: its id and uri, and the content hash that it was listed with."""

    doc_id: str
    uri: str
    content_hash: str


@dataclass(slots=True)
class _InHand:
    """A document's row before the attempt (None without one) and now, and that of the place it moved from."""

    before: JournalRow | None
    now: JournalRow
    old: JournalRow | None = None


class Attempts:
    """The journal of one collection, and the documents of it that are in hand.

    Args:
        points: of the collection.
        run_id: of this run.
        journal: states by document id; kept up to date here.

    Every method raises StoreError when the store fails, unless it says otherwise.
    """

    def __init__(self, points: Points, run_id: str, journal: dict[str, DocumentState]) -> None:
        self._points = points
        self._run_id = run_id
        self.journal = journal
        self._hand: dict[str, _InHand] = {}

    def begin(self, documents: Iterable[Pending], moves: Mapping[str, DocumentState]) -> None:
        """Takes documents in hand and journals an attempt at each; those in hand already are left as they are.

        Args:
            documents: to be tried.
            moves: where a document was stored before it moved, by its new document id.
        """
        new = [document for document in documents if document.doc_id not in self._hand]
        old_ids = {document.doc_id: moves[document.doc_id].doc_id for document in new if document.doc_id in moves}
        known = [document.doc_id for document in new if document.doc_id in self.journal]
        rows = read_rows(self._points.client, self._points.collection, [*known, *old_ids.values()])
        taken = []
        for document in new:
            before = rows.get(document.doc_id)
            row = before or JournalRow(document.doc_id, document.uri, document.content_hash, STARTED)
            attempts = row.attempts if row.content_hash == document.content_hash else 0
            # What another process of this very run had in hand when it died is the same attempt: a document that kills three workers
            # in one run must not get its neighbours parked.
            same = attempts > 0 and row.run_id == self._run_id and row.status in (STARTED, WRITING)
            now = self._stamped(
                row, status=STARTED, content_hash=document.content_hash, attempts=attempts + (0 if same else 1)
            )
            taken.append((document.doc_id, _InHand(before, now, rows.get(old_ids.get(document.doc_id, "")))))
        moving = [
            self._stamped(one.old, status=MOVING if one.old.status in (DONE, MOVING) else LEAVING)
            for _, one in taken
            if one.old
        ]
        # In hand first: what is written before the store fails half way can then be given back.
        self._hand.update(taken)
        self._write([*(one.now for _, one in taken), *moving])

    def holds(self, doc_id: str) -> bool:
        """Whether a document is in hand."""
        return doc_id in self._hand

    def row(self, doc_id: str) -> JournalRow:
        """The row of a document in hand as it is now."""
        return self._hand[doc_id].now

    def old(self, doc_id: str) -> JournalRow | None:
        """The row of the place that a document in hand moved from."""
        return self._hand[doc_id].old

    def was_finished(self, doc_id: str) -> bool:
        """Whether a document in hand is new or was stored before this run; if not, an earlier run failed at it, or died."""
        before = self._hand[doc_id].before
        return before is None or before.status == DONE

    def record(self, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Writes the rows of documents in hand with some fields changed, by document id. Those that are `done` leave the hand."""
        rows = [self._stamped(self._hand[doc_id].now, **change) for doc_id, change in changes.items()]
        self._write(rows)
        for row in rows:
            if row.status == DONE:
                del self._hand[row.doc_id]
            else:
                self._hand[row.doc_id].now = row

    def fail(self, doc_ids: Sequence[str], told: str, *, counted: bool = True) -> None:
        """Journals that documents in hand failed, and lets go of them. Raises nothing: if it is the store that fails, rows say
        `started` or `writing`, which the next run takes up just the same.

        Args:
            doc_ids: of the documents.
            told: why.
            counted: the attempt counts against them.
        """
        lower = 0 if counted else 1
        rows = [self._hand.pop(doc_id).now for doc_id in doc_ids]
        failed = [self._stamped(row, status=FAILED, error=told, attempts=row.attempts - lower) for row in rows]
        try:
            self._write(failed)
        except StoreError as error:
            log.warning("the journal could not be told of a failure: %s", error)

    def forgive(self, doc_ids: Sequence[str]) -> None:
        """Takes back the last attempt that was counted against documents that failed. Raises nothing, as `fail`."""
        try:
            rows = read_rows(self._points.client, self._points.collection, doc_ids).values()
            self._write([row.with_(attempts=max(row.attempts - 1, 0)) for row in rows if row.status == FAILED])
        except StoreError as error:
            log.warning("the journal could not be told that failures do not count: %s", error)

    def give_back(self) -> None:
        """Lets go of the documents in hand that were not tried: their rows are what they were. Raises nothing, as `fail`."""
        untried = {doc_id: one for doc_id, one in self._hand.items() if one.now.status == STARTED}
        self._hand.clear()
        rows = [row for one in untried.values() for row in (one.before, one.old) if row]
        try:
            self._write(rows)
            self.forget([doc_id for doc_id, one in untried.items() if one.before is None])
        except StoreError as error:
            log.warning("the journal could not be told that documents were not tried: %s", error)

    def forget(self, doc_ids: Sequence[str]) -> None:
        """Deletes rows."""
        self._points.delete(doc_ids)
        for doc_id in doc_ids:
            self.journal.pop(doc_id, None)

    def mark(self, rows: Sequence[JournalRow], status: str) -> None:
        """Writes rows of documents that are not in hand with another status."""
        self._write([self._stamped(row, status=status) for row in rows])

    def _stamped(self, row: JournalRow, **changes: Any) -> JournalRow:
        return row.with_(run_id=self._run_id, updated_at=now(), **changes)

    def _write(self, rows: Sequence[JournalRow]) -> None:
        self._points.upsert(row.as_point() for row in rows)
        self.journal.update({row.doc_id: row.state for row in rows})


def now() -> str:
    """The time, ISO 8601 in UTC to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
