"""What this project asks of a Qdrant server, operation by operation, for tests that make each of them fail."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from qdrant_client import models

from chunkers.ids import document_id
from stores import Leases, Retriever, Target, connect, finish_target, open_target
from stores.client import StoreClient
from stores.collections import move_alias
from stores.journal import DONE, JournalRow
from stores.journal_io import count_kind, read_states
from stores.lease import lease_id
from stores.points import Points
from stores.transport import send
from tests.doubles import HashEmbedder
from tests.qdrant_server import QdrantServer
from tests.stores.conftest import recipe

IDS = [str(uuid.UUID(int=number)) for number in range(1, 4)]


def chunk(id_: str, text: str = "text", source: str = "a.md", **payload: Any) -> models.PointStruct:
    metadata = {"source": source, "start_char": 0, "end_char": len(text), "headings": []}
    return models.PointStruct(
        id=id_,
        vector=[0.5, 0.25, 0, 0, 0, 0, 0, 0.5],
        payload={"kind": "chunk", "text": text, "metadata": metadata, **payload},
    )


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that `send` would have waited between tries; it does not."""
    asked: list[float] = []
    monkeypatch.setitem(send.__kwdefaults__, "sleep", asked.append)  # type: ignore[arg-type]
    return asked


@dataclass
class Store:
    """A server with one empty collection, and a client of it."""

    server: QdrantServer
    client: StoreClient
    target: Target

    @property
    def points(self) -> Points:
        return Points(self.client, self.target.collection)

    def stored(self) -> dict[str, dict[str, Any]]:
        """Payloads of what is stored by id, asked of nobody but the server's own store."""
        found, _ = self.server.answers.store.scroll(self.target.collection, limit=10_000)
        return {str(point.id): point.payload or {} for point in found}


@pytest.fixture(scope="module")
def serving() -> Iterator[tuple[QdrantServer, StoreClient]]:
    with QdrantServer() as server, server.client() as client:
        yield server, client


@pytest.fixture
def store(serving: tuple[QdrantServer, StoreClient], waits: list[float]) -> Store:
    server, client = serving
    server.reset()
    target = open_target(client, "docs", "/docs", recipe())
    server.requests.clear()
    return Store(server, client, target)


@dataclass(frozen=True)
class Operation:
    """One thing that is asked of a server.

    Attributes:
        method, path: of its request that fails.
        do: does it and returns what it gives.
        given: what it gives when done well.
        stored: whether it is stored, and nothing twice.
        prepare: what must be there before.
        writes: its answer says whether the write is applied.
    """

    method: str
    path: str
    do: Callable[[Store], Any]
    given: Any = None
    stored: Callable[[Store], bool] = lambda store: True
    prepare: Callable[[Store], Any] = lambda store: None
    writes: bool = False


def _upsert(store: Store) -> None:
    store.points.upsert([chunk(id_) for id_ in IDS])


def _journal(store: Store) -> None:
    row = JournalRow(document_id("docs", "a.md"), "a.md", "hash", DONE)
    store.points.upsert([row.as_point()])


def _lease(store: Store) -> None:
    Leases(store.client, "run", every=0).acquire(store.target.alias, store.target.collection, None)


def _searched(store: Store) -> list[str]:
    hits = Retriever(store.client, "docs", embedder=HashEmbedder()).search("text", "recursive")
    return [hit.text for hit in hits]


def _live(store: Store) -> None:
    _upsert_one(store)
    move_alias(store.client, store.target.alias, store.target.collection)


def _upsert_one(store: Store) -> None:
    store.points.upsert([chunk(IDS[0])])


OPERATIONS = {
    "upsert": Operation("PUT", "/points", _upsert, stored=lambda store: sorted(store.stored()) == IDS, writes=True),
    "overwrite": Operation(
        "POST",
        "/points/batch",
        lambda store: store.points.overwrite_payloads({id_: {"kind": "chunk", "text": "new"} for id_ in IDS}),
        stored=lambda store: store.stored() == {id_: {"kind": "chunk", "text": "new"} for id_ in IDS},
        prepare=_upsert,
        writes=True,
    ),
    "delete": Operation(
        "POST",
        "/points/delete",
        lambda store: store.points.delete(IDS[:2]),
        stored=lambda store: [*store.stored()] == IDS[2:],
        prepare=_upsert,
        writes=True,
    ),
    "read": Operation("POST", "/points", lambda store: [*store.points.payloads(IDS)], given=IDS, prepare=_upsert),
    "scroll": Operation(
        "POST",
        "/points/scroll",
        lambda store: [state.uri for state in read_states(store.client, store.target.collection).values()],
        given=["a.md"],
        prepare=_journal,
    ),
    "count": Operation(
        "POST",
        "/points/count",
        lambda store: count_kind(store.client, store.target.collection, "chunk"),
        given=3,
        prepare=_upsert,
    ),
    "search": Operation("POST", "/points/query", _searched, given=["text"], prepare=_live),
    "lease": Operation(
        "PUT", "/points", _lease, stored=lambda store: [*store.stored()] == [lease_id("docs__recursive")], writes=True
    ),
    "alias": Operation(
        "POST",
        "/collections/aliases",
        lambda store: move_alias(store.client, store.target.alias, store.target.collection),
        stored=lambda store: store.server.answers.aliases == {"docs__recursive": "docs__recursive__1"},
    ),
    "note": Operation(
        "PATCH",
        "/docs__recursive__1",
        lambda store: finish_target(store.client, store.target),
        stored=lambda store: store.server.answers.aliases == {"docs__recursive": "docs__recursive__1"},
    ),
    "create": Operation(
        "PUT",
        "/docs__sentence__1",
        lambda store: open_target(store.client, "docs", "/docs", recipe(strategy="sentence")).exists,
        given=True,
        stored=lambda store: len(store.server.answers.indexes["docs__sentence__1"]) == 4,
    ),
    "index": Operation(
        "PUT",
        "/docs__sentence__1/index",
        lambda store: open_target(store.client, "docs", "/docs", recipe(strategy="sentence")).exists,
        given=True,
        stored=lambda store: len(store.server.answers.indexes["docs__sentence__1"]) == 4,
        writes=True,
    ),
    "connect": Operation("GET", "/", lambda store: connect(url=store.server.url).close()),
}
