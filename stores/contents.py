"""All that a collection holds, read for a comparison with its journal: rows, points, and which of them cannot be used."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from qdrant_client import QdrantClient, models

from chunkers import ids
from chunkers.document import embedding_text
from chunkers.ids import text_hash
from chunkers.models.bm25 import document_vector
from stores.client import EmbeddedClient
from stores.inventory import stored_collection
from stores.journal import JournalRow
from stores.journal_io import count_kind, kind_filter, scroll
from stores.lease import KIND as LEASE
from stores.lease import lease_id
from stores.names import alias_name, parse_collection
from stores.payloads import SPARSE

NO_VECTOR = "it has no dense vector"
NO_SPARSE_VECTOR = "it has no sparse vector"

# Points read at once: embedded, every page sorts all ids again; from a server, a page passes through the network.
_PAGE_EMBEDDED, _PAGE = 5_000, 500


class StoredPoint(NamedTuple):
    """A chunk or parent point without its text, its place in the document as code points; `broken` says why it cannot be used."""

    id: str
    kind: str
    doc_id: str
    source: str
    parent_id: str | None
    broken: str | None = None
    span: tuple[int, int] = (0, 0)


@dataclass
class Contents:
    """All that a collection holds, as far as it can be read.

    Attributes:
        rows: the journal by document id.
        points: chunks and parents by id.
        strange: why, by id of each point that is none of ours or whose kind and document cannot be read.
        counts: exact numbers of points by kind, as the store counts them.
    """

    rows: dict[str, JournalRow] = field(default_factory=dict)
    points: dict[str, StoredPoint] = field(default_factory=dict)
    strange: dict[str | int, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def by_document(self) -> dict[str, list[StoredPoint]]:
        """The points of each document, by the document's id."""
        told: dict[str, list[StoredPoint]] = {}
        for point in self.points.values():
            told.setdefault(point.doc_id, []).append(point)
        return told

    def owners(self) -> dict[str | int, str]:
        """The document that an id belongs to, by what the journal names, or because it is that of a journal row."""
        told: dict[str | int, str] = {id_: row.doc_id for row in self.rows.values() for id_ in row.ids}
        return {**told, **{point.doc_id: point.doc_id for point in self.points.values()}}


def read_contents(client: QdrantClient, collection: str) -> Contents:
    """Reads a collection, without vectors. Texts are looked at and not kept.

    Raises:
        StoreError: it cannot be read.
    """
    found = Contents()
    parsed = parse_collection(collection)
    lease = lease_id(alias_name(parsed.corpus, parsed.strategy)) if parsed else None
    repeated: dict[tuple[str, str], list[str]] = {}
    page = _PAGE_EMBEDDED if isinstance(client, EmbeddedClient) else _PAGE
    for record in scroll(client, collection, "the points", None, True, page):
        # A number is no id that we give, and only as a number it can be deleted.
        id_ = record.id if isinstance(record.id, int) else str(record.id)
        payload = record.payload or {}
        if id_ == lease and payload.get("kind") == LEASE:
            continue
        _sort_in(found, id_, payload)
        if id_ in found.points and payload["kind"] == "parent":
            _note_text(found.points[str(id_)], payload["text"], repeated)
    _check_texts(found, repeated)
    stored = stored_collection(client, collection)
    _check_vectors(client, collection, found, page, sparse=bool(stored and stored.recipe.sparse))
    found.counts = {kind: count_kind(client, collection, kind) for kind in ("document", "chunk", "parent")}
    return found


