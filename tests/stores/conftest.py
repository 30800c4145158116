"""A store for each test: embedded in a folder, over HTTP to a server of the tests' own (slow), and a real server too when
QDRANT_TEST_URL is set. Doubles for model and chunker.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from chunkers import Chunked, Document
from chunkers.assembly import make_chunks, make_parents
from stores import Recipe, Target, Writer, connect, open_target
from stores.names import parse_collection
from stores.transport import send
from tests.doubles import HashEmbedder
from tests.qdrant_server import QdrantServer

SERVER = os.environ.get("QDRANT_TEST_URL")


@pytest.fixture(
    params=[
        "embedded",
        pytest.param("loopback", marks=pytest.mark.slow),
        pytest.param("server", marks=pytest.mark.skipif(not SERVER, reason="QDRANT_TEST_URL")),
    ]
)
def client(
    request: pytest.FixtureRequest, tmp_path: Path, corpus: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[QdrantClient]:
    if request.param == "loopback":
        monkeypatch.setitem(send.__kwdefaults__, "sleep", lambda seconds: None)  # type: ignore[arg-type]
        with QdrantServer() as server, server.client() as over_http:
            yield over_http
        return
    opened = connect(url=SERVER) if request.param == "server" else connect(path=tmp_path / "qdrant")
    yield opened
    for item in opened.get_collections().collections:
        parsed = parse_collection(item.name)
        if parsed and parsed.corpus.startswith(corpus):
            opened.delete_collection(item.name)
    opened.close()


@pytest.fixture
def corpus() -> str:
    """A name that no other test uses, since a server is shared."""
    return f"t{uuid.uuid4().hex[:12]}"


class LineChunker:
    """One chunk for each line that is not blank; with `parents`, one parent for each pair of lines."""

    strategy = "recursive"

    def __init__(self, parents: bool = False) -> None:
        self.parents = parents

    @property
    def parameters(self) -> dict[str, Any]:
        return {"chunk_size": 512}

    def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
        return [self._chunked(document) for document in documents]

    def _chunked(self, document: Document) -> Chunked:
        spans, at = [], 0
        for line in document.text.splitlines(keepends=True):
            if line.strip():
                spans.append((at, at + len(line.rstrip())))
            at += len(line)
        if not self.parents:
            return Chunked(document, make_chunks(document, spans), [])
        pairs = [spans[at : at + 2] for at in range(0, len(spans), 2)]
        parents = make_parents(document, [(pair[0][0], pair[-1][1]) for pair in pairs])
        of_child = [parents[index // 2] for index in range(len(spans))]
        return Chunked(document, make_chunks(document, spans, parents=of_child), parents)


def recipe(**changes: Any) -> Recipe:
    fields = {
        "strategy": "recursive",
        "parameters": {"chunk_size": 512},
        "embedding_model": "hash",
        "dimensions": 8,
        **changes,
    }
    return Recipe(**fields)


@pytest.fixture
def embedder() -> HashEmbedder:
    return HashEmbedder()


@pytest.fixture
def target(client: QdrantClient, corpus: str) -> Target:
    return open_target(client, corpus, "/docs", recipe())


@pytest.fixture
def writer(client: QdrantClient, target: Target, embedder: HashEmbedder) -> Writer:
    return Writer(client, target, LineChunker(parents=True), embedder, "run-1")


def document(uri: str, text: str, corpus: str = "c", **metadata: Any) -> Document:
    from chunkers.ids import document_id

    return Document(id=document_id(corpus, uri), uri=uri, text=text, title=uri, metadata=metadata)


def points(client: QdrantClient, collection: str) -> dict[str, tuple[dict[str, Any], Any]]:
    """Every point by id: payload without run stamps, the sparse vector of a chunk put in, and dense vector rounded."""
    found, _ = client.scroll(collection, limit=10_000, with_payload=True, with_vectors=True)
    told = {}
    for point in found:
        stamps = ("run_id", "updated_at", "attempts")
        payload = {name: value for name, value in (point.payload or {}).items() if name not in stamps}
        if "metadata" in payload:
            payload["metadata"] = {name: value for name, value in payload["metadata"].items() if name != "ingested_at"}
        # One that has no words has the dense vector only, which then comes without its name.
        vectors: dict[str, Any] = point.vector if isinstance(point.vector, dict) else {"": point.vector}  # type: ignore[assignment]
        if isinstance(sparse := vectors.get("bm25"), models.SparseVector):
            payload["bm25"] = dict(zip(sparse.indices, (round(value, 5) for value in sparse.values), strict=True))
        dense = vectors.get("")
        told[str(point.id)] = (payload, [round(float(value), 5) for value in dense] if dense else None)  # type: ignore[arg-type]
    return told


def texts(client: QdrantClient, collection: str, kind: str = "chunk") -> list[str]:
    return sorted(payload["text"] for payload, _ in points(client, collection).values() if payload["kind"] == kind)
