"""What a comparison of journal and points finds, as tables, and that a repair leaves nothing to be found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from chunkers.ids import document_id
from stores import Contents, Repair, Target, Writer, compare, read_contents, read_journal, repair_of
from stores.contents import NO_VECTOR, StoredPoint
from stores.journal import DONE, FAILED, STARTED, WRITING, JournalRow
from tests.doubles import HashEmbedder
from tests.stores.conftest import LineChunker, document, points


def row(doc_id: str, chunks: str = "", parents: str = "", status: str = DONE) -> JournalRow:
    return JournalRow(doc_id, f"{doc_id}.md", "hash", status, tuple(chunks.split()), tuple(parents.split()))


def chunk(id_: str, doc_id: str, parent: str | None = None, broken: str | None = None) -> StoredPoint:
    return StoredPoint(id_, "chunk", doc_id, f"{doc_id}.md", parent, broken)


def parent(id_: str, doc_id: str) -> StoredPoint:
    return StoredPoint(id_, "parent", doc_id, f"{doc_id}.md", None)


def contents(
    rows: list[JournalRow], stored: list[StoredPoint], strange: dict[str, str] | None = None, **counts: int
) -> Contents:
    kinds = [point.kind for point in stored]
    exact = {"document": len(rows), "chunk": kinds.count("chunk"), "parent": kinds.count("parent"), **counts}
    return Contents({one.doc_id: one for one in rows}, {point.id: point for point in stored}, strange or {}, exact)


SOUND = [row("d", "c1 c2", "p")], [chunk("c1", "d", "p"), chunk("c2", "d", "p"), parent("p", "d")]


@pytest.mark.parametrize(
    ("held", "found"),
    [
        (contents(*SOUND), []),
        (contents([], []), []),
        (contents([row("d")], []), []),  # a blank document
        (contents([row("d", "c1 c2")], [chunk("c1", "d")]), [("wrong count", "the collection"), ("missing", "d.md")]),
        (
            contents([row("d", "c1")], [chunk("c1", "d"), chunk("c2", "d")]),
            [("wrong count", "the collection"), ("orphaned", "d.md")],
        ),
        (contents([], [chunk("c1", "e")]), [("wrong count", "the collection"), ("orphaned", "e.md")]),
        (
            contents([row("d", "c1", "p")], [chunk("c1", "d", "p")]),
            [("wrong count", "the collection"), ("missing", "d.md"), ("parentless", "d.md")],
        ),
        (contents([row("d", "", "p")], [parent("p", "d")]), [("childless", "d.md")]),
        (contents([row("d", "c1")], [chunk("c1", "d", broken=NO_VECTOR)]), [("unreadable", "d.md")]),
        (contents([row("d", "c1")], [chunk("c1", "e")]), [("unreadable", "d.md")]),  # another document's point
        (contents([row("d", "c1")], [chunk("c1", "d")], chunk=2), [("wrong count", "the collection")]),
        (contents([row("d", "c1")], [chunk("c1", "d")], document=0), [("wrong count", "the collection")]),
        (contents([row("d", "c1")], [], {"c1": "a chunk: 'text' is missing"}, chunk=1), [("unreadable", "d.md")]),
        (contents([], [], {"x": "a point of the kind None"}), [("unreadable", "unknown")]),
        # Points of a document that is not done may be there or not, but nothing else may.
        *(
            (contents([row("d", "c1 c2", "p", status)], [chunk("c1", "d")]), [])
            for status in (STARTED, WRITING, FAILED)
        ),
        (contents([row("d", "", "p", WRITING)], [parent("p", "d")]), []),
        (
            contents([row("d", "c1", "p")], [chunk("c1", "d", "p")._replace(span=(0, 9)), parent("p", "d")]),
            [("parentless", "d.md")],  # its parent is another one
        ),
        (contents([row("d", "c1")], [chunk("c1", "d")._replace(source="e.md")]), [("unreadable", "d.md")]),
        (contents([row("d", "c1", status=WRITING)], [chunk("c1", "d"), chunk("c2", "d")]), [("orphaned", "d.md")]),
        (contents([row("d", "c1", "p", WRITING)], [chunk("c1", "d", "p")]), [("parentless", "d.md")]),
    ],
)
def test_what_differs_between_journal_and_points(held: Contents, found: list[tuple[str, str]]) -> None:
    assert sorted((one.kind, one.document) for one in compare(held)) == sorted(found)


def repaired(held: Contents, listed: str = "d.md e.md") -> Repair:
    return repair_of(held, compare(held), corpus="c", listed=listed.split())


def test_a_repair_names_every_point_that_a_damaged_document_may_have() -> None:
    held = contents([row("d", "c1 c2"), row("e", "c9")], [chunk("c1", "d"), chunk("c3", "d"), chunk("c9", "e")])
    repair = repaired(held)
    (damaged,) = repair.rows
    assert (damaged.doc_id, damaged.status, damaged.chunk_ids) == ("d", WRITING, ("c1", "c2", "c3"))
    assert (repair.delete, repair.kept) == ([], [])


def test_a_document_that_is_marked_for_repair_differs_until_it_is_done() -> None:
    held = contents([row("d", "c1 c2")], [chunk("c1", "d")])
    marked = repaired(held).rows
    assert [one.kind for one in compare(contents(marked, [chunk("c1", "d")]))] == ["unrepaired"]
    started = [one.with_(status=STARTED) for one in marked]
    assert repaired(contents(started, [chunk("c1", "d")])).rows == marked


def test_what_the_source_does_not_hold_is_left_as_it_is() -> None:
    held = contents(
        [row("d", "c1 c2 c3")], [chunk("c1", "d", broken=NO_VECTOR)], {"c2": "a chunk: 'text' is missing", "x": "odd"}
    )
    repair = repaired(held, listed="e.md")
    assert (repair.rows, repair.delete, repair.kept) == ([], ["x"], ["d.md"])


def test_a_repair_deletes_what_has_no_vector_and_what_is_no_point_of_ours() -> None:
    held = contents([row("d", "c1")], [chunk("c1", "d", broken=NO_VECTOR)], {"x": "a point of the kind None"})
    repair = repaired(held)
    assert sorted(repair.delete) == ["c1", "x"]
    assert [one.doc_id for one in repair.rows] == ["d"]


@pytest.mark.parametrize("listed", ["e.md", "d.md"])
def test_points_of_a_document_without_a_row_get_one(listed: str) -> None:
    doc_id = document_id("c", "e.md")
    own = [point._replace(doc_id=doc_id) for point in (chunk("c1", "e", "p"), parent("p", "e"))]
    repair = repaired(contents([], own), listed)
    (made,) = repair.rows
    assert (made.doc_id, made.uri, made.status, made.content_hash, made.ids) == (
        doc_id,
        "e.md",
        WRITING,
        "",
        ("c1", "p"),
    )
    assert (repair.delete, repair.kept) == ([], [] if listed == "e.md" else ["e.md"])


def test_points_that_name_a_document_that_cannot_be_go() -> None:
    own = [point._replace(doc_id=document_id("c", "f.md")) for point in (chunk("c1", "e", "p"), parent("p", "e"))]
    repair = repaired(contents([], own))
    assert (repair.rows, repair.delete, repair.kept) == ([], ["c1", "p"], [])


def test_nothing_found_is_nothing_to_repair() -> None:
    held = contents(*SOUND)
    repair = repaired(held)
    assert (repair.delete, repair.rows) == ([], [])


TEXT = {"a.md": "one\ntwo\nthree", "b.md": "four\nfive"}
Damage = Callable[[QdrantClient, str], None]


def of(client: QdrantClient, collection: str, kind: str, source: str = "a.md") -> list[str]:
    """Ids of the points of one kind of a document."""
    told = []
    for id_, (payload, _) in points(client, collection).items():
        place = payload.get("metadata") or {"source": payload.get("uri")}
        if payload["kind"] == kind and place["source"] == source:
            told.append(id_)
    return sorted(told)


def lose(kind: str) -> Damage:
    def damage(client: QdrantClient, name: str) -> None:
        client.delete(name, models.PointIdsList(points=[of(client, name, kind)[0]]))

    return damage


def change(of_kind: str, **payload: Any) -> Damage:
    def damage(client: QdrantClient, name: str) -> None:
        client.set_payload(name, payload, points=[of(client, name, of_kind)[0]])

    return damage


def strip(kind: str, key: str) -> Damage:
    def damage(client: QdrantClient, name: str) -> None:
        client.delete_payload(name, [key], points=[of(client, name, kind)[0]])

    return damage


def bare(client: QdrantClient, name: str) -> None:
    """A chunk loses its vector."""
    id_ = of(client, name, "chunk")[0]
    (record,) = client.retrieve(name, [id_])
    client.upsert(name, [models.PointStruct(id=id_, vector={}, payload=record.payload)])


def add(client: QdrantClient, name: str) -> None:
    """A chunk that nobody knows of."""
    (record,) = client.retrieve(name, [of(client, name, "chunk")[0]], with_vectors=True)
    stray = models.PointStruct(id="00000000-0000-4000-8000-000000000001", vector=record.vector, payload=record.payload)
    client.upsert(name, [stray])


def foreign(client: QdrantClient, name: str) -> None:
    client.upsert(name, [models.PointStruct(id=7, vector=[1.0] * 8, payload={"page_content": "mine"})])


def wordless(client: QdrantClient, name: str) -> None:
    """A chunk loses its words."""
    (record,) = client.retrieve(name, [of(client, name, "chunk")[0]], with_vectors=True)
    dense = record.vector[""] if isinstance(record.vector, dict) else record.vector
    client.upsert(name, [models.PointStruct(id=record.id, vector={"": dense}, payload=record.payload)])  # type: ignore[dict-item]


def place(of_kind: str, **values: Any) -> Damage:
    def damage(client: QdrantClient, name: str) -> None:
        client.set_payload(name, values, points=[of(client, name, of_kind)[0]], key="metadata")

    return damage


def other_parent(client: QdrantClient, name: str) -> None:
    """The chunks of two parents name one of them."""
    one = of(client, name, "parent")[0]
    client.set_payload(name, {"parent_id": one}, points=of(client, name, "chunk"))


def lease(client: QdrantClient, name: str) -> None:
    client.upsert(
        name,
        [models.PointStruct(id="00000000-0000-4000-8000-000000000002", vector={}, payload={"kind": "lease"})],
    )


def alien(client: QdrantClient, name: str) -> None:
    """A chunk that names a document that is none, and a source that there is."""
    (record,) = client.retrieve(name, [of(client, name, "chunk")[0]], with_vectors=True)
    id_ = "00000000-0000-4000-8000-000000000003"
    payload = {**(record.payload or {}), "doc_id": id_, "parent_id": None}
    client.upsert(name, [models.PointStruct(id=id_, vector=record.vector, payload=payload)])


DAMAGES: dict[str, tuple[Damage, str]] = {
    "a chunk is lost": (lose("chunk"), "missing"),
    "a parent is lost": (lose("parent"), "parentless"),
    "a row is lost": (lose("document"), "orphaned"),
    "a chunk is added": (add, "orphaned"),
    "a vector is lost": (bare, "unreadable"),
    "a sparse vector is lost": (wordless, "unreadable"),
    "a text is altered": (change("chunk", text="other"), "unreadable"),
    "a text is gone": (strip("chunk", "text"), "unreadable"),
    "a kind is altered": (change("chunk", kind="chunks"), "unreadable"),
    "a row is altered": (change("document", chunk_ids=["x"]), "unreadable"),
    "a row has lost its status": (strip("document", "status"), "unreadable"),
    "a parent_id is altered": (change("chunk", parent_id="00000000-0000-4000-8000-000000000009"), "parentless"),
    "a document is altered": (change("chunk", doc_id="00000000-0000-4000-8000-000000000009"), "unreadable"),
    "a foreign point": (foreign, "unreadable"),
    "a parent's text is altered": (change("parent", text="other"), "unreadable"),
    "a source is altered": (place("chunk", source="b.md"), "unreadable"),
    "a source is a number": (place("chunk", source=5), "unreadable"),
    "a document is a list": (change("chunk", doc_id=["x"]), "unreadable"),
    "a document is a word": (change("chunk", doc_id="word"), "unreadable"),
    "a document is a number": (change("chunk", doc_id=5), "unreadable"),
    "a parent_id is a list": (change("chunk", parent_id=["x"]), "unreadable"),
    "a parent_id is another's": (other_parent, "parentless"),
    "a foreign lease": (lease, "unreadable"),
    "an alien chunk of a document of ours": (alien, "orphaned"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damage_is_found_and_a_repair_leaves_the_points_of_a_clean_run(
    client: QdrantClient, target: Target, name: str
) -> None:
    def writer() -> Writer:
        journal = {doc_id: row.state for doc_id, row in read_journal(client, target.collection).items()}
        return Writer(client, target, LineChunker(parents=True), HashEmbedder(), "run", journal)

    documents = [document(uri, text) for uri, text in TEXT.items()]
    writer().write(documents)
    clean = points(client, target.collection)
    assert compare(read_contents(client, target.collection)) == []

    damage, kind = DAMAGES[name]
    damage(client, target.collection)
    held = read_contents(client, target.collection)
    findings = compare(held)
    assert kind in {one.kind for one in findings}, findings

    repair = repair_of(held, findings, corpus="c", listed=[*TEXT])
    client_points = [row.as_point() for row in repair.rows]
    if client_points:
        client.upsert(target.collection, client_points)
    if repair.delete:
        client.delete(target.collection, models.PointIdsList(points=list(repair.delete)))
    again = writer()
    again.write([one for one in documents if again.journal[one.id].status != DONE])
    assert compare(read_contents(client, target.collection)) == []
    assert points(client, target.collection) == clean


def test_chunks_of_before_there_were_sparse_vectors_lack_nothing(client: QdrantClient, target: Target) -> None:
    Writer(client, target, LineChunker(), HashEmbedder(), "run").write([document("a.md", "apples grow")])
    wordless(client, target.collection)
    assert [one.kind for one in compare(read_contents(client, target.collection))] == ["unreadable"]
    metadata = client.get_collection(target.collection).config.metadata or {}
    client.update_collection(target.collection, metadata={"recipe": {**metadata["recipe"], "sparse": {}}})
    assert compare(read_contents(client, target.collection)) == []


def test_a_chunk_that_lacks_both_vectors_is_told_of_once(client: QdrantClient, target: Target) -> None:
    Writer(client, target, LineChunker(), HashEmbedder(), "run").write([document("a.md", "apples grow")])
    bare(client, target.collection)
    (finding,) = compare(read_contents(client, target.collection))
    assert NO_VECTOR in finding.detail
