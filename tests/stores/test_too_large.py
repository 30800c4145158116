"""Requests that are larger than the server, or a proxy before it, takes: halved until they fit, and a point that never does is named."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from qdrant_client import models

from chunkers import Chunked, Document
from chunkers.models.bm25 import document_vector
from stores import StoreError, Writer
from stores.batches import point_bytes
from stores.journal import DONE, FAILED
from stores.journal_io import read_states
from stores.transport import confirm
from tests.doubles import HashEmbedder
from tests.qdrant_server import LIMIT
from tests.stores.conftest import LineChunker, document
from tests.stores.served import Store, chunk, serving, store, waits

__all__ = ["serving", "store", "waits"]

MANY = [str(uuid.UUID(int=number)) for number in range(1, 41)]


@pytest.fixture(params=[False, True], ids=["400 of Qdrant", "413 of a proxy"])
def small(request: pytest.FixtureRequest, store: Store) -> Iterator[Store]:
    """A server that takes requests of 10,000 bytes."""
    store.server.limit, store.server.proxy = 10_000, request.param
    yield store
    store.server.limit, store.server.proxy = LIMIT, False


def test_a_batch_that_is_too_large_is_halved_until_it_fits(small: Store, waits: list[float]) -> None:
    small.points.upsert([chunk(id_, "x" * 800) for id_ in MANY])
    assert sorted(small.stored()) == MANY
    sizes = [request.points for request in small.server.sent("PUT", "/points")]
    assert sizes == [40, 20, 10, 5, 5, 10, 5, 5, 20, 10, 5, 5, 10, 5, 5]
    assert waits == []


def test_payloads_that_are_too_large_together_are_halved(small: Store) -> None:
    small.points.upsert([chunk(id_) for id_ in MANY[:8]])
    small.points.overwrite_payloads({id_: {"kind": "chunk", "text": "y" * 3000} for id_ in MANY[:8]})
    assert {payload["text"] for payload in small.stored().values()} == {"y" * 3000}
    assert [request.points for request in small.server.sent("POST", "/points/batch")] == [8, 4, 2, 2, 4, 2, 2]


def test_a_point_that_is_too_large_alone_is_named_with_its_document_and_size(small: Store) -> None:
    giant = chunk(MANY[0], "x" * 12_000, source="deep/giant.md")
    with pytest.raises(
        StoreError, match=r"^deep/giant\.md: a point of 12,\d{3} bytes is larger than the server takes: .*answered 4"
    ) as caught:
        small.points.upsert([giant, *(chunk(id_) for id_ in MANY[1:4])])
    assert not caught.value.fatal
    assert len(small.server.sent("PUT", "/points")) <= 3


def test_a_document_with_such_a_point_fails_alone(small: Store) -> None:
    writer = Writer(small.client, small.target, LineChunker(), HashEmbedder(), "run")
    texts = {"a.md": "one\ntwo", "giant.md": "small\n" + "x" * 12_000, "z.md": "three"}
    outcome = writer.write([document(uri, text, "docs") for uri, text in texts.items()])
    ((uri, error),) = outcome.failed
    assert uri == "giant.md"
    assert error.startswith("giant.md: a point of 12,")
    states = {state.uri: state for state in read_states(small.client, small.target.collection).values()}
    assert {uri: state.status for uri, state in states.items()} == {"a.md": DONE, "giant.md": FAILED, "z.md": DONE}
    assert states["giant.md"].error == error
    stored = sorted(payload["text"] for payload in small.stored().values() if payload["kind"] == "chunk")
    assert stored == ["one", "small", "three", "two"]


def test_a_collection_that_is_dropped_by_hand_stops_the_strategy_at_once(store: Store, waits: list[float]) -> None:
    class Dropping(LineChunker):
        def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
            store.server.answers.store.delete_collection(store.target.collection)
            store.server.requests.clear()
            return super().chunk(documents)

    writer = Writer(store.client, store.target, Dropping(), HashEmbedder(), "run")
    with pytest.raises(StoreError, match=r"Qdrant answered 404 .*docs__recursive__1.* doesn't exist") as caught:
        writer.write([document(f"{number}.md", "text", "docs") for number in range(200)])
    assert caught.value.fatal
    # The write that met it, and one to tell the journal.
    assert len(store.server.requests) == 2
    assert waits == []


def numbers(dimensions: int) -> list[float]:
    vector = np.random.default_rng(dimensions).normal(size=dimensions).astype(np.float32)
    return [float(number) for number in vector / np.linalg.norm(vector)]


_WORDS = document_vector(" ".join(f"word{number} " * (1 + number % 5) for number in range(200)), "en")
SPARSE = models.SparseVector(indices=_WORDS.indices, values=_WORDS.values)
PLAIN = "Green tea wants cool water. " * 40
ESCAPED = 'a "quoted" \\ path\n\tand a control \x01 or two \x7f ' * 30
WORDS = "Grüner Tee, 緑茶は冷たい水, зелёный чай, \U0001f375 " * 20


@pytest.mark.parametrize("text", ["", PLAIN, ESCAPED, WORDS], ids=["no text", "plain", "escapes", "other scripts"])
@pytest.mark.parametrize(
    "vector",
    [{}, numbers(256), numbers(3072), {"": numbers(256), "bm25": SPARSE}],
    ids=["no vector", "256", "3072", "dense and sparse"],
)
def test_the_estimate_is_within_a_tenth_of_what_is_sent(store: Store, vector: Any, text: str) -> None:
    dense = vector.get("", []) if isinstance(vector, dict) else vector
    store.client.create_collection(
        "sizes",
        vectors_config=models.VectorParams(size=len(dense) or 8, distance=models.Distance.COSINE),
        sparse_vectors_config={"bm25": models.SparseVectorParams()},
    )
    metadata = {"source": "notes/tea.md", "title": text[:20], "headings": ["Tea"], "start_char": 0, "tags": ["a", "b"]}
    payload = {"kind": "chunk", "text": text, "context": None, "doc_id": MANY[0], "metadata": metadata}
    made = [models.PointStruct(id=id_, vector=vector, payload=payload) for id_ in MANY[:20]]
    confirm(store.client.upsert("sizes", made))
    assert sum(map(point_bytes, made)) == pytest.approx(store.server.sent("PUT", "/sizes/points")[0].size, rel=0.1)
