"""The built-in embedder, with its real weights: they are inside its wheel."""

from __future__ import annotations

import logging
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkers.errors import ModelError
from chunkers.models import wordllama_embedder
from chunkers.models.base import Embedder
from chunkers.models.wordllama_embedder import WordllamaEmbedder

EMBEDDER = WordllamaEmbedder()
TEXTS = ["The cat sat on the mat.", "A kitten rests on a rug.", "Quarterly tax returns are due in May."]


def test_it_plays_the_role() -> None:
    assert isinstance(EMBEDDER, Embedder)
    assert (EMBEDDER.name, EMBEDDER.dimensions, EMBEDDER.max_input_tokens) == ("wordllama", 256, None)


def test_texts_of_like_meaning_are_nearer() -> None:
    cat, kitten, tax = EMBEDDER.embed(TEXTS)
    assert cat @ kitten > cat @ tax + 0.2


def test_vectors_are_those_of_the_package_itself() -> None:
    wordllama = wordllama_embedder._import_quietly()
    own = wordllama.WordLlama.load(disable_download=True, cache_dir=wordllama_embedder.Path(wordllama.__file__).parent)
    np.testing.assert_allclose(EMBEDDER.embed(TEXTS), own.embed(TEXTS, norm=True), atol=1e-6)


def test_no_texts_are_no_vectors() -> None:
    assert EMBEDDER.embed([]).shape == (0, 256)


@pytest.mark.parametrize("blank", ["", " ", "\n\t\u3000"])
def test_a_blank_text_is_refused(blank: str) -> None:
    with pytest.raises(ValueError, match="text 1 of 2 is blank"):
        EMBEDDER.embed(["text", blank])


@pytest.mark.parametrize("text", ["\x00", "\x01\x02", "\u200b", "\ufeff", "</s>", "<s>", "<unk>", "\ud800", "🏳️‍🌈", "-"])
def test_an_odd_text_has_a_unit_vector(text: str) -> None:
    (vector,) = EMBEDDER.embed([text])
    assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(min_size=1).filter(str.strip), min_size=1, max_size=20))
def test_every_text_has_a_finite_unit_vector_of_its_own(texts: list[str]) -> None:
    vectors = EMBEDDER.embed(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    for text, vector in zip(texts, vectors, strict=True):
        np.testing.assert_array_equal(EMBEDDER.embed([text])[0], vector)


def test_a_special_token_in_a_text_is_ordinary_text() -> None:
    assert EMBEDDER.count_tokens("</s>") > 1


def test_tokens_are_counted() -> None:
    assert [EMBEDDER.count_tokens(text) for text in ("", "hello", "hello world")] == [0, 1, 2]


def test_a_very_long_text_takes_bounded_memory() -> None:
    EMBEDDER.embed(["loaded"])
    texts = ["word " * 200_000, *(f"short {number}" for number in range(63))]
    tracemalloc.start()
    EMBEDDER.embed(texts)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 50_000_000


@pytest.mark.parametrize(
    ("lengths", "batches"),
    [
        ([1] * 256, [(0, 256)]),
        ([1] * 257, [(0, 256), (256, 257)]),
        ([600_000, 400_000, 1], [(0, 2), (2, 3)]),
        ([3_000_000, 3_000_000, 1, 1], [(0, 1), (1, 2), (2, 4)]),
    ],
)
def test_what_is_tokenised_together_is_bounded(lengths: list[int], batches: list[tuple[int, int]]) -> None:
    texts = ["x" * length for length in lengths]
    assert [(batch.start, batch.stop) for batch in wordllama_embedder._batches(texts)] == batches


def test_threads_get_what_one_thread_gets() -> None:
    batches = [[f"text {batch} " + "and more " * (number % 17) for number in range(100)] for batch in range(16)]
    alone = [EMBEDDER.embed(batch) for batch in batches]
    with ThreadPoolExecutor(8) as pool:
        for expected, vectors in zip(alone, pool.map(EMBEDDER.embed, batches), strict=True):
            np.testing.assert_array_equal(vectors, expected)


def test_weights_are_loaded_once_for_all_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[object] = []
    load = wordllama_embedder._load

    def counted() -> wordllama_embedder._Model:
        loads.append(1)
        return load()

    monkeypatch.setattr(wordllama_embedder, "_loaded", None)
    monkeypatch.setattr(wordllama_embedder, "_load", counted)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda text: WordllamaEmbedder().embed([text]), TEXTS * 4))
    assert len(loads) == 1


def test_tokens_that_cancel_out_are_an_error_and_no_nan(monkeypatch: pytest.MonkeyPatch) -> None:
    model = wordllama_embedder._model()
    nothing = wordllama_embedder._Model(np.zeros_like(model.table), model.tokenizer)
    monkeypatch.setattr(wordllama_embedder, "_loaded", nothing)
    with pytest.raises(ModelError, match="no vector for text 0"):
        EMBEDDER.embed(["text"])


def test_missing_weights_are_an_error_that_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(**options: object) -> None:
        raise FileNotFoundError("weights")

    wordllama = wordllama_embedder._import_quietly()
    monkeypatch.setattr(wordllama.WordLlama, "load", missing)
    with pytest.raises(ModelError, match="wordllama's weights are missing") as caught:
        wordllama_embedder._load()
    assert caught.value.fatal


def test_loading_leaves_the_root_logger_alone() -> None:
    code = (
        "import logging; from chunkers.models.wordllama_embedder import WordllamaEmbedder;"
        "WordllamaEmbedder().embed(['text']); root = logging.getLogger(); print(root.handlers, root.level)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == f"[] {logging.WARNING}"
