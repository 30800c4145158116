"""The journal: one `document` point per document, which says what is stored of it and how far the work on it went.

A row is written before the work, with old and new ids together while points are being written, and last of all as `done`. So whatever
a crash leaves behind, the ids of every point that may exist are in some row.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from qdrant_client import models

from stores.payloads import clean

DONE, STARTED, WRITING, FAILED = "done", "started", "writing", "failed"


@dataclass(frozen=True, slots=True)
class JournalRow:
    """What the journal says of one document.

    Attributes:
        doc_id, uri: which document.
        content_hash: SHA-256 of the bytes that the stored points were made from (of those being written, while not `done`).
        status: `done`, `started` (nothing of this attempt is stored yet), `writing`, or `failed`.
        chunk_ids, parent_ids: ids of all points that are stored, or may be.
        attempts: tries since the last success.
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
            KeyError: a field is missing.
        """
        fields = {name: payload[name] for name in cls.__dataclass_fields__}
        return cls(**{**fields, "chunk_ids": tuple(fields["chunk_ids"]), "parent_ids": tuple(fields["parent_ids"])})
