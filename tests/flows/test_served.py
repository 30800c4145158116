"""Whole runs over a Qdrant server: what is stored is what an embedded run stores, readers are never disturbed, and a server that fails
or goes away leaves a run that says so and a next one that completes.
"""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models

from chunkers import STRATEGIES, Document
from chunkers.models.base import Vectors
from flows.loading import load_document
from flows.sources import Entry
from stores import Retriever, StoreError, connect
from stores.client import StoreClient
from stores.search_modes import MODES
from stores.transport import send
from tests.doubles import HashEmbedder
from tests.flows.conftest import ingest, quarry, told
from tests.flows.test_ingestion import of_kind, points
from tests.qdrant_server import QdrantServer, Request, qdrant, status

__all__ = ["qdrant"]

CORPUS = Path(__file__).parent.parent / "corpus"
SHAPES = ("contextual_retrieval", "semantic_parent_child")


@pytest.fixture(autouse=True)
def served(qdrant: QdrantServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every run of a test is over the server, and waits for no clock; clients read no certificates, which takes long."""
    monkeypatch.setenv("QDRANT_URL", qdrant.url)
    monkeypatch.setitem(send.__kwdefaults__, "sleep", lambda seconds: None)  # type: ignore[arg-type]
    monkeypatch.setattr("stores.client.StoreClient", partial(StoreClient, verify=False))


def is_lease(request: Request) -> bool:
    """Whether a write takes or ends a lease, and does nothing else."""
    if request.path.endswith("/points/delete"):
        return "filter" in request.json
    return all(point["payload"]["kind"] == "lease" for point in request.json["points"])


def by_name(vectors: Any) -> tuple[list[float], dict[int, float]]:
    """The dense vector of a point, and the weights of its words by id."""
    named = vectors if isinstance(vectors, dict) else {"": vectors or []}
    sparse = named.get("bm25") or models.SparseVector(indices=[], values=[])
    return named.get("", []), dict(zip(sparse.indices, sparse.values, strict=True))


def test_a_first_run_stores_what_an_embedded_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ingest(CORPUS, *SHAPES).exit_status == 0
    over_http = {name: points(f"corpus__{name}") for name in SHAPES}
    monkeypatch.delenv("QDRANT_URL")
    assert ingest(CORPUS, *SHAPES).exit_status == 0
    for name, sent in over_http.items():
        stored = points(f"corpus__{name}")
        assert len(stored) > 30
        assert {id_: payload for id_, (payload, _) in stored.items()} == {
            id_: payload for id_, (payload, _) in sent.items()
        }
        for id_, (_, vectors) in stored.items():
            dense, words = by_name(vectors)
            assert by_name(sent[id_][1]) == (pytest.approx(dense, abs=1e-6), pytest.approx(words, abs=1e-6))


def test_a_run_over_an_unchanged_source_writes_no_point_but_leases(source: Path, qdrant: QdrantServer) -> None:
    ingest(source)
    qdrant.requests.clear()
    report = ingest(source)
    writes = [request for request in qdrant.requests if request.writes]
    assert [request.path for request in writes if not is_lease(request)] == []
    assert len(writes) == 2 * len(STRATEGIES)
    assert [(own.unchanged, own.embedded) for own in report.strategies.values()] == [(3, 0)] * len(STRATEGIES)


def test_readers_see_one_build_or_the_other_over_a_server_too(source: Path) -> None:
    for number in range(20):
        (source / f"{number}.md").write_text("\n\n".join(f"The pump {number} has part {part}." for part in range(8)))
    ingest(source, "recursive")
    old = {payload["text"] for payload in of_kind("docs__recursive", "chunk")}
    begun, ended = threading.Event(), threading.Event()
    seen: list[set[str]] = []
    errors: list[Exception] = []

    def read() -> None:
        with connect() as client:
            retriever = Retriever(client, "docs")
            vector = HashEmbedder().embed(["x"])[0].tolist() * 32
            kind = models.FieldCondition(key="kind", match=models.MatchValue(value="chunk"))
            last = False
            while not last:
                last = ended.is_set()
                try:
                    hits = retriever.search("Which part does the pump have?", "recursive", limit=20)
                    seen.append({hit.text for hit in hits})
                    found = client.query_points(
                        "docs__recursive", query=vector, query_filter=models.Filter(must=[kind]), limit=20
                    )
                    seen.append({(point.payload or {})["text"] for point in found.points})
                except Exception as error:
                    errors.append(error)
                begun.set()

    reader = threading.Thread(target=read)
    reader.start()
    begun.wait(60)
    try:
        report = ingest(source, "recursive", rebuild=True, overrides={"recursive_chunk_chars": "30"})
    finally:
        ended.set()
        reader.join()
    new = {payload["text"] for payload in of_kind("docs__recursive", "chunk")}
    assert (report.exit_status, errors) == (0, [])
    assert not old & new
    assert all(texts and (texts <= old or texts <= new) for texts in seen)
    assert seen[0] <= old
    assert seen[-1] <= new


def test_a_collection_whose_points_always_fail_fails_one_strategy(source: Path, qdrant: QdrantServer) -> None:
    for method in ("PUT", "POST"):
        qdrant.fail(
            method, "/docs__semantic__1/points.*", always=status(500, "Service internal error: shard is broken")
        )
    report = ingest(source)
    assert report.exit_status == 1
    told = {name: own.error for name, own in report.strategies.items() if own.error}
    assert list(told) == ["semantic"]
    assert "docs__semantic" in str(told["semantic"])
    assert "shard is broken" in str(told["semantic"])
    assert all(own.documents == 3 for name, own in report.strategies.items() if name != "semantic")
    with connect() as client:
        aliases = {item.alias_name for item in client.get_aliases().aliases}
    assert aliases == {f"docs__{name}" for name in STRATEGIES if name != "semantic"}
    qdrant.heal()
    assert ingest(source).exit_status == 0


def test_a_collection_that_begins_to_fail_later_fails_one_strategy(source: Path, qdrant: QdrantServer) -> None:
    # The lease and the attempts are written.
    qdrant.fail("PUT", "/docs__recursive__1/points", after=2, always=status(500, "Service internal error: no space"))
    report = ingest(source, "recursive", "sentence")
    assert report.exit_status == 1
    own = report.strategies["recursive"]
    assert {document for document, _ in own.failed} == {"guide.md", "log.txt", "notes/tea.md"}
    assert all("no space" in error for _, error in own.failed)
    assert (report.strategies["sentence"].documents, report.strategies["sentence"].failed) == (3, [])


class Meeting(HashEmbedder):
    """Something happens when it is asked for a text that holds a word."""

    word = "boiling"

    def __init__(self) -> None:
        super().__init__()
        self.happens = lambda: None

    def embed(self, texts: list[str]) -> Vectors:  # type: ignore[override]
        if any(self.word in text for text in texts):
            self.happens()
        return super().embed(texts)


@pytest.fixture
def meeting(monkeypatch: pytest.MonkeyPatch) -> Meeting:
    embedder = Meeting()
    monkeypatch.setattr("flows.models.open_embedder", lambda name, endpoint, options: embedder)
    return embedder


def test_a_server_that_goes_away_ends_the_run_with_a_reason_and_the_next_completes(
    source: Path, qdrant: QdrantServer, meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What a dead run leaves is free at once.
    monkeypatch.setattr("stores.lease.SECONDS", 0.0)
    ingest(source, "recursive", "sentence", corpus="clean")
    meeting.happens = qdrant.go_away
    meeting.texts.clear()
    (source / "notes" / "tea.md").write_text("Tea wants it boiling, always.")
    report = ingest(source, "recursive", "sentence", corpus="clean")
    assert report.exit_status == 1
    assert {name for name, own in report.strategies.items() if "no answer from Qdrant" in str(own.error)} == {
        "recursive",
        "sentence",
    }
    meeting.happens = lambda: None
    qdrant.come_back()
    assert ingest(source, "recursive", "sentence", corpus="clean").exit_status == 0
    texts = [row["text"] for row in of_kind("clean__recursive", "chunk") if row["metadata"]["source"] == "notes/tea.md"]
    assert texts == ["Tea wants it boiling, always."]
    assert all(row["status"] == "done" and row["attempts"] == 0 for row in of_kind("clean__sentence", "document"))


def test_a_key_that_is_withdrawn_stops_the_run(
    source: Path, qdrant: QdrantServer, meeting: Meeting, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []

    def load(entry: Entry, corpus: str) -> Document:
        loaded.append(entry.uri)
        return load_document(entry, corpus)

    monkeypatch.setattr("flows.loading.load_document", load)
    for number in range(200):
        (source / f"{number:03}.md").write_text(f"Document {number}.")

    def withdraw() -> None:
        qdrant.key = "another"
        qdrant.requests.clear()

    meeting.word = "Document 0"
    meeting.happens = withdraw
    report = ingest(source, "recursive")
    assert report.exit_status == 1
    assert "Qdrant answered 401" in str(report.strategies["recursive"].error)
    # The write that met it, one to tell the journal, and the lease's end.
    assert len(qdrant.requests) <= 4
    # Nor is the rest of the source read.
    assert 0 < len(loaded) < 203


def test_a_server_that_refuses_every_request_is_an_error_before_any_work(source: Path, qdrant: QdrantServer) -> None:
    qdrant.fail("PUT", ".*", always=status(403, "Forbidden: Global manage access is required"))
    with pytest.raises(StoreError, match="Qdrant answered 403"):
        ingest(source)
    result = quarry("ingest", source, "--plain")
    assert result.exit_code == 1
    assert "Global manage access is required" in result.stderr
    assert told("status")["collections"] == []


@pytest.fixture
def strict(qdrant: QdrantServer) -> QdrantServer:
    """The server refuses filters on fields without an index, as Qdrant Cloud does."""
    qdrant.answers.strict = True
    return qdrant


def lose_a_chunk(name: str) -> None:
    id_ = next(id_ for id_, (payload, _) in points(name).items() if payload["kind"] == "chunk")
    with connect() as client:
        client.delete(name, models.PointIdsList(points=[id_]))


def test_all_that_a_user_does_works_where_filters_need_indexes(source: Path, strict: QdrantServer) -> None:
    names = ("recursive", "semantic_parent_child")
    assert ingest(source, *names).exit_status == 0
    paths = [request.path for request in strict.requests]
    for name in names:
        own = [path for path in paths if path.startswith(f"/collections/docs__{name}__1/") and "/exists" not in path]
        indexed = [path.endswith("/index") for path in own]
        # The fields of chunks and of leases, all before the first request that reads or writes a point.
        assert indexed == sorted(indexed, reverse=True)
        assert sum(indexed) == 6
    (source / "log.txt").rename(source / "diary.txt")
    (source / "notes" / "tea.md").unlink()
    (source / "guide.md").write_text("# Guide\n\nAll is new.")
    report = ingest(source, *names)
    assert [(own.moved, own.error) for own in report.strategies.values()] == [(1, None)] * 2
    (hit, *_) = told("search", "What is new?", "--strategy", "recursive", "-k", "1")["hits"]
    assert hit["source"] in ("guide.md", "diary.txt")
    for name in names:
        lose_a_chunk(f"docs__{name}")
    assert told("verify", status=1)["sound"] is False
    assert told("verify", "--repair")["sound"] is True
    assert ingest(source, "recursive", rebuild=True, overrides={"recursive_chunk_chars": "40"}).exit_status == 0
    assert len(told("status")["collections"]) == 3
    assert quarry("rollback").exit_code == 0
    assert told("drop", "docs__recursive__2") == {"dropped": ["docs__recursive__2"]}


@pytest.mark.parametrize("mode", MODES)
def test_readers_filter_by_source_where_filters_need_indexes(source: Path, strict: QdrantServer, mode: str) -> None:
    ingest(source, "recursive")
    with connect() as client:
        retriever = Retriever(client, "docs")
        hits = retriever.search("pump", "recursive", filters={"source": "guide.md"}, mode=mode)
        assert {hit.source for hit in hits} == {"guide.md"}
        with pytest.raises(StoreError, match=r"Index required but not found for .*metadata\.tags"):
            retriever.search("pump", "recursive", filters={"tags": "drink"}, mode=mode)
