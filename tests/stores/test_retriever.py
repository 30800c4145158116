from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from qdrant_client import QdrantClient, models

from chunkers import Chunked, Document, SettingError
from stores import Hit, Retriever, StoreError, Target, Writer, finish_target, open_target
from tests.doubles import HashEmbedder
from tests.stores.conftest import LineChunker, document, recipe


@pytest.fixture
def stored(client: QdrantClient, target: Target, writer: Writer) -> Target:
    writer.write(
        [
            document("a.md", "apple\npear\nplum\nfig", lang="en", tags=["fruit", "tree"]),
            document("b.md", "apple\ntable\nchair", lang="de", pages=3),
        ]
    )
    finish_target(client, target)
    return target


@pytest.fixture
def retriever(client: QdrantClient, corpus: str, stored: Target) -> Retriever:
    return Retriever(client, corpus, embedder=HashEmbedder())


def test_the_best_hit_is_the_text_asked_for_with_its_place(retriever: Retriever) -> None:
    (hit,) = retriever.search("plum", "recursive", limit=1, mode="dense")
    assert hit.score == pytest.approx(1, abs=1e-5)
    assert (hit.text, hit.source, hit.start_char, hit.end_char) == ("plum", "a.md", 11, 15)
    assert hit.metadata["lang"] == "en"


def test_a_hit_brings_its_parent(retriever: Retriever) -> None:
    (hit,) = retriever.search("plum", "recursive", limit=1)
    assert hit.parent is not None
    assert (hit.parent.text, hit.parent.start_char, hit.parent.end_char) == ("plum\nfig", 11, 19)


def test_parents_are_left_out_when_not_wanted(retriever: Retriever) -> None:
    (hit,) = retriever.search("plum", "recursive", limit=1, expand=False)
    assert hit.parent is None


def test_chunks_of_one_parent_are_one_hit(retriever: Retriever) -> None:
    hits = retriever.search("plum", "recursive", limit=10)
    assert len(hits) == 4
    assert len({hit.metadata["source"] + str(hit.parent and hit.parent.start_char) for hit in hits}) == 4


def test_parents_and_journal_rows_are_never_hits(retriever: Retriever) -> None:
    assert {hit.text for hit in retriever.search("anything", "recursive", limit=50)} <= {
        "apple", "pear", "plum", "fig", "table", "chair",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("filters", "sources"),
    [
        ({"source": "b.md"}, {"b.md"}),
        ({"metadata.source": ["a.md", "b.md"]}, {"a.md", "b.md"}),
        ({"lang": "de"}, {"b.md"}),
        ({"tags": "tree"}, {"a.md"}),
        ({"pages": 3}, {"b.md"}),
        ({"lang": "de", "source": "a.md"}, set()),
        ({"source": "nowhere.md"}, set()),
    ],
)
def test_filters_on_source_and_metadata(retriever: Retriever, filters: dict[str, str], sources: set[str]) -> None:
    assert {hit.source for hit in retriever.search("apple", "recursive", limit=10, filters=filters)} == sources


def test_json_has_the_fields_that_programs_rely_on(retriever: Retriever) -> None:
    (hit,) = retriever.search("plum", "recursive", limit=1)
    told = hit.as_json()
    assert list(told) == ["score", "text", "source", "start_char", "end_char", "headings", "context", "parent"]
    assert told["parent"] == {"text": "plum\nfig", "start_char": 11, "end_char": 19}


def test_enough_parents_are_found_behind_many_chunks_of_one(client: QdrantClient, corpus: str) -> None:
    target = open_target(client, corpus, "/docs", recipe(strategy="semantic_parent_child"))

    class OneParent(LineChunker):
        strategy = "semantic_parent_child"

    writer = Writer(client, target, OneParent(parents=True), HashEmbedder(), "run")
    writer.write([document(f"{number}.md", f"word {number}\nother {number}") for number in range(30)])
    finish_target(client, target)
    retriever = Retriever(client, corpus, embedder=HashEmbedder())
    hits: list[Hit] = retriever.search("x", "semantic_parent_child", limit=30)
    assert len({hit.source for hit in hits}) == 30

    # One parent with more children like the query than are fetched at first.
    class OneLargeParent(OneParent):
        def chunk(self, documents: Sequence[Document]) -> list[Chunked]:
            (made,) = super().chunk(documents)
            parent = made.parents[0]
            return [Chunked(made.document, [replace(one, parent_id=parent.id) for one in made.chunks], [parent])]

    crowd = [document("crowd.md", "\n".join(["word 0"] * 40))]
    Writer(client, target, OneLargeParent(parents=True), HashEmbedder(), "run").write(crowd)
    hits = retriever.search("word 0", "semantic_parent_child", limit=5)
    assert len(hits) == 5
    assert sum(hit.source == "crowd.md" for hit in hits) == 1


@pytest.mark.parametrize("query", ["", "  \n"])
def test_a_blank_query_is_refused(retriever: Retriever, query: str) -> None:
    with pytest.raises(ValueError, match="blank"):
        retriever.search(query, "recursive")


def test_a_missing_strategy_names_those_that_are_there(retriever: Retriever) -> None:
    with pytest.raises(StoreError, match=r"only for recursive; `quarry ingest SOURCE --strategy sentence` makes it"):
        retriever.search("x", "sentence")


def test_a_missing_corpus_names_those_that_are_there(client: QdrantClient, corpus: str, stored: Target) -> None:
    with pytest.raises(StoreError, match=rf"no corpus 'elsewhere' \(stored are .*{corpus}"):
        Retriever(client, "elsewhere", embedder=HashEmbedder()).search("x", "recursive")


def test_the_query_is_embedded_with_the_model_of_the_collection(client: QdrantClient, corpus: str) -> None:
    from chunkers.models import open_embedder

    builtin = open_embedder("wordllama")
    target = open_target(client, corpus, "/docs", recipe(embedding_model="wordllama", dimensions=256))
    Writer(client, target, LineChunker(), builtin, "run").write(
        [document("a.md", "the cat sleeps\ninterest rates rise")]
    )
    finish_target(client, target)
    (hit,) = Retriever(client, corpus).search("a kitten is asleep", "recursive", limit=1)
    assert hit.text == "the cat sleeps"


def test_a_model_that_needs_an_endpoint_is_an_error_without_one(
    client: QdrantClient, corpus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    target = open_target(client, corpus, "/docs", recipe(embedding_model="text-embedding-3-small", dimensions=1536))
    finish_target(client, target)
    with pytest.raises(SettingError, match="OPENAI_API_KEY"):
        Retriever(client, corpus).search("x", "recursive")


def test_a_retriever_needs_neither_prefect_nor_the_command_line(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = "import sys, stores; stores.Retriever; print([name for name in ('prefect', 'typer', 'flows') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_readers_without_our_retriever_get_chunks_only(client: QdrantClient, stored: Target) -> None:
    found = client.query_points(stored.alias, query=[1.0] + [0.0] * 7, limit=50, with_payload=True).points
    assert {(point.payload or {})["kind"] for point in found} == {"chunk"}
    assert isinstance(found[0], models.ScoredPoint)
