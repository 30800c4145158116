"""The strategy `semantic`: where the likeness of neighbours makes a boundary, and what it does with models that misbehave."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest

from chunkers import Document, ModelError, build_chunker, chunk, chunk_document, similarity
from chunkers.models.base import Vectors
from chunkers.similarity import adjacent_cosines, boundaries
from tests.doubles import HashEmbedder


class AngleEmbedder(HashEmbedder):
    """A vector of the angle that is the first number in a text, in degrees; texts without a number get a zero vector."""

    dimensions = 2
    semantic_threshold = 0.5

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[int] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        self.calls.append(len(texts))
        angles = [next((float(word) for word in text.split() if word.isdigit()), None) for text in texts]
        return np.array(
            [(0, 0) if angle is None else (np.cos(np.radians(angle)), np.sin(np.radians(angle))) for angle in angles],
            dtype=np.float32,
        )


def text_of(*angles: int | str) -> str:
    return " ".join(f"Angle {angle} here." for angle in angles)


def semantic(text: str, *, size: int = 512, minimum: int = 1, **more: object) -> list[str]:
    embedder = more.pop("embedder", None) or AngleEmbedder()
    return [
        c.text
        for c in chunk(text, "semantic", embedder=embedder, chunk_size=size, semantic_min_chunk_size=minimum, **more)
    ]


def test_a_cosine_under_the_threshold_is_a_boundary() -> None:
    text = text_of(0, 10, 100, 110)
    assert semantic(text, semantic_threshold=0.5) == [text_of(0, 10), text_of(100, 110)]


def test_a_cosine_at_the_threshold_is_no_boundary() -> None:
    assert boundaries(np.array([0.5, 0.49, 0.51]), 0.5, "absolute").tolist() == [False, True, False]


def test_an_unset_threshold_is_the_models_own() -> None:
    assert semantic(text_of(0, 59)) == [text_of(0, 59)]
    assert semantic(text_of(0, 61)) == [text_of(0), text_of(61)]


def test_a_percentile_is_of_the_documents_own_cosines() -> None:
    text = text_of(0, 1, 2, 8, 9, 10)
    assert semantic(text, semantic_threshold_mode="percentile", semantic_threshold=20) == [
        text_of(0, 1, 2),
        text_of(8, 9, 10),
    ]
    assert semantic(text, semantic_threshold_mode="percentile", semantic_threshold=0) == [text]


def test_an_unset_percentile_is_25() -> None:
    chunker = build_chunker("semantic", embedder=AngleEmbedder(), semantic_threshold_mode="percentile")
    assert chunker.parameters["semantic_threshold"] == 25.0


def test_no_cut_before_the_minimum_of_sentences() -> None:
    text = text_of(0, 90, 180, 270, 0)
    assert semantic(text, minimum=2) == [text_of(0, 90), text_of(180, 270, 0)]
    assert semantic(text, minimum=1) == [text_of(angle) for angle in (0, 90, 180, 270, 0)]


def test_a_last_group_under_the_minimum_joins_the_one_before() -> None:
    assert semantic(text_of(0, 0, 0, 90), minimum=3) == [text_of(0, 0, 0, 90)]


def test_a_last_group_under_the_minimum_stays_alone_where_both_do_not_fit() -> None:
    assert semantic(text_of(0, 0, 0, 90), minimum=3, size=16) == [text_of(0, 0, 0), text_of(90)]


def test_the_cap_beats_the_minimum() -> None:
    assert semantic(text_of(0, 0, 0, 0), minimum=5, size=10) == [text_of(0, 0), text_of(0, 0)]


def test_identical_sentences_are_cut_by_the_cap_alone() -> None:
    text = text_of(*[7] * 20)
    for mode in ("absolute", "percentile"):
        assert semantic(text, semantic_threshold_mode=mode, size=26) == [text_of(*[7] * 5)] * 4


@pytest.mark.parametrize("text", ["One sentence.", "# Heading only", "- item"])
def test_one_unit_is_one_chunk_and_embeds_nothing(text: str) -> None:
    embedder = AngleEmbedder()
    assert semantic(text, embedder=embedder, semantic_threshold_mode="percentile") == [text]
    assert embedder.texts == []


def test_no_more_units_than_the_minimum_embed_nothing() -> None:
    embedder = AngleEmbedder()
    assert semantic(text_of(0, 90, 180), minimum=3, embedder=embedder) == [text_of(0, 90, 180)]
    assert embedder.texts == []


def test_a_zero_vector_is_like_nothing() -> None:
    document = Document(text=text_of(0, "none", "none", 90))
    units = [[span] for span in document.analysis.sentences(0, len(document.text))]
    assert adjacent_cosines(AngleEmbedder(), [document], [units])[0].tolist() == [0, 0, 0]
    assert semantic(text_of(0, "none", 0)) == [text_of(0), text_of("none"), text_of(0)]


def test_cosines_of_fewer_than_two_vectors_are_none() -> None:
    documents = [Document(text=text_of(0)), Document(text=""), Document(text=text_of(0, 0))]
    units = [[[span] for span in one.analysis.sentences(0, len(one.text))] for one in documents]
    assert [len(found) for found in adjacent_cosines(AngleEmbedder(), documents, units)] == [0, 0, 1]
    assert boundaries(np.zeros(0), 50.0, "percentile").shape == (0,)


def test_sentences_apart_by_newlines_and_tabs_stay_slices() -> None:
    text = "Angle 0 here.\n\n\tAngle 1 here.\n\n\t\tAngle 2 here."
    assert semantic(text) == [text]


def test_documents_of_a_batch_are_embedded_together() -> None:
    embedder = AngleEmbedder()
    documents = [Document(uri=f"{n}.md", text=text_of(n, n + 90, n)) for n in range(5)]
    documents.insert(2, Document(uri="empty.md"))
    documents.insert(4, Document(uri="blank.md", text=" \n\t"))
    results = build_chunker("semantic", embedder=embedder, semantic_min_chunk_size=1).chunk(documents)
    assert embedder.calls == [15]
    assert [result.document for result in results] == documents
    assert [len(result.chunks) for result in results] == [3, 3, 0, 3, 0, 3, 3]
    assert [c.text for c in results[-1].chunks] == [text_of(4), text_of(94), text_of(4)]


def test_calls_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "WINDOW", 10)
    embedder = AngleEmbedder()
    assert len(semantic(text_of(*range(0, 25)), embedder=embedder)) == 1
    assert embedder.calls == [10, 10, 5]


def test_a_boundary_between_two_calls_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "WINDOW", 2)
    assert semantic(text_of(0, 0, 90, 90)) == [text_of(0, 0), text_of(90, 90)]


@pytest.mark.parametrize("window", [1, 2, 3, 100])
def test_a_unit_of_several_parts_has_the_mean_of_their_vectors(window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(similarity, "WINDOW", window)
    document = Document(text=text_of(0, 90, 45, 135, 0, 0))
    spans = document.analysis.sentences(0, len(document.text))
    embedder = AngleEmbedder()
    (found,) = adjacent_cosines(embedder, [document], [[spans[:2], spans[2:3], spans[3:5], spans[5:]]])
    expected = [1, np.cos(np.radians(22.5)), np.cos(np.radians(67.5))]
    assert found == pytest.approx(expected, abs=1e-6)
    assert max(embedder.calls) <= window


@pytest.mark.parametrize("strategy", ["semantic", "semantic_parent_child"])
def test_vectors_of_a_long_document_are_not_all_in_memory(strategy: str) -> None:
    class Wide(HashEmbedder):
        dimensions = 1536

        def embed(self, texts: Sequence[str]) -> Vectors:
            vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
            vectors[:, 0] = 1
            return vectors

    document = Document(text="\n\n".join(f"Sentence {number} is here." for number in range(20_000)))
    chunk(document, "fixed_size")
    tracemalloc.start()
    try:
        chunk_document(document, strategy, embedder=Wide())
        # All vectors at once are 123 MB, and their double precision twice that.
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


def test_the_units_of_over_long_sentences_are_within_the_cap() -> None:
    embedder = AngleEmbedder()
    semantic("word " * 3000, size=100, embedder=embedder)
    assert len(embedder.texts) == 30
    assert max(len(text) for text in embedder.texts) == 499


def test_an_error_of_the_embedder_passes_through() -> None:
    class Failing(AngleEmbedder):
        def embed(self, texts: Sequence[str]) -> Vectors:
            raise ModelError("no answer", fatal=True)

    with pytest.raises(ModelError, match="no answer") as raised:
        semantic(text_of(0, 90), embedder=Failing())
    assert raised.value.fatal


@pytest.mark.parametrize("wrong", [slice(0, -1), slice(0, 1), slice(0, 0)])
def test_too_few_vectors_are_an_error(wrong: slice) -> None:
    class Short(AngleEmbedder):
        def embed(self, texts: Sequence[str]) -> Vectors:
            return super().embed(texts)[wrong]

    with pytest.raises(ModelError, match=r"hash was asked for 3 vectors of 2 numbers and gave an array of shape"):
        semantic(text_of(0, 90, 0), embedder=Short())


def test_a_vector_that_is_no_number_is_an_error() -> None:
    class Undefined(AngleEmbedder):
        def embed(self, texts: Sequence[str]) -> Vectors:
            return super().embed(texts) * np.float32("nan")

    with pytest.raises(ModelError, match="NaN"):
        semantic(text_of(0, 90), embedder=Undefined())


@pytest.mark.parametrize("strategy", ["semantic", "semantic_parent_child"])
def test_vectors_that_are_the_same_are_at_a_threshold_of_one(strategy: str) -> None:
    class Same(HashEmbedder):
        dimensions = 3

        def embed(self, texts: Sequence[str]) -> Vectors:
            return np.tile(
                np.float32([-0.27559539675712585, -0.8621129989624023, -0.42521563172340393]), (len(texts), 1)
            )

    text = "\n\n".join(f"Paragraph {number} of them." for number in range(12))
    chunks, parents = chunk_document(Document(text=text), strategy, embedder=Same(), semantic_threshold=1.0)
    assert len(parents or chunks) == 1


@pytest.mark.parametrize("answer", [None, [None, None, None], [[1.0], [1.0, 2.0], [1.0]], "vectors"])
def test_what_is_no_array_of_vectors_is_an_error_of_the_model(answer: object) -> None:
    class Odd(AngleEmbedder):
        def embed(self, texts: Sequence[str]) -> Vectors:
            return answer  # type: ignore[return-value]

    with pytest.raises(ModelError, match="hash was asked for 3 vectors"):
        semantic(text_of(0, 90, 0), embedder=Odd())
