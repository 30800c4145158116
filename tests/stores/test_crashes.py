"""Runs that are killed, or whose store fails, at any call whatever: what is stored then, and what the next run makes of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from qdrant_client import QdrantClient

from chunkers.ids import document_id
from stores import StoreError, Target, Writer, plan_documents, read_journal, read_states
from tests.doubles import HashEmbedder
from tests.stores.conftest import LineChunker, document, points

OLD = {
    "a.md": "one\ntwo\nthree\nfour",
    "b.md": "same\nsame",
    "c.md": "gone soon\nand this",
    "e.md": "to be blank",
    "f.md": "gone too",
    "m.md": "moves on\nto elsewhere\nas it is",
    "o.md": "written over",
}
NEW = {
    "a.md": "zero\none\nthree",
    "b.md": "same\nsame\nsame",
    "d.md": "brand new",
    "e.md": " \n",
    "n.md": "moves on\nto elsewhere\nas it is",
    "o.md": "gone soon\nand this",  # c.md has moved over it
}


class Killed(BaseException):
    """Ends a run on the spot, as a kill would: nothing catches it."""


class Cut:
    """A client whose n-th call raises, before or after what the call does is done."""

    CALLS = ("upsert", "delete", "batch_update_points", "retrieve", "count", "scroll")

    def __init__(self, client: QdrantClient, at: int, error: BaseException, *, applied: bool = False) -> None:
        self._client = client
        self.left = at
        self._error = error
        self._applied = applied

    def __getattr__(self, name: str) -> Any:
        value: Callable[..., Any] = getattr(self._client, name)
        if name not in self.CALLS:
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left != -1:
                return value(*args, **kwargs)
            if self._applied:
                value(*args, **kwargs)
            raise self._error

        return call


def writer_of(client: Any, target: Target, run_id: str) -> Writer:
    return Writer(
        client,
        target,
        LineChunker(parents=True),
        HashEmbedder(),
        run_id,
        read_states(client, target.collection),
    )


def bring(writer: Writer, wanted: dict[str, str]) -> None:
    """What a run does: it writes what is new, changed, moved or unfinished, and deletes what vanished."""
    documents = {uri: document(uri, text) for uri, text in wanted.items()}
    hashes = {uri: one.content_hash for uri, one in documents.items()}
    plan = plan_documents(hashes, writer.journal, corpus="c", complete=True, partial=False, allow_deletes=99)
    writer.moves = {document_id("c", move.uri): move.state for move in plan.moved}
    writer.write([documents[uri] for uri in sorted(plan.wanted())])
    writer.delete(plan.vanished)


def cut_off(client: QdrantClient, target: Target, cut: Cut, wanted: dict[str, str]) -> bool:
    """Whether the run to `wanted` was cut off."""
    try:
        bring(writer_of(cut, target, "cut"), wanted)
    except (StoreError, Killed):
        return True
    return cut.left < 0


def emptied(client: QdrantClient, target: Target) -> None:
    found, _ = client.scroll(target.collection, limit=10_000, with_payload=False)
    if found:
        client.delete(target.collection, [point.id for point in found])


def clean_points(client: QdrantClient, target: Target, wanted: dict[str, str]) -> dict[str, Any]:
    emptied(client, target)
    bring(writer_of(client, target, "clean"), wanted)
    told = points(client, target.collection)
    emptied(client, target)
    return told


FAULTS = {
    "killed": (lambda: Killed(), False),
    "killed after": (lambda: Killed(), True),
    "store fails": (lambda: OSError("the store is gone"), False),
    "one call refused": (lambda: ValueError("refused"), False),
    "answer lost": (lambda: ValueError("refused"), True),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("later", [NEW, OLD], ids=["same again", "all as before"])
def test_wherever_a_run_is_cut_off_the_next_one_ends_as_a_clean_one(
    client: QdrantClient, target: Target, fault: str, later: dict[str, str]
) -> None:
    make, applied = FAULTS[fault]
    expected = clean_points(client, target, later)
    at = 0
    while True:
        emptied(client, target)
        bring(writer_of(client, target, "first"), OLD)
        if not cut_off(client, target, Cut(client, at, make(), applied=applied), NEW):
            break
        stored = points(client, target.collection)
        rows = read_journal(client, target.collection).values()
        named = {id_ for row in rows for id_ in (*row.chunk_ids, *row.parent_ids)}
        assert {id_ for id_, (payload, _) in stored.items() if payload["kind"] != "document"} <= named, at
        for payload, vector in stored.values():
            assert (payload["kind"] == "chunk") == (vector is not None), at
            assert payload["kind"] != "chunk" or payload["parent_id"] in stored, at
        for row in rows:
            if row.status == "done":
                assert {*row.chunk_ids, *row.parent_ids} <= stored.keys(), at
        texts = [payload.get("text") for payload, _ in stored.values()]
        assert {"moves on", "to elsewhere", "gone soon", "and this"} <= set(texts), at
        bring(writer_of(client, target, "next"), later)
        assert points(client, target.collection) == expected, at
        at += 1
    assert at > 10


def test_an_edit_that_is_cut_off_leaves_the_old_text_or_the_new_searchable(
    client: QdrantClient, target: Target
) -> None:
    def texts() -> set[str]:
        return {payload["text"] for payload, _ in points(client, target.collection).values() if "text" in payload}

    old, new = {"a.md": "one\ntwo"}, {"a.md": "uno\ndue\ntre"}
    at = 0
    while True:
        emptied(client, target)
        bring(writer_of(client, target, "first"), old)
        if not cut_off(client, target, Cut(client, at, Killed()), new):
            break
        assert {"one", "two"} <= texts() or {"uno", "due", "tre"} <= texts(), at
        at += 1
    assert at > 5
