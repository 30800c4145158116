from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from chunkers import Chunked, Document, SettingError
from chunkers.encoding import count_tokens
from chunkers.models.base import Vectors
from chunkers.models.bm25 import document_vector, query_vector
from stores import Fusion, Hit, Retriever, StoreError, Target, Writer, finish_target, open_target
from stores.journal_io import read_states
from stores.search_modes import MODES
from tests.doubles import HashEmbedder
from tests.stores.conftest import LineChunker, document, recipe


class Pear(HashEmbedder):
    """Takes every question for the word pear."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        return super().embed(["pear" for _ in texts])


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


@pytest.mark.parametrize("mode", MODES)
def test_a_hit_brings_its_parent(retriever: Retriever, mode: str) -> None:
    (hit,) = retriever.search("plum", "recursive", limit=1, mode=mode)
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
@pytest.mark.parametrize("mode", MODES)
def test_filters_on_source_and_metadata(
    retriever: Retriever, filters: dict[str, str], sources: set[str], mode: str
) -> None:
    found = retriever.search("apple", "recursive", limit=10, filters=filters, mode=mode)
    assert {hit.source for hit in found} == sources


def test_json_has_the_fields_that_programs_rely_on(retriever: Retriever) -> None:
    (hit,) = retriever.search("plum", "recursive", limit=1)
    told = hit.as_json()
    assert list(told) == ["score", "text", "source", "start_char", "end_char", "headings", "context", "parent"]
    assert told["parent"] == {"text": "plum\nfig", "start_char": 11, "end_char": 19}


def test_words_find_what_meaning_does_not(retriever: Retriever) -> None:
    found = retriever.search("a chair and a table", "recursive", mode="sparse")
    assert {hit.text for hit in found} == {"table", "chair"}
    assert found[0].score == found[1].score > 0


def test_hybrid_ranks_what_both_sides_find_first(retriever: Retriever) -> None:
    found = retriever.search("plum", "recursive", mode="hybrid")
    assert found[0].text == "plum"
    # First on both sides: 1 / (1 / weight + k - 1) of each.
    fusion = Fusion()
    weights = (fusion.dense_weight, fusion.sparse_weight)
    assert found[0].score == pytest.approx(sum(1 / (1 / weight + fusion.k - 1) for weight in weights), abs=1e-5)


def test_the_weights_of_a_fusion_decide_which_side_leads(client: QdrantClient, corpus: str, stored: Target) -> None:
    def best(**weights: float) -> str:
        retriever = Retriever(client, corpus, embedder=Pear(), fusion=Fusion(**weights))  # type: ignore[arg-type]
        return retriever.search("chair", "recursive", limit=1)[0].text

    assert best(dense_weight=1, sparse_weight=0) == "pear"
    assert best(dense_weight=0, sparse_weight=1) == "chair"


@pytest.mark.parametrize("query", ["the", "xyzzy", "?!"])
def test_words_that_nothing_holds_find_nothing_and_hybrid_falls_back_on_meaning(
    retriever: Retriever, query: str
) -> None:
    assert retriever.search(query, "recursive", mode="sparse") == []
    assert retriever.search(query, "recursive", mode="hybrid") != []


def test_words_alone_need_no_model(client: QdrantClient, corpus: str, stored: Target) -> None:
    assert [hit.text for hit in Retriever(client, corpus).search("plum", "recursive", mode="sparse")] == ["plum"]


@pytest.mark.parametrize("mode", MODES)
def test_a_foreign_point_with_vectors_is_no_hit(
    client: QdrantClient, retriever: Retriever, stored: Target, mode: str
) -> None:
    before = [hit.text for hit in retriever.search("plum", "recursive", limit=10, mode=mode)]
    (record,) = [
        point
        for point in client.scroll(stored.collection, limit=100, with_vectors=True)[0]
        if (point.payload or {}).get("text") == "plum"
    ]
    foreign = models.PointStruct(id=7, vector=record.vector or {}, payload={"page_content": "mine"})
    client.upsert(stored.collection, [foreign])
    after = retriever.search("plum", "recursive", limit=10, mode=mode)
    assert sorted(hit.text for hit in after) == sorted(before)
    assert retriever.search("plum", "recursive", max_tokens=100, mode=mode) != []


@pytest.mark.parametrize("mode", MODES)
def test_a_budget_is_kept_and_used(retriever: Retriever, mode: str) -> None:
    for budget, most in ((1, 1), (3, 3), (1000, 100)):
        found = retriever.search("apple plum table", "recursive", mode=mode, max_tokens=budget, expand=False)
        assert sum(count_tokens(hit.text) for hit in found) <= budget
        assert len(found) <= most
    assert sum(len(hit.text.split()) for hit in found) == {"sparse": 4}.get(mode, 7)


def test_a_budget_counts_parents_once(retriever: Retriever) -> None:
    found = retriever.search("apple pear plum fig", "recursive", max_tokens=1000)
    parents = [(hit.source, hit.parent.text) for hit in found if hit.parent]
    assert len(parents) == len({*parents}) == 4


def test_a_budget_looks_further_down_until_it_is_spent(
    client: QdrantClient, corpus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = open_target(client, corpus, "/docs", recipe())
    writer = Writer(client, target, LineChunker(), HashEmbedder(), "run")
    writer.write([document(f"{number}.md", f"pump {number}") for number in range(150)])
    finish_target(client, target)
    retriever = Retriever(client, corpus, embedder=HashEmbedder())
    asked: list[int] = []
    query_points = client.query_points

    def counted(*arguments: Any, **options: Any) -> Any:
        asked.append(options["limit"])
        return query_points(*arguments, **options)

    monkeypatch.setattr(client, "query_points", counted)
    assert len(retriever.search("pump", "recursive", max_tokens=1000)) == 150
    assert asked == [32, 128, 512]
    asked.clear()
    assert sum(count_tokens(hit.text) for hit in retriever.search("pump", "recursive", max_tokens=20)) == 20
    assert asked == [32]


def test_a_small_budget_looks_further_down_for_something_that_fits(client: QdrantClient, corpus: str) -> None:
    target = open_target(client, corpus, "/docs", recipe())
    writer = Writer(client, target, LineChunker(), HashEmbedder(), "run")
    writer.write([document(f"{number}.md", "pump " * 20 + str(number)) for number in range(40)])
    writer.write([document("small.md", "a pump " + "and so on " * 5)])
    finish_target(client, target)
    retriever = Retriever(client, corpus, embedder=HashEmbedder())
    (hit,) = retriever.search("pump", "recursive", mode="sparse", max_tokens=18)
    assert hit.source == "small.md"


@pytest.mark.parametrize("mode", MODES)
def test_a_budget_is_filled_behind_what_is_too_large_for_it(client: QdrantClient, corpus: str, mode: str) -> None:
    target = open_target(client, corpus, "/docs", recipe())
    writer = Writer(client, target, LineChunker(), HashEmbedder(), "run")
    writer.write([document(f"large-{number}.md", f"pump {number} " * 30) for number in range(40)])
    writer.write([document(f"small-{number}.md", f"pump {number} and so on, and more") for number in range(5)])
    finish_target(client, target)
    found = Retriever(client, corpus, embedder=HashEmbedder()).search("pump", "recursive", mode=mode, max_tokens=60)
    assert sorted(hit.source for hit in found) == [f"small-{number}.md" for number in range(5)]


@pytest.mark.parametrize("before", ["overwrite_payloads", "delete"])
def test_chunks_of_a_text_and_of_its_edit_are_never_merged(
    client: QdrantClient, corpus: str, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    target = open_target(client, corpus, "/docs", recipe())
    old, new = "pump alpha one\npump beta two\npump gamma", "pump beta two and more\npump alpha one\npump delta"

    class Killed(BaseException): ...

    def killed(self: Any, ids: list[str]) -> None:
        if ids:
            raise Killed

    Writer(client, target, LineChunker(), HashEmbedder(), "run").write([document("a.md", old)])
    finish_target(client, target)
    journal = read_states(client, target.collection)
    writer = Writer(client, target, LineChunker(), HashEmbedder(), "next", journal)
    with monkeypatch.context() as patch:
        patch.setattr(f"stores.points.Points.{before}", killed)
        with pytest.raises(Killed):
            writer.write([document("a.md", new)])
    found = Retriever(client, corpus, embedder=HashEmbedder()).search("pump", "recursive", max_tokens=100)
    assert len(found) > 3
    for hit in found:
        assert hit.text in (old[hit.start_char : hit.end_char], new[hit.start_char : hit.end_char])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"mode": "fuzzy"}, "mode: 'fuzzy' cannot be used; it must be one of hybrid, dense, sparse"),
        ({"limit": 0}, "limit: 0 cannot be used"),
        ({"max_tokens": 0}, "max_tokens: 0 cannot be used"),
        ({"max_tokens": 1.5}, "max_tokens: 1.5 cannot be used"),
        ({"limit": True}, "limit: True cannot be used"),
    ],
)
def test_what_cannot_be_asked_is_refused_by_name(retriever: Retriever, asked: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        retriever.search("plum", "recursive", **asked)


@pytest.mark.parametrize("mode", ["hybrid", "sparse"])
def test_a_collection_of_before_there_were_sparse_vectors_says_how_to_get_them(
    client: QdrantClient, corpus: str, stored: Target, mode: str
) -> None:
    metadata = client.get_collection(stored.collection).config.metadata or {}
    old = {name: value for name, value in metadata["recipe"].items() if name != "sparse"}
    client.update_collection(stored.collection, metadata={"recipe": {**old, "schema_version": 2}})
    retriever = Retriever(client, corpus, embedder=HashEmbedder())
    with pytest.raises(StoreError, match=rf"the search mode {mode} needs; .*--rebuild.* dense"):
        retriever.search("plum", "recursive", mode=mode)
    assert retriever.search("plum", "recursive", limit=1, mode="dense")[0].text == "plum"


def test_a_server_that_would_leave_the_weights_out_is_told_apart(
    client: QdrantClient, retriever: Retriever, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "server_version", (1, 16), raising=False)
    with pytest.raises(StoreError, match=r"hybrid needs Qdrant 1\.17, .* this server has 1\.16; .* dense and sparse"):
        retriever.search("plum", "recursive")
    assert [hit.text for hit in retriever.search("plum", "recursive", limit=1, mode="sparse")] == ["plum"]


def test_a_question_is_stemmed_as_the_documents_of_each_language_are(client: QdrantClient, corpus: str) -> None:
    target = open_target(client, corpus, "/docs", recipe())
    writer = Writer(client, target, LineChunker(), HashEmbedder(), "run")
    german, thai = document("de.md", "Kündigungen\nFristen"), document("th.md", "ยกเลิกการสมัคร")
    german.language, thai.language = "de", "th"
    writer.write([document("en.md", "memberships\nterms"), german, thai])
    finish_target(client, target)
    retriever = Retriever(client, corpus, embedder=HashEmbedder())
    assert not {*query_vector("kündigst").indices} & {*document_vector("Kündigungen", "de").indices}
    for question, text in [
        ("kündigst", "Kündigungen"),
        ("membership", "memberships"),
        ("สมัคร", "ยกเลิกการสมัคร"),
    ]:
        assert [hit.text for hit in retriever.search(question, "recursive", mode="sparse")] == [text]


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
