from __future__ import annotations

from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from chunkers import Document
from chunkers.ids import chunk_id, document_id, parent_id
from chunkers.models.bm25 import document_vector
from stores import Target, Writer, read_states
from stores.journal import DONE, JournalRow
from stores.moves import relocate
from tests.doubles import HashEmbedder
from tests.stores.conftest import LineChunker, document, points

TEXT = "one\ntwo\none\nthree"


def writer_of(client: QdrantClient, target: Target, embedder: HashEmbedder, *moves: tuple[str, str]) -> Writer:
    """A writer that knows of documents moved from one uri to another."""
    journal = read_states(client, target.collection)
    places = {document_id("c", new): journal[document_id("c", old)] for old, new in moves}
    return Writer(client, target, LineChunker(parents=True), embedder, "run", journal, places)


def test_a_moved_document_keeps_its_vectors_and_gets_the_ids_of_its_new_place(
    client: QdrantClient, target: Target, embedder: HashEmbedder
) -> None:
    writer_of(client, target, embedder).write([document("new/b.md", TEXT, language="en")])
    clean = points(client, target.collection)
    writer_of(client, target, embedder).delete([*read_states(client, target.collection).values()])

    writer_of(client, target, embedder).write([document("a.md", TEXT, language="en")])
    embedder.texts.clear()
    moving = writer_of(client, target, embedder, ("a.md", "new/b.md"))
    outcome = moving.write([document("new/b.md", TEXT, language="en")])
    assert embedder.texts == []
    assert (outcome.attempted, outcome.moved, outcome.chunks, outcome.deleted) == (1, 1, 4, 6)
    assert points(client, target.collection) == clean
    assert [state.uri for state in moving.journal.values()] == ["new/b.md"]


def test_a_moved_document_is_in_the_language_that_it_is_found_to_be_in_now(
    client: QdrantClient, target: Target, embedder: HashEmbedder
) -> None:
    writer_of(client, target, embedder).write([document("a.md", "Mitgliedschaften")])
    embedder.texts.clear()
    moved = document("b.md", "Mitgliedschaften")
    moved.language = "de"
    writer_of(client, target, embedder, ("a.md", "b.md")).write([moved])
    (chunk,) = [payload for payload, _ in points(client, target.collection).values() if payload["kind"] == "chunk"]
    assert (embedder.texts, chunk["metadata"]["language"]) == ([], "de")
    assert [*chunk["bm25"]] == document_vector("Mitgliedschaften", "de").indices


def test_a_file_of_another_kind_is_chunked_anew_and_its_old_place_goes(
    client: QdrantClient, target: Target, embedder: HashEmbedder
) -> None:
    writer_of(client, target, embedder).write([document("a.md", TEXT)])
    embedder.texts.clear()
    writer_of(client, target, embedder, ("a.md", "a.txt")).write([document("a.txt", TEXT)])
    assert embedder.texts == ["one", "two", "one", "three"]
    assert {payload.get("uri") for payload, _ in points(client, target.collection).values()} == {None, "a.txt"}


def test_a_move_of_which_a_point_is_lost_is_chunked_anew(
    client: QdrantClient, target: Target, embedder: HashEmbedder
) -> None:
    writer_of(client, target, embedder).write([document("a.md", TEXT)])
    lost = next(id_ for id_, (payload, _) in points(client, target.collection).items() if payload.get("text") == "two")
    client.delete(target.collection, models.PointIdsList(points=[lost]))
    writer_of(client, target, embedder, ("a.md", "b.md")).write([document("b.md", TEXT)])
    texts = [payload["text"] for payload, _ in points(client, target.collection).values() if payload["kind"] == "chunk"]
    assert sorted(texts) == ["one", "one", "three", "two"]


def test_a_moved_document_that_fails_stays_where_it_was(
    client: QdrantClient, target: Target, embedder: HashEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer_of(client, target, embedder).write([document("a.md", TEXT)])

    def fails(*args: Any) -> None:
        raise ValueError("no")

    with monkeypatch.context() as patch:
        patch.setattr("stores.work.relocate", fails)
        outcome = writer_of(client, target, embedder, ("a.md", "b.md")).write([document("b.md", TEXT)])
    assert outcome.failed == [("b.md", "no")]
    sources = {
        payload["metadata"]["source"]
        for payload, _ in points(client, target.collection).values()
        if "metadata" in payload
    }
    assert sources == {"a.md"}
    writer_of(client, target, embedder, ("a.md", "b.md")).write([document("b.md", TEXT)])
    assert {state.uri: state.status for state in read_states(client, target.collection).values()} == {"b.md": DONE}


def record(id_: str, text: str, start: int, parent: str | None = None) -> models.Record:
    payload = {
        "kind": "chunk",
        "text": text,
        "doc_id": "old",
        "parent_id": parent,
        "metadata": {"source": "a.md", "title": "a", "start_char": start, "end_char": start + len(text)},
    }
    return models.Record(id=id_, payload=payload, vector=[1.0, 0.0])


def moved(text: str, records: list[models.Record], parents: list[models.Record], uri: str = "b.md") -> Any:
    new = Document(id=document_id("c", uri), uri=uri, text=text, title="b")
    old = JournalRow(
        "old",
        "a.md",
        new.content_hash,
        DONE,
        tuple(str(one.id) for one in records),
        tuple(str(one.id) for one in parents),
    )
    return relocate(new, old, {str(one.id): one for one in [*records, *parents]}, "now")


def test_equal_texts_keep_apart_and_children_their_parents() -> None:
    records = [record("c2", "same", 5, "p"), record("c1", "same", 0, "p")]
    found = moved("same same", records, [record("p", "same same", 0)])
    doc = document_id("c", "b.md")
    assert list(found.chunks) == [chunk_id(doc, "same", 0), chunk_id(doc, "same", 1)]
    assert {payload["parent_id"] for payload in found.chunks.values()} == {parent_id(doc, "same same", 0)}
    assert [payload["metadata"]["start_char"] for payload in found.chunks.values()] == [0, 5]
    (place,) = {(p["doc_id"], p["metadata"]["source"], p["metadata"]["title"]) for p in found.chunks.values()}
    assert place == (doc, "b.md", "b")


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ("other", [record("c1", "same", 0)]),  # no slice
        ("same", [record("c1", "same", 0, "gone")]),  # its parent is missing
        ("same", [models.Record(id="c1", payload={"text": "same"}, vector=[1.0])]),  # nothing is known of its place
        ("same", [models.Record(id="c1", payload=record("c1", "same", 0).payload, vector=None)]),
    ],
)
def test_points_that_cannot_serve_are_not_taken_along(text: str, records: list[models.Record]) -> None:
    assert moved(text, records, []) is None
