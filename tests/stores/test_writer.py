from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from qdrant_client import QdrantClient

from chunkers import Chunked, Document, ModelError
from chunkers.models.bm25 import document_vector
from stores import StoreError, Target, Writer, read_journal
from stores.journal import DONE, FAILED
from stores.languages import Languages, languages_in
from tests.doubles import HashEmbedder
from tests.stores.conftest import LineChunker, document, points, texts


def again(client: QdrantClient, target: Target, embedder: HashEmbedder, run_id: str = "run-2") -> Writer:
    """A writer as the next run would have it."""
    return Writer(client, target, LineChunker(parents=True), embedder, run_id, read_journal(client, target.collection))


def test_chunks_parents_and_a_journal_row_are_stored(client: QdrantClient, target: Target, writer: Writer) -> None:
    outcome = writer.write([document("a.md", "one\ntwo\nthree")])
    assert (outcome.attempted, outcome.chunks, outcome.upserted, outcome.failed) == (1, 3, 5, [])
    assert texts(client, target.collection) == ["one", "three", "two"]
    assert texts(client, target.collection, "parent") == ["one\ntwo", "three"]
    (row,) = read_journal(client, target.collection).values()
    assert (row.uri, row.status, row.attempts, row.run_id) == ("a.md", DONE, 0, "run-1")
    assert (len(row.chunk_ids), len(row.parent_ids)) == (3, 2)


def test_a_vector_is_the_embedding_of_the_chunk(client: QdrantClient, target: Target, writer: Writer) -> None:
    writer.write([document("a.md", "one\ntwo")])
    for payload, vector in points(client, target.collection).values():
        if payload["kind"] == "chunk":
            assert vector == pytest.approx(HashEmbedder().embed([payload["text"]])[0].tolist(), abs=1e-5)
        else:
            assert vector is None


def test_writing_the_same_again_writes_and_embeds_nothing(
    client: QdrantClient, target: Target, writer: Writer, embedder: HashEmbedder
) -> None:
    writer.write([document("a.md", "one\ntwo")])
    before = points(client, target.collection)
    embedder.texts.clear()
    outcome = again(client, target, embedder).write([document("a.md", "one\ntwo")])
    assert (outcome.upserted, outcome.deleted, embedder.texts) == (0, 0, [])
    assert points(client, target.collection) == before


def test_an_edit_embeds_the_new_text_alone(
    client: QdrantClient, target: Target, writer: Writer, embedder: HashEmbedder
) -> None:
    writer.write([document("a.md", "one\ntwo\nthree")])
    embedder.texts.clear()
    again(client, target, embedder).write([document("a.md", "zero\none\ntwo\nthree")])
    assert embedder.texts == ["zero"]
    starts = {
        payload["text"]: payload["metadata"]["start_char"]
        for payload, _ in points(client, target.collection).values()
        if payload["kind"] == "chunk"
    }
    assert starts == {"zero": 0, "one": 5, "two": 9, "three": 13}


def test_a_changed_document_has_one_stamp_and_an_unchanged_one_keeps_its_own(
    client: QdrantClient, target: Target, writer: Writer, embedder: HashEmbedder
) -> None:
    def stamps(uri: str) -> set[str]:
        found, _ = client.scroll(target.collection, limit=100, with_payload=True)
        metadata = [(point.payload or {}).get("metadata") or {} for point in found]
        return {one["ingested_at"] for one in metadata if one.get("source") == uri}

    writer.write([document("a.md", "one\ntwo\nthree"), document("b.md", "left alone")])
    before_a, before_b = stamps("a.md"), stamps("b.md")
    again(client, target, embedder).write([document("a.md", "one\nzwei\nthree"), document("b.md", "left alone")])
    assert len(stamps("a.md")) == 1
    assert stamps("a.md") != before_a
    assert stamps("b.md") == before_b


