"""Semantic grouping where other tools fail: too few units, units that are all alike, models that misbehave, blank texts, long documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from chunkers import STRATEGIES, Document, ModelError, build_chunker, chunk, chunk_document, similarity
from chunkers.encoding import count_tokens
from chunkers.models.base import Vectors
from tests.chunkers.cases import SEMANTIC
from tests.chunkers.conftest import EchoWriter
from tests.chunkers.test_semantic import AngleEmbedder
from tests.doubles import HashEmbedder

MODES = ["absolute", "percentile"]


def groups(strategy: str, *angles: int, embedder: HashEmbedder | None = None, **parameters: Any) -> list[str]:
    """The groups of sentences (as paragraphs) that are about these angles: chunks, or parents where there are any."""
    text = "\n\n".join(f"Angle {angle} here." for angle in angles)
    if strategy == "semantic":
        parameters = {"semantic_min_chunk_size": 1, **parameters}
    chunks, parents = chunk_document(Document(text=text), strategy, embedder=embedder or AngleEmbedder(), **parameters)
    return [slice_.text for slice_ in parents or chunks]


def group(*angles: int) -> str:
    return "\n\n".join(f"Angle {angle} here." for angle in angles)


@pytest.mark.parametrize("strategy", SEMANTIC)
@pytest.mark.parametrize("mode", MODES)
def test_one_unit_is_one_group(strategy: str, mode: str) -> None:
    assert groups(strategy, 7, semantic_threshold_mode=mode) == [group(7)]


@pytest.mark.parametrize("strategy", SEMANTIC)
@pytest.mark.parametrize("percentile", [0, 50, 100])
def test_the_only_cosine_is_under_no_percentile_of_itself(strategy: str, percentile: int) -> None:
    found = groups(strategy, 0, 180, semantic_threshold_mode="percentile", semantic_threshold=percentile)
    assert found == [group(0, 180)]


@pytest.mark.parametrize("strategy", SEMANTIC)
def test_two_units_that_are_not_alike_are_two_groups(strategy: str) -> None:
    assert groups(strategy, 0, 90) == [group(0), group(90)]
    assert groups(strategy, 0, 30) == [group(0, 30)]


@pytest.mark.parametrize("strategy", SEMANTIC)
@pytest.mark.parametrize("mode", MODES)
def test_units_that_are_all_alike_are_one_group(strategy: str, mode: str) -> None:
    assert groups(strategy, *[7] * 20, semantic_threshold_mode=mode) == [group(*[7] * 20)]


@pytest.mark.parametrize("mode", MODES)
def test_paragraphs_that_are_all_alike_are_parted_by_the_parents_cap_alone(mode: str) -> None:
    size = count_tokens(group(*[7] * 5))
    parameters = {"semantic_threshold_mode": mode, "chunk_size": size, "parent_max_tokens": size}
    assert groups("semantic_parent_child", *[7] * 20, **parameters) == [group(*[7] * 5)] * 4


@pytest.mark.parametrize("strategy", SEMANTIC)
@pytest.mark.parametrize("mode", MODES)
def test_units_without_a_direction_are_no_error(strategy: str, mode: str) -> None:
    class Zero(AngleEmbedder):
        def embed(self, texts: Sequence[str]) -> Vectors:
            return super().embed(texts) * 0

    expected = [group(n) for n in range(4)] if mode == "absolute" else [group(*range(4))]
    assert groups(strategy, *range(4), embedder=Zero(), semantic_threshold_mode=mode) == expected


def wrong(vectors: Vectors, fault: str) -> Any:
    return {
        "one too few": vectors[:-1],
        "one too many": np.concatenate((vectors, vectors[:1])),
        "none": vectors[:0],
        "other dimensions": vectors[:, :1],
        "one for all": vectors[0],
        "transposed": vectors.T,
        "infinite": np.full_like(vectors, np.inf),
        "lists": vectors[:-1].tolist(),
    }[fault]


@pytest.mark.parametrize("strategy", SEMANTIC)
@pytest.mark.parametrize(
    "fault",
    ["one too few", "one too many", "none", "other dimensions", "one for all", "transposed", "infinite", "lists"],
)
def test_other_vectors_than_asked_for_are_an_error_that_says_so(strategy: str, fault: str) -> None:
    class Faulty(AngleEmbedder):
        def embed(self, texts: Sequence[str]) -> Any:
            return wrong(super().embed(texts), fault)

    with pytest.raises(ModelError, match="hash was asked for 3 vectors of 2 numbers and gave an array of shape"):
        groups(strategy, 0, 90, 0, embedder=Faulty())


@pytest.mark.parametrize("strategy", SEMANTIC)
def test_too_few_vectors_in_a_later_call_are_an_error(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Tiring(AngleEmbedder):
        def embed(self, texts: Sequence[str]) -> Vectors:
            vectors = super().embed(texts)
            return vectors[:-1] if len(self.calls) == 3 else vectors

    monkeypatch.setattr(similarity, "WINDOW", 2)
    with pytest.raises(ModelError, match="asked for 2 vectors of 2 numbers"):
        groups(strategy, *range(6), embedder=Tiring())


BLANK = ["", "  \n ", "\t", "\u00a0\u3000", "\r\n\r\n", "\u2028\x1c"]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_blank_documents_in_a_batch_have_no_chunks_and_stop_nothing(strategy: str) -> None:
    embedder = HashEmbedder()
    chunker = build_chunker(strategy, embedder=embedder, context_writer=EchoWriter())
    texts = ["First real one.\n\nWith more."] + [text for blank in BLANK for text in (blank, "Real one.\n\nAnd more.")]
    results = chunker.chunk([Document(uri=f"{n}", text=text) for n, text in enumerate(texts)])
    assert [bool(result.chunks) for result in results] == [bool(text.strip()) for text in texts]
    assert all(text.strip() for text in embedder.texts)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_blank_stretches_inside_a_document_are_never_embedded(strategy: str) -> None:
    embedder = HashEmbedder()
    text = ("One here." + "\n \t\n" * 50 + "Two here." + "\u3000" * 400 + "\n\n- \n\n> \n\n") * 4
    chunks = chunk(text, strategy, embedder=embedder, context_writer=EchoWriter(), chunk_size=16)
    assert all(c.text.strip() for c in chunks)
    assert all(text.strip() for text in embedder.texts)


@pytest.mark.parametrize("strategy", SEMANTIC)
@pytest.mark.parametrize(
    "text", ["word " * 14_000, "今天天气很好" * 2_000, "key: value\n" * 4_000, "```\n" + "x = 1\n" * 4_000]
)
def test_no_text_over_the_chunk_size_is_sent_to_the_model(strategy: str, text: str) -> None:
    embedder = HashEmbedder()
    chunk_document(Document(text=f"One here.\n\n{text}\n\nTwo here."), strategy, embedder=embedder, chunk_size=256)
    assert len(embedder.texts) > 40
    assert max(map(count_tokens, embedder.texts)) <= 256


@pytest.mark.parametrize("strategy", SEMANTIC)
def test_many_units_are_embedded_a_window_at_a_time(strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "WINDOW", 10)
    embedder = AngleEmbedder()
    assert groups(strategy, *[0] * 25, embedder=embedder) == [group(*[0] * 25)]
    assert embedder.calls == [10, 10, 5]
