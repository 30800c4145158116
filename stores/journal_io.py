"""Reading the journal's rows, and counting points."""

from __future__ import annotations

from qdrant_client import QdrantClient, models

from stores.errors import StoreError
from stores.journal import JournalRow
from stores.transport import send

# Embedded, every page sorts all ids again, so pages are large; a server takes this many small payloads in one answer.
_PAGE = 10_000


def kind_filter(kind: str) -> models.Filter:
    """Points of one kind."""
    return models.Filter(must=[models.FieldCondition(key="kind", match=models.MatchValue(value=kind))])


def read_journal(client: QdrantClient, collection: str) -> dict[str, JournalRow]:
    """All rows of a collection's journal, by document id.

    Raises:
        StoreError: it cannot be read.
    """
    rows: dict[str, JournalRow] = {}
    offset = None
    while True:
        points, offset = send(
            f"read the journal of {collection}",
            lambda offset=offset: client.scroll(  # type: ignore[misc]
                collection,
                scroll_filter=kind_filter("document"),
                limit=_PAGE,
                offset=offset,
                with_payload=True,
                with_vectors=False,
            ),
        )
        for point in points:
            try:
                row = JournalRow.from_payload(point.payload or {})
            except (KeyError, TypeError) as error:
                raise StoreError(f"{collection}: journal row {point.id} cannot be read ({error})") from error
            rows[row.doc_id] = row
        if offset is None:
            return rows


def count_kind(client: QdrantClient, collection: str, kind: str) -> int:
    """How many points of one kind a collection holds, exactly."""
    answer = send(
        f"count {kind} points of {collection}",
        lambda: client.count(collection, count_filter=kind_filter(kind), exact=True),
    )
    return answer.count
