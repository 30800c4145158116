"""Compares a collection's journal with its points: what is missing, what nobody knows of, what cannot be used.

A row that is not `done` names old and new ids together, so its points may be there or not; what it does not name may not be there all
the same. `compare` says what differs, and `repair_of` what would put it right; both are pure, and `stores.contents` does the reading.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from chunkers import ids
from stores.contents import NO_SPARSE_VECTOR, NO_VECTOR, Contents, StoredPoint
from stores.journal import DONE, WRITING, JournalRow

MISSING, ORPHANED, CHILDLESS, PARENTLESS = "missing", "orphaned", "childless", "parentless"
WRONG_COUNT, UNREADABLE, UNREPAIRED = "wrong count", "unreadable", "unrepaired"
FINDINGS = (MISSING, ORPHANED, CHILDLESS, PARENTLESS, WRONG_COUNT, UNREADABLE, UNREPAIRED)

# What the journal says of a document that is being repaired.
DIFFERED = "its points differed from the journal"


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
        delete: points that belong to no document, or must be made anew because one of their vectors is missing: what is still there
            would be taken for whole. The model is asked again for those that the cache has not.
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
            delete += [point.id for point in own if point.broken in (NO_VECTOR, NO_SPARSE_VECTOR)]
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
