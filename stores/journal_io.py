"""Reading the journal, whole or by document, and counting points."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from qdrant_client import QdrantClient, models

from stores.errors import StoreError
from stores.journal import DocumentState, JournalRow
from stores.transport import send

T = TypeVar("T")

# Embedded, every page sorts all ids again, so pages are large; a server takes this many small payloads in one answer.
_PAGE = 10_000
# Rows with their ids, which may be long.
_ROWS = 1_000


def kind_filter(kind: str) -> models.Filter:
    """Points of one kind."""
    return models.Filter(must=[models.FieldCondition(key="kind", match=models.MatchValue(value=kind))])


def scroll(
    client: QdrantClient, collection: str, what: str, condition: models.Filter | None, payload: Any, page: int = _PAGE
) -> Iterator[models.Record]:
    """The points that `condition` names, a page at a time, without vectors.

    Raises:
        StoreError: they cannot be read.
    """
    offset = None
    while True:
        points, offset = send(
            f"read {what} of {collection}",
            lambda offset=offset: client.scroll(  # type: ignore[misc]
                collection,
                scroll_filter=condition,
                limit=page,
                offset=offset,
                with_payload=payload,
                with_vectors=False,
            ),
        )
        yield from points
        if offset is None:
            return


def read_states(client: QdrantClient, collection: str) -> dict[str, DocumentState]:
    """The state of every document in a collection's journal, by document id.

    Raises:
        StoreError: the journal cannot be read.
    """
    fields = models.PayloadSelectorInclude(include=[*DocumentState.__dataclass_fields__])
    states: dict[str, DocumentState] = {}
    for point in scroll(client, collection, "the journal", kind_filter("document"), fields):
        payload = point.payload or {}
        # The six journals of a corpus name the same documents: equal texts are held once.
        for name in ("doc_id", "uri", "content_hash", "status"):
            if type(payload.get(name)) is str:
                payload[name] = sys.intern(payload[name])
        state = _parsed(collection, point, DocumentState.from_payload)
        states[state.doc_id] = state
    return states


def read_journal(client: QdrantClient, collection: str) -> dict[str, JournalRow]:
    """All rows of a collection's journal with all their ids, by document id.

    Raises:
        StoreError: it cannot be read.
    """
    points = scroll(client, collection, "the journal", kind_filter("document"), True, _ROWS)
    rows = (_parsed(collection, point, JournalRow.from_payload) for point in points)
    return {row.doc_id: row for row in rows}


def read_rows(client: QdrantClient, collection: str, doc_ids: Sequence[str]) -> dict[str, JournalRow]:
    """The journal's rows of some documents, by document id; those without a row are left out.

    Raises:
        StoreError: they cannot be read.
    """
    rows = {}
    for begin in range(0, len(doc_ids), _ROWS):
        part = list(doc_ids[begin : begin + _ROWS])
        records = send(
            f"read the journal of {collection}",
            lambda part=part: client.retrieve(collection, ids=part, with_payload=True),  # type: ignore[misc]
        )
        for record in records:
            row = _parsed(collection, record, JournalRow.from_payload)
            rows[row.doc_id] = row
    return rows


def with_chunks(client: QdrantClient, collection: str, doc_ids: Sequence[str]) -> list[str]:
    """Those of some documents of which a chunk is stored. A row that is not `done` may name points that are not there.

    Raises:
        StoreError: the store cannot be read.
    """
    found = []
    for row in read_rows(client, collection, doc_ids).values():
        named = models.Filter(must=[models.HasIdCondition(has_id=[*row.chunk_ids])])
        answer = send(
            f"count points of {collection}",
            lambda named=named: client.count(collection, count_filter=named, exact=True),  # type: ignore[misc]
        )
        if row.chunk_ids and answer.count:
            found.append(row.doc_id)
    return found


def _parsed(collection: str, point: models.Record, parse: Callable[[dict[str, Any]], T]) -> T:
    try:
        return parse(point.payload or {})
    except (KeyError, TypeError) as error:
        told = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise StoreError(
            f"{collection}: journal row {point.id} cannot be read ({told}); `quarry verify --repair` puts it right"
        ) from error


def count_kind(client: QdrantClient, collection: str, kind: str) -> int:
    """How many points of one kind a collection holds, exactly."""
    answer = send(
        f"count {kind} points of {collection}",
        lambda: client.count(collection, count_filter=kind_filter(kind), exact=True),
    )
    return answer.count
