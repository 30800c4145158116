"""Compares a collection's journal with its points: what is missing, what nobody knows of, what cannot be used.

A row that is not `done` names old and new ids together, so its points may be there or not; what it does not name may not be there all
the same. Reading is here, too; the comparison itself is `compare`, and what would put things right is `repair_of`, both pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from qdrant_client import QdrantClient, models

from chunkers.ids import text_hash
from stores.journal import DONE, WRITING, JournalRow
from stores.journal_io import count_kind, kind_filter, scroll
from stores.lease import KIND as LEASE

MISSING, ORPHANED, CHILDLESS, PARENTLESS = "missing", "orphaned", "childless", "parentless"
WRONG_COUNT, UNREADABLE = "wrong count", "unreadable"
FINDINGS = (MISSING, ORPHANED, CHILDLESS, PARENTLESS, WRONG_COUNT, UNREADABLE)

NO_VECTOR = "it has no vector"

# Points read at once.
_PAGE = 5_000


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
    """A chunk or parent point without its text; `broken` says why it cannot be used."""

    id: str
    kind: str
    doc_id: str
    source: str
    parent_id: str | None
    broken: str | None = None


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


def read_contents(client: QdrantClient, collection: str) -> Contents:
    """Reads a collection, without vectors. Texts are looked at and not kept.

    Raises:
        StoreError: it cannot be read.
    """
    found = Contents()
    for record in scroll(client, collection, "the points", None, True, _PAGE):
        # A number is no id that we give, and only as a number it can be deleted.
        _sort_in(found, record.id if isinstance(record.id, int) else str(record.id), record.payload or {})
    chunks = kind_filter("chunk")
    # The unnamed vector has the empty name.
    bare = models.Filter(must=chunks.must, must_not=[models.HasVectorCondition(has_vector="")])
    for record in scroll(client, collection, "the points without a vector", bare, False, _PAGE):
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
        elif kind != LEASE:
            found.strange[id_] = f"a point of the kind {kind!r}"
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        told = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        found.strange[id_] = f"{'a journal row' if kind == 'document' else f'a {kind}'}: {told}"


def _stored(id_: str, kind: str, payload: Mapping[str, Any]) -> StoredPoint:
    place, text = payload["metadata"], payload["text"]
    broken = None
    if kind == "chunk":
        context = payload["context"]
        embedded = f"{context}\n\n{text}" if context else text
        if text_hash(embedded) != payload["embedding_hash"]:
            broken = "its text is not the one that was embedded"
    return StoredPoint(id_, kind, payload["doc_id"], place["source"], payload.get("parent_id"), broken)


def compare(contents: Contents) -> list[Finding]:
    """What is not as it should be, by document."""
    rows, points = contents.rows, contents.points
    findings = [
        Finding(UNREADABLE, _name(contents, id_), f"{told} ({id_})", _document_of(contents, id_), str(id_))
        for id_, told in contents.strange.items()
    ]
    for row in rows.values():
        if row.status != DONE:
            continue
        for kind, ids in (("chunk", row.chunk_ids), ("parent", row.parent_ids)):
            for id_ in ids:
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
        if point.parent_id is not None:
            parent = points.get(point.parent_id)
            if parent is None or parent.kind != "parent":
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


def _document_of(contents: Contents, id_: str | int) -> str | None:
    """The document that names a point which cannot be read, or whose journal row it is."""
    if any(point.doc_id == id_ for point in contents.points.values()):
        return str(id_)
    return next((row.doc_id for row in contents.rows.values() if id_ in row.ids), None)


def _name(contents: Contents, id_: str | int) -> str:
    doc_id = _document_of(contents, id_)
    if doc_id in contents.rows:
        return contents.rows[doc_id].uri
    return next((point.source for point in contents.points.values() if point.doc_id == doc_id), "unknown")


@dataclass(frozen=True, slots=True)
class Repair:
    """What puts a collection right: these points deleted, these rows written, and then the rows' documents ingested again.

    Attributes:
        delete: points that belong to no document, or must be made anew because their vector is missing.
        rows: of the documents that something is wrong with, as begun and not done, with every id that they may have.
        strays: ids by uri of documents that the journal did not know; they go if the source does not hold the document.
    """

    delete: list[str | int]
    rows: list[JournalRow]
    strays: dict[str, tuple[str, ...]]


def repair_of(contents: Contents, findings: Iterable[Finding]) -> Repair:
    """What would put right what `compare` found."""
    findings = list(findings)
    delete: list[str | int] = [point.id for point in contents.points.values() if point.broken == NO_VECTOR]
    rows, strays = [], {}
    for doc_id in dict.fromkeys(finding.doc_id for finding in findings if finding.doc_id):
        row = contents.rows.get(doc_id)
        own = [point for point in contents.points.values() if point.doc_id == doc_id]
        if row is None and not own:
            continue
        chunk_ids = [point.id for point in own if point.kind == "chunk"]
        parent_ids = [point.id for point in own if point.kind == "parent"]
        if row is None:
            strays[own[0].source] = (*chunk_ids, *parent_ids)
            row = JournalRow(doc_id, own[0].source, "", WRITING)
        rows.append(
            row.with_(
                status=WRITING,
                chunk_ids=tuple(dict.fromkeys([*row.chunk_ids, *chunk_ids])),
                parent_ids=tuple(dict.fromkeys([*row.parent_ids, *parent_ids])),
                attempts=0,
                error="its points differed from the journal",
            )
        )
    # A row that cannot be read is written over where its document is known.
    written = {row.doc_id for row in rows}
    delete += [id_ for id_ in contents.strange if id_ not in written]
    return Repair(delete, rows, strays)