def test_a_shortened_document_loses_its_tail_and_no_other_does(
    client: QdrantClient, target: Target, writer: Writer, embedder: HashEmbedder
) -> None:
    long = "\n".join(f"line {number}" for number in range(6))
    writer.write([document("a.md", long), document("b.md", "other one\nother two")])
    outcome = again(client, target, embedder).write([document("a.md", "line 0\nline 1")])
    assert outcome.deleted == 6  # four chunks and two parents
    assert texts(client, target.collection) == ["line 0", "line 1", "other one", "other two"]


def test_equal_documents_are_stored_apart_and_deleted_apart(
    client: QdrantClient, target: Target, writer: Writer
) -> None:
    writer.write([document("a.md", "same\nsame"), document("b.md", "same\nsame")])
    assert texts(client, target.collection) == ["same"] * 4
    rows = {row.uri: row for row in read_journal(client, target.collection).values()}
    outcome = writer.delete([rows["a.md"]])
    assert outcome.deleted == 3
    assert texts(client, target.collection) == ["same"] * 2
    assert [row.uri for row in read_journal(client, target.collection).values()] == ["b.md"]


def test_a_blank_document_is_journalled_without_points(
    client: QdrantClient, target: Target, writer: Writer, embedder: HashEmbedder
) -> None:
    writer.write([document("a.md", "one")])
    outcome = again(client, target, embedder).write([document("a.md", " \n ")])
    assert (outcome.chunks, outcome.deleted) == (0, 2)
    (row,) = read_journal(client, target.collection).values()
    assert (row.status, row.chunk_ids, row.parent_ids) == (DONE, (), ())


def test_one_bad_document_fails_alone(
    client: QdrantClient, target: Target, writer: Writer, embedder: HashEmbedder
) -> None:
    embedder.refused = "bad"
    outcome = writer.write([document(f"{name}.md", f"{name} text") for name in ("good", "bad", "fine")])
    assert outcome.failed == [("bad.md", "no vector")]
    assert outcome.attempted == 3
    assert texts(client, target.collection) == ["fine text", "good text"]
    rows = {row.uri: row for row in read_journal(client, target.collection).values()}
    assert (rows["bad.md"].status, rows["bad.md"].error, rows["bad.md"].attempts) == (FAILED, "no vector", 1)
    assert rows["good.md"].status == DONE


def test_attempts_are_counted_by_run_until_one_succeeds(
    client: QdrantClient, target: Target, writer: Writer, embedder: HashEmbedder
) -> None:
    embedder.refused = "bad"
    writer.write([document("a.md", "bad")])
    again(client, target, embedder).write([document("a.md", "bad")])
    (row,) = read_journal(client, target.collection).values()
    assert row.attempts == 2
    embedder.refused = ""
    again(client, target, embedder, "run-3").write([document("a.md", "bad")])
    (row,) = read_journal(client, target.collection).values()
    assert (row.attempts, row.error) == (0, None)


def test_the_old_text_stays_searchable_when_the_new_one_cannot_be_embedded(
    client: QdrantClient, target: Target, writer: Writer, embedder: HashEmbedder
) -> None:
    writer.write([document("a.md", "old one\nold two")])
    embedder.refused = "new"
    again(client, target, embedder).write([document("a.md", "new one\nold two")])
    assert texts(client, target.collection) == ["old one", "old two"]
    embedder.refused = ""
    again(client, target, embedder, "run-3").write([document("a.md", "new one\nold two")])
    assert texts(client, target.collection) == ["new one", "old two"]


def test_a_fatal_error_stops_and_leaves_the_rest_untried(
    client: QdrantClient, target: Target, writer: Writer, embedder: HashEmbedder
) -> None:
    embedder.refused, embedder.fatal = "bad", True
    many = [document(f"{number:02}.md", "bad" if number == 0 else f"text {number}") for number in range(40)]
    with pytest.raises(ModelError, match="no vector"):
        writer.write(many)
    rows = read_journal(client, target.collection).values()
    assert len(rows) == 32
    assert {(row.status, row.attempts) for row in rows} == {(FAILED, 0)}


