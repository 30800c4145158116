"""The journal: one `document` point per document, which says what is stored of it and how far the work on it went.

A row is written before the work, with old and new ids together while points are being written, and last of all as `done`. So whatever
a crash leaves behind, the ids of every point that may exist are in some row. A row may be long, since it names every chunk; what a
run needs of all documents at once is a `DocumentState`, which has their numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from qdrant_client import models

from stores.payloads import clean

# `moving`: the document is at another uri now; its points go as soon as they are stored under the new one. `leaving`: the same, of
# points that are not, or not all, made from the content that moved, since the last try at this uri did not end well.
DONE, STARTED, WRITING, FAILED, MOVING, LEAVING = "done", "started", "writing", "failed", "moving", "leaving"

# A document that failed, or killed its run, so many times is parked: not tried again until its content changes.
MOST_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class DocumentState:
    """What a run needs to know of a stored document before it works on it.

    Attributes:
        doc_id, uri, content_hash, status, attempts, error: as in its `JournalRow`.
        chunks, parents: numbers of points that are stored, or may be.
    """

    doc_id: str
    uri: str
    content_hash: str
    status: str
    chunks: int = 0
    parents: int = 0
    attempts: int = 0
    error: str | None = None

    @property
    def parked(self) -> bool:
        """It was tried in vain as often as it may be."""
        return self.status not in (DONE, MOVING, LEAVING) and self.attempts >= MOST_ATTEMPTS

    @property
    def finished(self) -> bool:
        """Nothing is left to be done on it here: it is stored, or parked, or only waits to be stored at another uri."""
        return self.status in (DONE, MOVING, LEAVING) or self.parked

    @property
    def kills(self) -> int:
        """Runs in a row that were killed while they had it in hand, as far as is known."""
        return self.attempts if self.status in (STARTED, WRITING) else 0

    @property
    def reason(self) -> str:
        """Why it is not done, for a person."""
        return self.error or "its run was killed while it was being worked on"

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> DocumentState:
        """The state in a row's payload.

        Raises:
            KeyError, TypeError: a field is missing, or of another type.
        """
        # Rows of the first version of the journal have no numbers, only the ids themselves.
        numbered: dict[str, Any] = {
            "chunks": len(payload.get("chunk_ids") or ()),
            "parents": len(payload.get("parent_ids") or ()),
            **payload,
        }
        state = cls(**{name: numbered[name] for name in cls.__dataclass_fields__})
        numbers = (state.chunks, state.parents, state.attempts)
        texts = (state.doc_id, state.uri, state.content_hash, state.status)
        if not all(isinstance(one, int) for one in numbers) or not all(isinstance(one, str) for one in texts):
            raise TypeError("a field is of another type")
        return state


@dataclass(frozen=True, slots=True)
class JournalRow:
    """What the journal says of one document.

    Attributes:
        doc_id, uri: which document.
        content_hash: SHA-256 of the bytes that the stored points were made from (of those being written, while not `done`).
        status: `done`, `started` (nothing of this attempt is stored yet), `writing`, `failed`, `moving` or
            `leaving`.
        chunk_ids, parent_ids: ids of all points that are stored, or may be.
        attempts: tries since the last success or change of content.
        error: why the last try failed, or None.
        run_id: the run that wrote the row.
        updated_at: ISO 8601 time of that.
    """

    doc_id: str
    uri: str
    content_hash: str
    status: str
    chunk_ids: tuple[str, ...] = ()
    parent_ids: tuple[str, ...] = ()
    attempts: int = 0
    error: str | None = None
    run_id: str = ""
    updated_at: str = ""

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of all points that are stored, or may be."""
        return (*self.chunk_ids, *self.parent_ids)

    @property
    def state(self) -> DocumentState:
        """The row without its ids."""
        return DocumentState(
            doc_id=self.doc_id,
            uri=self.uri,
            content_hash=self.content_hash,
            status=self.status,
            chunks=len(self.chunk_ids),
            parents=len(self.parent_ids),
            attempts=self.attempts,
            error=self.error,
        )

    def with_(self, **changes: Any) -> JournalRow:
        """The row with some fields changed."""
        return replace(self, **changes)

    def as_point(self) -> models.PointStruct:
        """The row as a point without a vector."""
        payload = {
            "kind": "document",
            "doc_id": self.doc_id,
            "uri": clean(self.uri),
            "content_hash": self.content_hash,
            "status": self.status,
            "chunks": len(self.chunk_ids),
            "parents": len(self.parent_ids),
            "chunk_ids": list(self.chunk_ids),
            "parent_ids": list(self.parent_ids),
            "attempts": self.attempts,
            "error": clean(self.error),
            "run_id": self.run_id,
            "updated_at": self.updated_at,
        }
        return models.PointStruct(id=self.doc_id, vector={}, payload=payload)

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> JournalRow:
        """The row that `as_point` wrote.

        Raises:
            KeyError, TypeError: a field is missing, or of another type.
        """
        state = DocumentState.from_payload(payload)
        fields = {name: payload[name] for name in cls.__dataclass_fields__}
        row = cls(**{**fields, "chunk_ids": tuple(fields["chunk_ids"]), "parent_ids": tuple(fields["parent_ids"])})
        if row.state != state:
            raise TypeError("it counts other points than it names")
        return row
