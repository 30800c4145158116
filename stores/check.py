"""Compares a collection's journal with its points: what is missing, what nobody knows of, what cannot be used.

A row that is not `done` names old and new ids together, so its points may be there or not; what it does not name may not be there all
the same. Reading is here, too; the comparison itself is `compare`, and what would put things right is `repair_of`, both pure.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from qdrant_client import QdrantClient, models

from chunkers import ids
from chunkers.ids import text_hash
from stores.client import EmbeddedClient
from stores.journal import DONE, WRITING, JournalRow
from stores.journal_io import count_kind, kind_filter, scroll
from stores.lease import KIND as LEASE
from stores.lease import lease_id
from stores.names import alias_name, parse_collection

MISSING, ORPHANED, CHILDLESS, PARENTLESS = "missing", "orphaned", "childless", "parentless"
WRONG_COUNT, UNREADABLE, UNREPAIRED = "wrong count", "unreadable", "unrepaired"
FINDINGS = (MISSING, ORPHANED, CHILDLESS, PARENTLESS, WRONG_COUNT, UNREADABLE, UNREPAIRED)

NO_VECTOR = "it has no vector"
# What the journal says of a document that is being repaired.
DIFFERED = "its points differed from the journal"

# Points read at once: embedded, every page sorts all ids again; from a server, a page passes through the network.
_PAGE_EMBEDDED, _PAGE = 5_000, 500


class Finding(NamedTuple):
    """One thing that is not as it should be.

    Attributes:
        kind: one of `FINDINGS`.
        document: uri of the document that it belongs to, or what is known of it.
        detail: what and where, for a person.
        doc_id: of the document; None where no document is known.
        point: id of the point that it is about; None for a count.
    """

    kind: str
    document: str
    detail: str
    doc_id: str | None
    point: str | None


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
    chunks = kind_filter("chunk")
    # The unnamed vector has the empty name.
    bare = models.Filter(must=chunks.must, must_not=[models.HasVectorCondition(has_vector="")])
    for record in scroll(client, collection, "the points without a vector", bare, False, page):
        point = found.points.get(str(record.id))
        if point:
            found.points[point.id] = point._replace(broken=NO_VECTOR)
    found.counts = {kind: count_kind(client, collection, kind) for kind in ("document", "chunk", "parent")}
    return found


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
        context = payload["context"]
        embedded = f"{context}\n\n{text}" if context else text
        if text_hash(embedded) != payload["embedding_hash"]:
            broken = "its text is not the one that was embedded"
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


def compare(contents: Contents) -> list[Finding]:
    """What is not as it should be, by document."""
    rows, points, owners = contents.rows, contents.points, contents.owners()
    sources = {point.doc_id: point.source for point in points.values()}
    findings = []
    for id_, told in contents.strange.items():
        doc_id = owners.get(id_)
        name = rows[doc_id].uri if doc_id in rows else sources.get(doc_id or "", "unknown")
        findings.append(Finding(UNREADABLE, name, f"{told} ({id_})", doc_id, str(id_)))
    for row in rows.values():
        if row.status != DONE:
            if row.error == DIFFERED:
                findings.append(Finding(UNREPAIRED, row.uri, f"{DIFFERED}, and still do", row.doc_id, None))
            continue
        for kind, wanted in (("chunk", row.chunk_ids), ("parent", row.parent_ids)):
            for id_ in wanted:
                if id_ not in points:
                    if id_ not in contents.strange:
                        findings.append(Finding(MISSING, row.uri, f"{kind} {id_}", row.doc_id, id_))
                elif (points[id_].kind, points[id_].doc_id) != (kind, row.doc_id):
                    told = f"{kind} {id_} is a {points[id_].kind} of another document or kind"
                    findings.append(Finding(UNREADABLE, row.uri, told, row.doc_id, id_))
    named = {id_ for row in rows.values() for id_ in row.ids}
    mothers = {point.parent_id for point in points.values() if point.parent_id is not None}
    for point in points.values():
        told = f"{point.kind} {point.id}"
        owner = rows.get(point.doc_id)
        where = (owner.uri if owner else point.source, told, point.doc_id, point.id)
        if point.id not in named:
            findings.append(Finding(ORPHANED, *where))
        elif point.broken:
            findings.append(Finding(UNREADABLE, where[0], f"{told}: {point.broken}", point.doc_id, point.id))
        elif owner and point.source != owner.uri:
            findings.append(Finding(UNREADABLE, owner.uri, f"{told}: it names {point.source}", point.doc_id, point.id))
        if point.parent_id is not None and not _is_parent_of(
            points.get(point.parent_id), point, placed=owner is None or owner.status == DONE
        ):
            findings.append(Finding(PARENTLESS, *where))
        if point.kind == "parent" and point.id not in mothers and (owner is None or owner.status == DONE):
            findings.append(Finding(CHILDLESS, *where))
    return sorted([*findings, *_wrong_counts(contents)], key=lambda one: (one.document, FINDINGS.index(one.kind)))


def _wrong_counts(contents: Contents) -> list[Finding]:
    """Exact counts that are not what the journal names, where every document is done, so that it names just what is stored."""
    rows = contents.rows.values()
    if any(row.status != DONE for row in rows):
        return []
    names = {
        "document": len(rows),
        "chunk": sum(len(row.chunk_ids) for row in rows),
        "parent": sum(len(row.parent_ids) for row in rows),
    }
    return [
        Finding(
            WRONG_COUNT, "the collection", f"{counted} {kind} points where the journal names {names[kind]}", None, None
        )
        for kind, counted in contents.counts.items()
        if counted != names[kind]
    ]


def _is_parent_of(parent: StoredPoint | None, child: StoredPoint, *, placed: bool) -> bool:
    """Whether `parent` is a parent of the same document, and covers `child` if both are `placed`: not while one of them is old."""
    if parent is None or (parent.kind, parent.doc_id) != ("parent", child.doc_id):
        return False
    return not placed or (parent.span[0] <= child.span[0] and child.span[1] <= parent.span[1])


@dataclass(frozen=True, slots=True)
class Repair:
    """What puts a collection right: these rows written, these points deleted, and then the rows' documents ingested again.

    Attributes:
        rows: of the documents that something is wrong with, as begun and not done, with every id that they may have.
        delete: points that belong to no document, or must be made anew because their vector is missing.
        kept: uris of damaged documents that the source does not hold; their points are left as they are.
    """

    rows: list[JournalRow]
    delete: list[str | int]
    kept: list[str]


def repair_of(contents: Contents, findings: Iterable[Finding], *, corpus: str, listed: Collection[str]) -> Repair:
    """What would put right what `compare` found.

    Args:
        contents: of the collection.
        findings: in it.
        corpus: the corpus's name.
        listed: uris that the source holds, from which documents can be made again.
    """
    rows: list[JournalRow] = []
    delete: list[str | int] = []
    kept: dict[str, str] = {}
    by_document, owners = contents.by_document(), contents.owners()
    for doc_id in dict.fromkeys(finding.doc_id for finding in findings if finding.doc_id):
        row, own = contents.rows.get(doc_id), by_document.get(doc_id, [])
        if row is None and not own:
            continue
        uri = row.uri if row else own[0].source
        if row is None and doc_id != ids.document_id(corpus, uri):
            delete += [point.id for point in own]
            continue
        # With a row, what the source does not hold is the next run's to delete, if its guards let it.
        if row is None or uri in listed:
            rows.append(_to_repair(row or JournalRow(doc_id, uri, "", WRITING), own))
        if uri in listed:
            delete += [point.id for point in own if point.broken == NO_VECTOR]
        else:
            kept[doc_id] = uri
    # A row that cannot be read is written over where its document is known.
    safe = {row.doc_id for row in rows} | kept.keys()
    delete += [id_ for id_ in contents.strange if id_ not in safe and owners.get(id_) not in kept]
    return Repair(rows, delete, [*kept.values()])


def _to_repair(row: JournalRow, own: Iterable[StoredPoint]) -> JournalRow:
    """A row that names every point that its document may have."""
    own = list(own)
    chunk_ids = [point.id for point in own if point.kind == "chunk"]
    parent_ids = [point.id for point in own if point.kind == "parent"]
    return row.with_(
        status=WRITING,
        chunk_ids=tuple(dict.fromkeys([*row.chunk_ids, *chunk_ids])),
        parent_ids=tuple(dict.fromkeys([*row.parent_ids, *parent_ids])),
        attempts=0,
        error=DIFFERED,
    )