def test_a_stop_ends_after_the_documents_in_hand(client: QdrantClient, target: Target, writer: Writer) -> None:
    stop = threading.Event()
    many = [document(f"{number:02}.md", f"text {number}") for number in range(100)]
    outcome = writer.write(many, stop=stop, progress=lambda done: stop.set())
    assert outcome.attempted == 32
    assert {row.status for row in read_journal(client, target.collection).values()} == {DONE}


def test_unfinished_documents_of_a_dead_run_are_taken_one_at_a_time(
    client: QdrantClient, target: Target, writer: Writer, embedder: HashEmbedder
) -> None:
    embedder.refused = "text"
    names = [f"{number}.md" for number in range(3)]
    writer.write([document(name, f"text {name}") for name in names])
    embedder.refused = ""
    sizes: list[int] = []
    again(client, target, embedder).write(
        [document(name, f"text {name}") for name in [*names, "new-1.md", "new-2.md"]], progress=sizes.append
    )
    assert sizes == [1, 1, 1, 2]


class Failing:
    """A client whose n-th write raises, as a store that dies would make it."""

    WRITES = ("upsert", "delete", "batch_update_points")

    def __init__(self, client: QdrantClient, fails_at: int) -> None:
        self._client = client
        self.left = fails_at

    def __getattr__(self, name: str) -> Any:
        value: Callable[..., Any] = getattr(self._client, name)
        if name not in self.WRITES:
            return value

        def write(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left < 0:
                raise OSError("the store is gone")
            return value(*args, **kwargs)

        return write


OLD = {"a.md": "one\ntwo\nthree\nfour", "b.md": "same\nsame", "c.md": "gone soon"}
NEW = {"a.md": "zero\none\nthree", "b.md": "same\nsame\nsame", "d.md": "brand new"}


def bring(writer: Writer, wanted: dict[str, str]) -> None:
    """What a run does: write, then delete what vanished."""
    outcome = writer.write([document(uri, text) for uri, text in wanted.items()])
    if outcome.failed:
        raise StoreError("failed")
    writer.delete([row for row in writer.journal.values() if row.uri not in wanted])


@pytest.mark.parametrize("fails_at", range(14))
def test_a_store_that_dies_at_any_write_loses_nothing(
    client: QdrantClient, target: Target, writer: Writer, embedder: HashEmbedder, fails_at: int
) -> None:
    bring(writer, OLD)
    broken: Any = Failing(client, fails_at)
    dying = Writer(
        broken, target, LineChunker(parents=True), embedder, "dying", read_journal(client, target.collection)
    )
    try:
        bring(dying, NEW)
    except StoreError:
        pass
    else:
        assert broken.left >= 0, "every write was tried, and none failed"
    stored = points(client, target.collection)
    named = {
        id_ for row in read_journal(client, target.collection).values() for id_ in (*row.chunk_ids, *row.parent_ids)
    }
    assert {id_ for id_, (payload, _) in stored.items() if payload["kind"] != "document"} <= named
    for payload, _ in stored.values():
        if payload["kind"] == "chunk":
            assert payload["parent_id"] in stored

    bring(again(client, target, embedder, "last"), NEW)
    ended = points(client, target.collection)
    for id_ in list(stored):
        client.delete(target.collection, [id_])
    client.delete(
        target.collection, list(points(client, target.collection)) or ["00000000-0000-0000-0000-000000000000"]
    )
    bring(again(client, target, HashEmbedder(), "clean"), NEW)
    assert points(client, target.collection) == ended


def test_all_chunks_of_a_document_share_one_stamp(client: QdrantClient, target: Target, writer: Writer) -> None:
    writer.write([document("a.md", "\n".join(f"line {number}" for number in range(20)))])
    found, _ = client.scroll(target.collection, limit=100, with_payload=True)
    stamps = {
        (point.payload or {})["metadata"]["ingested_at"]
        for point in found
        if (point.payload or {})["kind"] != "document"
    }
    assert len(stamps) == 1


def test_any_character_may_stand_in_a_path(client: QdrantClient, target: Target, writer: Writer) -> None:
    writer.write([document("a/b c#1 é文?.md", "text")])
    (row,) = read_journal(client, target.collection).values()
    assert row.uri == "a/b c#1 é文?.md"


def test_in_a_dry_run_too_one_bad_document_fails_alone(client: QdrantClient, target: Target) -> None:
    class Picky(LineChunker):
        def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
            if any("poison" in document.text for document in documents):
                raise RuntimeError("no chunks")
            return super().chunk(documents)

    writer = Writer(client, target, Picky(), HashEmbedder(), "dry")
    documents = [document("a.md", "one"), document("b.md", "poison"), document("c.md", "two\nthree")]
    outcome = writer.rehearse(documents, stop=threading.Event(), progress=lambda done: None)
    assert (outcome.attempted, outcome.chunks, outcome.failed) == (3, 3, [("b.md", "no chunks")])
    assert points(client, target.collection) == {}


def test_words_are_stored_beside_each_vector_under_the_name_of_the_model(
    client: QdrantClient, target: Target, writer: Writer
) -> None:
    writer.write([document("a.md", "apples grow\nthe and")])
    for payload, vector in points(client, target.collection).values():
        if payload["kind"] == "chunk":
            assert vector
            words = document_vector(payload["text"], "en")
            rounded = [round(value, 5) for value in words.values]
            assert payload.get("bm25", {}) == dict(zip(words.indices, rounded, strict=True))
            assert bool(words.indices) == (payload["text"] == "apples grow")


def test_a_document_that_changes_its_language_gets_other_words_and_is_not_embedded_again(
    client: QdrantClient, target: Target, writer: Writer, embedder: HashEmbedder
) -> None:
    one = document("a.md", "Mitgliedschaften\nandere")
    writer.write([one])
    before = points(client, target.collection)
    one.language, one.content_hash = "de", "changed"
    embedder.texts.clear()
    writer.write([one])
    assert embedder.texts == []
    after = points(client, target.collection)
    assert after.keys() == before.keys()
    for id_, (payload, vector) in after.items():
        assert vector == before[id_][1]
        if payload["kind"] == "chunk":
            assert payload["metadata"]["language"] == "de"
            assert {*payload.get("bm25", {})} == {*document_vector(payload["text"], "de").indices}
    assert not [payload for payload, _ in after.values() if payload.get("text") == "andere" and "bm25" in payload]


def test_the_languages_of_documents_are_noted_before_their_words_are_stored(
    client: QdrantClient, target: Target, writer: Writer
) -> None:
    def noted() -> tuple[str, ...]:
        return languages_in(client.get_collection(target.collection).config.metadata or {})

    english, german = document("a.md", "one"), document("b.md", "zwei")
    german.language = "de"
    writer.write([english])
    assert noted() == ("en",)
    seen: list[tuple[str, ...]] = []
    upsert = client.upsert

    def spied(collection: str, points: list[Any], **options: Any) -> Any:
        if any(point.vector for point in points):
            seen.append(noted())
        return upsert(collection, points, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "upsert", spied)
        writer.write([german])
    assert seen == [("de", "en")]


def test_two_processes_that_note_languages_at_once_lose_none(client: QdrantClient, target: Target) -> None:
    one, other = Languages(client, target.collection), Languages(client, target.collection)
    one.note(["en"])
    other.note(["de", "xx"])
    one.note(["en", "fr"])
    metadata = client.get_collection(target.collection).config.metadata or {}
    assert languages_in(metadata) == ("de", "en", "fr", "xx")
    assert metadata["corpus"] == target.corpus