def _check_vectors(client: QdrantClient, collection: str, found: Contents, page: int, *, sparse: bool) -> None:
    """Marks the chunks that lack a vector.

    Args:
        client, collection, page: where to look, and how many points at once.
        found: what was read.
        sparse: each chunk with words should have a sparse vector, too.
    """
    # The unnamed vector has the empty name.
    dense = models.HasVectorCondition(has_vector="")
    words = models.HasVectorCondition(has_vector=SPARSE)
    chunks = kind_filter("chunk").must
    whole = models.Filter(must=[dense, words]) if sparse else dense
    # One look at every point finds, mostly, that none lacks any.
    bare = models.Filter(must=chunks, must_not=[whole])
    lacking = {
        str(record.id): record.payload or {}
        for record in scroll(client, collection, "the points without a vector", bare, True, page)
    }
    if not lacking:
        return
    wordless = models.Filter(must=chunks, must_not=[dense])
    no_dense = {str(one.id) for one in scroll(client, collection, "the points without a vector", wordless, False, page)}
    for id_, payload in lacking.items():
        point = found.points.get(id_)
        if point is None or (point.broken and id_ not in no_dense):
            continue
        if id_ in no_dense:
            found.points[id_] = point._replace(broken=NO_VECTOR)
        elif _has_words(payload):
            found.points[id_] = point._replace(broken=NO_SPARSE_VECTOR)


def _has_words(payload: Mapping[str, Any]) -> bool:
    """Whether a chunk has words to be found by; one of signs and stop words alone has not."""
    language = str(payload["metadata"].get("language") or "en")
    return bool(document_vector(embedding_text(payload["context"], payload["text"]), language).indices)


def _sort_in(found: Contents, id_: str | int, payload: Mapping[str, Any]) -> None:
    kind = payload.get("kind")
    try:
        if kind == "document":
            row = JournalRow.from_payload(dict(payload))
            if row.doc_id != id_:
                raise ValueError("it names another document than its id")
            found.rows[row.doc_id] = row
        elif kind in ("chunk", "parent"):
            point = _stored(str(id_), kind, payload)
            found.points[point.id] = point
        else:
            found.strange[id_] = f"a point of the kind {kind!r}"
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        told = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        found.strange[id_] = f"{'a journal row' if kind == 'document' else f'a {kind}'}: {told}"


def _stored(id_: str, kind: str, payload: Mapping[str, Any]) -> StoredPoint:
    place, text, doc_id, parent = payload["metadata"], payload["text"], payload["doc_id"], payload.get("parent_id")
    source, span = place["source"], (place["start_char"], place["end_char"])
    if not _is_id(doc_id) or not (parent is None or _is_id(parent)):
        raise ValueError("a document or parent is not named by an id of ours")
    if not all(isinstance(one, str) for one in (text, source)) or not all(isinstance(one, int) for one in span):
        raise ValueError("a field is of another type")
    broken = None
    if kind == "chunk":
        embedded = embedding_text(payload["context"], text)
        broken = (
            None if text_hash(embedded) == payload["embedding_hash"] else "its text is not the one that was embedded"
        )
    return StoredPoint(id_, kind, doc_id, source, parent, broken, span)


def _is_id(value: Any) -> bool:
    try:
        return isinstance(value, str) and str(uuid.UUID(value)) == value
    except ValueError:
        return False


def _note_text(point: StoredPoint, text: str, repeated: dict[tuple[str, str], list[str]]) -> None:
    """Keeps the text of a parent whose id is not that of the first such text in its document: a repeated text, or an altered one."""
    if point.id != ids.parent_id(point.doc_id, text, 0):
        repeated.setdefault((point.doc_id, text), []).append(point.id)


def _check_texts(found: Contents, repeated: Mapping[tuple[str, str], Sequence[str]]) -> None:
    """Marks the parents whose id is that of no repetition of their text."""
    numbers = Counter(point.doc_id for point in found.points.values() if point.kind == "parent")
    for (doc_id, text), own in repeated.items():
        row = found.rows.get(doc_id)
        most = max(numbers[doc_id], len(row.parent_ids) if row else 0)
        right = {ids.parent_id(doc_id, text, number) for number in range(most)}
        for id_ in own:
            if id_ not in right:
                found.points[id_] = found.points[id_]._replace(broken="its text is not the one that it was stored with")
