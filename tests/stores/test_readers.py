"""Others read what we store: plain qdrant-client, LangChain and LlamaIndex, and questions that FastEmbed or Qdrant make of words.

The libraries are those of the extra `readers`; CI installs them for the suites marked slow.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from chunkers.models import open_embedder
from chunkers.models.bm25 import document_vector, query_vector
from chunkers.models.words import SNOWBALL, stop_words
from stores import Retriever, connect
from tests.flows.conftest import ingest

CORPUS = Path(__file__).parent.parent / "corpus"
ALIAS = "corpus__recursive"
QUESTION = "How do I cancel my subscription?"
ANSWER = "In the app: Profile > Subscription > End."
LANGUAGES = ("de", "en", "es", "zh")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QdrantClient]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUARRY_HOME", str(tmp_path_factory.mktemp("home")))
        assert ingest(CORPUS, "recursive").exit_status == 0
        with connect() as client:
            yield client


def embed(text: str) -> list[float]:
    return open_embedder("wordllama").embed([text])[0].tolist()  # type: ignore[no-any-return]


def our_order(client: QdrantClient, mode: str) -> list[str]:
    return [hit.text for hit in Retriever(client, "corpus").search(QUESTION, "recursive", mode=mode)]


def test_the_languages_of_the_corpus_are_those_that_a_reader_is_told(stored: QdrantClient) -> None:
    metadata = stored.get_collection(ALIAS).config.metadata or {}
    assert {f"language:{language}" for language in LANGUAGES} <= metadata.keys()


def test_plain_qdrant_client_searches_dense_sparse_and_both(stored: QdrantClient) -> None:
    dense = stored.query_points(ALIAS, query=embed(QUESTION), limit=5).points
    found = query_vector(QUESTION, LANGUAGES)
    words = models.SparseVector(indices=found.indices, values=found.values)
    sparse = stored.query_points(ALIAS, query=words, using="bm25", limit=5).points
    both = stored.query_points(
        ALIAS,
        prefetch=[
            models.Prefetch(query=embed(QUESTION), limit=50),
            models.Prefetch(query=words, using="bm25", limit=50),
        ],
        query=models.RrfQuery(rrf=models.Rrf(k=5, weights=[0.5, 1.0])),
        limit=5,
    ).points
    for mode, points in (("dense", dense), ("sparse", sparse), ("hybrid", both)):
        assert [(point.payload or {})["text"] for point in points] == our_order(stored, mode)
        assert ANSWER in (points[0].payload or {})["text"]


@pytest.mark.parametrize("mode", ["dense", "sparse", "hybrid"])
def test_langchain_reads_text_metadata_and_ranking(stored: QdrantClient, mode: str) -> None:
    embeddings = pytest.importorskip("langchain_core.embeddings")
    qdrant = pytest.importorskip("langchain_qdrant")

    class Builtin(embeddings.Embeddings):  # type: ignore[misc, name-defined]
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [embed(text) for text in texts]

        def embed_query(self, text: str) -> list[float]:
            return embed(text)

    class Words(qdrant.SparseEmbeddings):  # type: ignore[misc, name-defined]
        def embed_documents(self, texts: list[str]) -> list[Any]:
            return [self.embed_query(text) for text in texts]

        def embed_query(self, text: str) -> Any:
            found = query_vector(text, LANGUAGES)
            return qdrant.sparse_embeddings.SparseVector(indices=found.indices, values=found.values)

    store = qdrant.QdrantVectorStore(
        stored,
        ALIAS,
        embedding=Builtin(),
        sparse_embedding=Words(),
        sparse_vector_name="bm25",
        retrieval_mode=qdrant.RetrievalMode(mode),
        content_payload_key="text",
    )
    found = store.similarity_search(QUESTION, k=5)
    assert ANSWER in found[0].page_content
    assert found[0].metadata["source"] == "product/subscription-faq.md"
    if mode != "hybrid":  # which fuses with weights of its own
        assert [document.page_content for document in found] == our_order(stored, mode)
    only = models.FieldCondition(key="metadata.source", match=models.MatchValue(value="product/subscription-faq.md"))
    found = store.similarity_search("What is a box?", k=5, filter=models.Filter(must=[only]))
    assert {document.metadata["source"] for document in found} == {only.match.value}  # type: ignore[union-attr]


@pytest.mark.parametrize("mode", ["default", "hybrid"])
def test_llamaindex_reads_text_and_metadata(stored: QdrantClient, mode: str) -> None:
    core = pytest.importorskip("llama_index.core")
    base = pytest.importorskip("llama_index.core.embeddings")
    qdrant = pytest.importorskip("llama_index.vector_stores.qdrant")

    class Builtin(base.BaseEmbedding):  # type: ignore[misc, name-defined]
        def _get_text_embedding(self, text: str) -> list[float]:
            return embed(text)

        def _get_query_embedding(self, query: str) -> list[float]:
            return embed(query)

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return embed(query)

    def words(texts: Sequence[str]) -> tuple[list[list[int]], list[list[float]]]:
        found = [query_vector(text, LANGUAGES) for text in texts]
        return [one.indices for one in found], [one.values for one in found]

    asked = {"enable_hybrid": True, "dense_vector_name": "", "sparse_vector_name": "bm25"}
    functions = {"sparse_query_fn": words, "sparse_doc_fn": words}
    options: dict[str, Any] = {**asked, **functions} if mode == "hybrid" else {}
    store = qdrant.QdrantVectorStore(client=stored, collection_name=ALIAS, **options)
    index = core.VectorStoreIndex.from_vector_store(store, embed_model=Builtin())
    nodes = index.as_retriever(similarity_top_k=3, sparse_top_k=10, vector_store_query_mode=mode).retrieve(QUESTION)
    assert ANSWER in nodes[0].text
    if mode == "default":
        assert [node.text for node in nodes] == our_order(stored, "dense")[:3]
    assert nodes[0].metadata["metadata"]["source"] == "product/subscription-faq.md"


def english_texts() -> list[str]:
    paths = sorted(path for path in CORPUS.rglob("*.*") if path.suffix in (".md", ".txt"))
    texts = [path.read_text(encoding="utf-8") for path in paths if path.parent.name != "languages"]
    # What they differ on among themselves: names with underscores, and signs that only mark the character before them.
    return [
        text[at : at + 1_500].replace("_", " ").replace("\ufe0f", "")
        for text in texts
        for at in range(0, len(text), 1_500)
    ]


def fastembed(folder: Path) -> Any:
    """FastEmbed's model, whose files are lists of stop words, with ours: they come from a hub that tests do not ask."""
    bm25 = pytest.importorskip("fastembed.sparse.bm25")
    for code, name in SNOWBALL.items():
        (folder / f"{name}.txt").write_text("\n".join(sorted(stop_words(code))), encoding="utf-8")
    (folder / "config.json").write_text("{}")
    return bm25.Bm25("Qdrant/bm25", specific_model_path=str(folder))


