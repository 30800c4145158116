"""What other people's code and data may hand in: odd front matter, odd names, odd vectors, odd filters."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient

from chunkers import Chunked, Document
from chunkers.models import Vectors
from stores import Retriever, StoreError, Target, Writer, connect, finish_target, open_target, read_journal
from stores.journal import FAILED, WRITING, JournalRow
from stores.payloads import clean
from tests.doubles import HashEmbedder
from tests.stores.conftest import LineChunker, document, points, recipe, texts


def test_a_set_has_one_order_in_every_process() -> None:
    code = "import json; from stores.payloads import clean; print(json.dumps(clean({'a', 'b', 'c', 'd', 3, 1, None})))"
    told = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(told) == 1
    assert sorted(map(str, json.loads(told.pop()))) == ["1", "3", "None", "a", "b", "c", "d"]


def test_an_array_is_a_list_of_plain_numbers() -> None:
    assert json.loads(json.dumps(clean({"rows": np.array([[1, 2], [3, 4]])}))) == {"rows": [[1, 2], [3, 4]]}
    assert clean(np.array([1.5, np.nan])) == [1.5, "nan"]


def test_a_path_and_an_error_that_are_not_text_are_stored_as_text() -> None:
    payload = JournalRow("id", "bad\udcff.md", "hash", FAILED, error="what \ud800 failed").as_point().payload
    json.dumps(payload, ensure_ascii=False).encode("utf-8")


def test_a_path_that_is_not_text_is_stored_and_kept(client: QdrantClient, target: Target, writer: Writer) -> None:
    for _ in range(2):
        assert writer.write([document("bad\udcff.md", "some text")]).failed == []
    for payload, _ in points(client, target.collection).values():
        json.dumps(payload, ensure_ascii=False).encode("utf-8")


class Short(LineChunker):
    """Forgets the last document."""

    def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
        return super().chunk(documents)[:-1]


def test_a_document_that_the_chunker_leaves_out_has_failed(client: QdrantClient, target: Target) -> None:
    outcome = Writer(client, target, Short(), HashEmbedder(), "run").write(
        [document("a.md", "a"), document("b.md", "b")]
    )
    assert [uri for uri, _ in outcome.failed] == ["a.md", "b.md"]
    assert {row.status for row in read_journal(client, target.collection).values()} == {FAILED}


class Broken(HashEmbedder):
    """Gives no number for a text that holds `refused`."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        vectors = HashEmbedder().embed(texts)
        vectors[[self.refused is not None and self.refused in text for text in texts]] = np.nan
        return vectors


def test_a_vector_that_holds_no_numbers_fails_its_document_alone(client: QdrantClient, target: Target) -> None:
    embedder = Broken()
    embedder.refused = "bad"
    written = [document("bad.md", "bad"), document("good.md", "good")]
    outcome = Writer(client, target, LineChunker(), embedder, "run").write(written)
    assert [uri for uri, _ in outcome.failed] == ["bad.md"]
    assert texts(client, target.collection) == ["good"]


def test_a_stop_ends_a_batch_that_is_done_again_one_by_one(client: QdrantClient, target: Target) -> None:
    stop = threading.Event()

    class Stops(HashEmbedder):
        def embed(self, texts: Sequence[str]) -> Vectors:
            if len(texts) == 1:
                stop.set()
            return super().embed(texts)

    embedder = Stops()
    embedder.refused = "bad"
    many = [document(f"{number}.md", "bad" if number == 9 else f"text {number}") for number in range(10)]
    outcome = Writer(client, target, LineChunker(), embedder, "run").write(many, stop=stop)
    assert (outcome.attempted, outcome.failed) == (1, [])
    left = [row for row in read_journal(client, target.collection).values() if row.status == WRITING]
    assert len(left) == 9
    embedder.refused = ""
    Writer(client, target, LineChunker(), embedder, "next", read_journal(client, target.collection)).write(many)
    assert len(texts(client, target.collection)) == 10


@pytest.fixture
def filled(client: QdrantClient, corpus: str, target: Target, writer: Writer) -> Retriever:
    writer.write(
        [
            document("draft.md", "first", draft=True, year=2024, tags=["x", "y"]),
            document("final.md", "second", draft=False, year=2025, tags=["y"]),
            document("other.md", "third", year="2024"),
        ]
    )
    finish_target(client, target)
    return Retriever(client, corpus, embedder=HashEmbedder())


@pytest.mark.parametrize(
    ("filters", "sources"),
    [
        ({"draft": True}, {"draft.md"}),
        ({"draft": [True, False]}, {"draft.md", "final.md"}),
        ({"year": 2024}, {"draft.md"}),
        ({"year": [2024, "2024"]}, {"draft.md", "other.md"}),
        ({"tags": "y"}, {"draft.md", "final.md"}),
        ({"tags": ("x", "z")}, {"draft.md"}),
        ({"year": {2024, 2025}, "draft": False}, {"final.md"}),
    ],
)
def test_filters_take_bools_and_values_of_several_types(
    filled: Retriever, filters: dict[str, Any], sources: set[str]
) -> None:
    assert {hit.source for hit in filled.search("first", "recursive", filters=filters)} == sources


@pytest.mark.parametrize("value", [1.5, None, [], [None], [1.5], {"a": 1}, object()], ids=repr)
def test_a_filter_that_cannot_be_matched_is_refused_by_name(filled: Retriever, value: Any) -> None:
    with pytest.raises(ValueError, match="filter year"):
        filled.search("first", "recursive", filters={"year": value})


def test_two_strategies_are_written_side_by_side_through_one_embedded_store(tmp_path: Path) -> None:
    def told(client: QdrantClient, strategy: str) -> list[Any]:
        return sorted(points(client, f"docs__{strategy}__1").items())

    strategies = ("recursive", "sentence")
    written = [document(f"{number}.md", f"one {number}\ntwo {number}\nthree") for number in range(40)]
    errors: list[BaseException] = []

    def write(client: QdrantClient, strategy: str) -> None:
        try:
            chunker = LineChunker(parents=True)
            chunker.strategy = strategy
            to = open_target(client, "docs", "/docs", recipe(strategy=strategy))
            Writer(client, to, chunker, HashEmbedder(), "run").write(written)
            finish_target(client, to)
        except BaseException as error:
            errors.append(error)

    before = sys.getswitchinterval()
    with connect(path=tmp_path / "both") as client, connect(path=tmp_path / "one") as alone:
        sys.setswitchinterval(1e-5)
        try:
            threads = [threading.Thread(target=write, args=(client, strategy)) for strategy in strategies]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(before)
        assert errors == []
        for strategy in strategies:
            write(alone, strategy)
            assert told(client, strategy) == told(alone, strategy)
            assert len(told(client, strategy)) == 40 * (1 + 3 + 2)


def test_a_document_with_a_point_that_no_request_can_hold_fails_and_says_so(
    client: QdrantClient, target: Target, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stores.batches.LARGEST_POINT", 5_000)
    outcome = writer.write([document("giant.md", "x" * 6_000)])
    ((uri, error),) = outcome.failed
    assert uri == "giant.md"
    assert "larger than any request" in error
    assert texts(client, target.collection) == []


def test_a_store_error_says_it_in_one_line() -> None:
    assert str(StoreError("a\n  b\tc")) == "a b c"
