"""Documents that fail or kill: how attempts are counted, when one is parked, and what an interruption leaves."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from qdrant_client import QdrantClient

from chunkers.ids import document_id
from stores import Pending, Plan, StoreError, Target, Writer, plan_documents, read_states
from stores.journal import DONE, FAILED, LEAVING, MOST_ATTEMPTS, MOVING, STARTED, DocumentState, JournalRow
from tests.doubles import HashEmbedder
from tests.stores.conftest import LineChunker, document, points


def writer_of(client: QdrantClient, target: Target, embedder: HashEmbedder, run_id: str = "run") -> Writer:
    journal = read_states(client, target.collection)
    return Writer(client, target, LineChunker(), embedder, run_id, journal)


def state(client: QdrantClient, target: Target, uri: str) -> DocumentState:
    return read_states(client, target.collection)[document_id("c", uri)]


def plan(client: QdrantClient, target: Target, uri: str, text: str, **options: bool) -> Plan:
    listing = {uri: document(uri, text).content_hash}
    journal = read_states(client, target.collection)
    return plan_documents(listing, journal, corpus="c", complete=True, partial=True, **options)


def pending(uri: str, text: str) -> Pending:
    one = document(uri, text)
    return Pending(one.id, one.uri, one.content_hash)


def test_a_document_that_fails_three_times_is_parked_with_its_reason(
    client: QdrantClient, target: Target, embedder: HashEmbedder
) -> None:
    embedder.refused = "poison"
    for attempt in range(1, MOST_ATTEMPTS + 1):
        assert plan(client, target, "a.md", "poison").parked == []
        writer_of(client, target, embedder).write([document("a.md", "poison")])
        assert state(client, target, "a.md").attempts == attempt
    (parked,) = plan(client, target, "a.md", "poison").parked
    assert (parked.uri, parked.status, parked.reason) == ("a.md", FAILED, "no vector")


def test_an_edit_ends_the_parking_and_starts_the_count_anew(
    client: QdrantClient, target: Target, embedder: HashEmbedder
) -> None:
    embedder.refused = "poison"
    for _ in range(MOST_ATTEMPTS):
        writer_of(client, target, embedder).write([document("a.md", "poison")])
    assert plan(client, target, "a.md", "poison too").changed == ["a.md"]
    writer_of(client, target, embedder).write([document("a.md", "poison too")])
    assert state(client, target, "a.md").attempts == 1


def test_a_success_ends_the_count(client: QdrantClient, target: Target, embedder: HashEmbedder) -> None:
    embedder.refused = "poison"
    writer_of(client, target, embedder).write([document("a.md", "poison")])
    embedder.refused = ""
    writer_of(client, target, embedder).write([document("a.md", "poison")])
    found = state(client, target, "a.md")
    assert (found.attempts, found.error, found.finished) == (0, None, True)


def test_a_parked_document_is_tried_when_asked_for(
    client: QdrantClient, target: Target, embedder: HashEmbedder
) -> None:
    embedder.refused = "poison"
    for _ in range(MOST_ATTEMPTS):
        writer_of(client, target, embedder).write([document("a.md", "poison")])
    again = plan(client, target, "a.md", "poison", retry_parked=True)
    assert (again.unfinished, again.parked) == (["a.md"], [])
    writer_of(client, target, embedder).write([document("a.md", "poison")])
    assert plan(client, target, "a.md", "poison").parked


def test_runs_that_were_killed_count_too(client: QdrantClient, target: Target, embedder: HashEmbedder) -> None:
    for attempt in range(1, MOST_ATTEMPTS + 1):
        # A killed run gets no further than this.
        writer_of(client, target, embedder, f"run-{attempt}").begin([pending("a.md", "deadly")])
        found = state(client, target, "a.md")
        assert (found.status, found.attempts) == (STARTED, attempt)
    (parked,) = plan(client, target, "a.md", "deadly").parked
    assert parked.reason == "its run was killed while it was being worked on"


def test_an_attempt_is_journalled_before_the_file_is_read_and_counts_once(
    client: QdrantClient, target: Target, embedder: HashEmbedder
) -> None:
    own = writer_of(client, target, embedder)
    own.begin([pending("a.md", "one"), pending("b.md", "two")])
    own.begin([pending("a.md", "one")])
    embedder.refused = "one"
    own.write([document("a.md", "one"), document("b.md", "two")])
    assert state(client, target, "a.md").attempts == 1
    assert state(client, target, "b.md").attempts == 0


def test_a_document_that_cannot_be_read_counts_as_failed(
    client: QdrantClient, target: Target, embedder: HashEmbedder
) -> None:
    own = writer_of(client, target, embedder)
    own.begin([pending("a.md", "binary")])
    own.fail(document_id("c", "a.md"), "it is binary")
    found = state(client, target, "a.md")
    assert (found.status, found.attempts, found.error) == (FAILED, 1, "it is binary")


def test_documents_that_were_not_tried_are_as_they_were(
    client: QdrantClient, target: Target, embedder: HashEmbedder
) -> None:
    writer_of(client, target, embedder).write([document("old.md", "old"), document("moves.md", "moves")])
    before = points(client, target.collection)
    own = writer_of(client, target, embedder)
    own.moves = {document_id("c", "moved.md"): own.journal[document_id("c", "moves.md")]}
    own.begin([pending("old.md", "edited"), pending("new.md", "new"), pending("moved.md", "moves")])
    assert points(client, target.collection) != before
    stop = threading.Event()
    stop.set()
    own.write([document("old.md", "edited"), document("new.md", "new")], stop=stop)
    own.give_back()
    assert points(client, target.collection) == before
    assert read_states(client, target.collection) == own.journal


def test_a_fault_of_the_model_counts_against_nobody(
    client: QdrantClient, target: Target, embedder: HashEmbedder
) -> None:
    embedder.refused, embedder.fatal = "one", True
    own = writer_of(client, target, embedder)
    with pytest.raises(Exception, match="no vector"):
        own.write([document("a.md", "one")])
    found = state(client, target, "a.md")
    assert (found.status, found.attempts) == (FAILED, 0)


def test_an_attempt_that_the_store_could_not_journal_whole_is_given_back(
    client: QdrantClient, target: Target, embedder: HashEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    upsert, made = type(client).upsert, []

    def full(self: QdrantClient, *args: Any, **options: Any) -> Any:
        made.append(args)
        if len(made) == 2:
            raise ValueError("refused")
        return upsert(self, *args, **options)

    writer = writer_of(client, target, embedder)
    with monkeypatch.context() as patch:
        patch.setattr("stores.batches.point_batches.__defaults__", (2, 8_000_000))
        patch.setattr(type(client), "upsert", full)
        with pytest.raises(StoreError):
            writer.begin([pending(f"{number}.md", str(number)) for number in range(4)])
    assert len(points(client, target.collection)) == 2
    writer.give_back()
    assert points(client, target.collection) == {}


@pytest.mark.parametrize("status", [DONE, MOVING, LEAVING])
def test_nothing_is_left_to_do_on_what_only_waits_for_its_new_place(status: str) -> None:
    assert DocumentState("id", "a.md", "hash", status, attempts=MOST_ATTEMPTS).finished
    assert not DocumentState("id", "a.md", "hash", status, attempts=MOST_ATTEMPTS).parked


def test_a_row_of_the_first_version_counts_the_ids_that_it_names() -> None:
    row = JournalRow("id", "a.md", "hash", DONE, ("c1", "c2"), ("p",))
    payload = dict(row.as_point().payload or {})
    del payload["chunks"], payload["parents"]
    assert JournalRow.from_payload(payload) == row