def test_english_vectors_are_those_of_fastembed(tmp_path: Path) -> None:
    model = fastembed(tmp_path)
    texts = english_texts()
    for text, theirs in zip(texts, model.embed(texts), strict=True):
        ours = document_vector(text, "en")
        assert dict(zip(ours.indices, ours.values, strict=True)) == pytest.approx(
            dict(zip(theirs.indices.tolist(), theirs.values.tolist(), strict=True)), abs=1e-9
        )
    for question in (json.loads(line)["question"] for line in (CORPUS / "questions.jsonl").read_text().splitlines()):
        (asked,) = model.query_embed(question)
        if question.isascii():
            assert {*query_vector(question).indices} == {*asked.indices.tolist()}, question


def test_english_vectors_are_those_that_the_server_would_make() -> None:
    edge = pytest.importorskip("qdrant_edge")
    model = edge.Bm25()
    for text in english_texts():
        ours, theirs = document_vector(text, "en"), model.embed_document(text)
        assert dict(zip(ours.indices, ours.values, strict=True)) == pytest.approx(
            dict(zip(theirs.indices, theirs.values, strict=True)), abs=1e-6
        )


@pytest.mark.parametrize("language", sorted(SNOWBALL.keys() - {"ta"}))
def test_stop_words_are_those_that_the_server_takes_out(language: str) -> None:
    edge = pytest.importorskip("qdrant_edge")
    model = edge.Bm25(edge.Bm25Config(language=SNOWBALL[language]))
    kept = [word for word in stop_words(language) if word.isalpha() and len(model.embed_query(word).indices)]
    # Some Arabic ones are written there without their hamza.
    assert len(kept) <= (5 if language == "ar" else 0), kept
