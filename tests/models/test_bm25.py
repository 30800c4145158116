"""BM25 vectors: ids and weights that others publish, what repetition and length do, and questions in several languages."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkers.models.bm25 import AVERAGE_LENGTH, B, K, SparseVector, document_vector, query_vector

# As the model card of Qdrant/bm25 and FastEmbed's own results give them.
PUBLISHED = {
    "stay": 1881538586,
    "study": 150760872,
    "sprint": 1932363795,
    "history": 733618285,
    "prepare": 1849833631,
    "us": 1008800696,
    "surprised": 2090661150,
    "yet": 1117393019,
}


def weights(text: str, language: str = "en") -> dict[int, float]:
    found = document_vector(text, language)
    return dict(zip(found.indices, found.values, strict=True))


@pytest.mark.parametrize("word", PUBLISHED)
def test_a_word_has_the_term_id_that_fastembed_publishes(word: str) -> None:
    assert document_vector(word, "en").indices == query_vector(word).indices == [PUBLISHED[word]]


def test_four_and_five_words_have_the_weights_that_fastembed_publishes() -> None:
    assert [*weights("stay study sprint history").values()] == pytest.approx([1.67419738] * 4, abs=1e-8)
    five = weights("History can only prepare us to be surprised yet again.")
    assert five == pytest.approx(
        {PUBLISHED[word]: 1.66973021 for word in ("history", "prepare", "us", "surprised", "yet")}, abs=1e-8
    )


def test_a_weight_is_the_formulas_for_the_count_of_a_term_and_the_length_of_its_text() -> None:
    found = weights("stay stay stay study " + "sprint " * 296)
    norm = K * (1 - B + B * 300 / AVERAGE_LENGTH)
    assert found[PUBLISHED["stay"]] == pytest.approx(3 * (K + 1) / (3 + norm))
    assert found[PUBLISHED["study"]] == pytest.approx((K + 1) / (1 + norm))


@pytest.mark.parametrize("text", ["", "  ", "!?", "the and of"])
def test_a_text_without_words_that_count_has_an_empty_vector(text: str) -> None:
    assert document_vector(text, "en") == query_vector(text) == SparseVector([], [])


def test_each_word_of_a_question_counts_once() -> None:
    found = query_vector("Stay, stay, STAY and study")
    assert dict(zip(found.indices, found.values, strict=True)) == {PUBLISHED["stay"]: 1, PUBLISHED["study"]: 1}


def test_a_question_is_stemmed_in_every_language_of_the_corpus() -> None:
    german, english = document_vector("Kündigungen", "de").indices, document_vector("histories", "en").indices
    assert {*german, *english} <= {*query_vector("Kündigungen histories", ("en", "de")).indices}


@pytest.mark.parametrize(
    ("question", "languages", "kept", "dropped"),
    [
        ("when did he die", ("en", "de"), "die", "when did he"),
        ("was kostet mich die Mitgliedschaft", ("en", "de"), "kostet Mitgliedschaft", "was mich die"),
        ("how can I cancel", ("en", "de", "es", "zh"), "cancel", "how can I"),
        ("the with", ("en", "de"), "the with", ""),  # nothing else is left
        ("die cast", ("en", "de"), "die cast", ""),  # one stop word is not enough
        ("health care plan", ("en", "ro"), "health care plan", ""),
        ("men under pressure", ("en", "sv"), "men pressure", "under"),
    ],
)
def test_stop_words_are_those_of_the_language_that_a_question_seems_to_be_in(
    question: str, languages: tuple[str, ...], kept: str, dropped: str
) -> None:
    found = {*query_vector(question, languages).indices}
    for word in kept.split():
        assert any({*document_vector(word, language).indices} & found for language in languages), word
    for word in dropped.split():
        assert not found & {*document_vector(word, "xx").indices}, word


def test_a_question_finds_the_words_of_a_document_of_any_language_of_the_corpus() -> None:
    for text, language, question in [
        ("Die Mitgliedschaft wird gekündigt.", "de", "Mitgliedschaften kündigen"),
        ("工具的借期是七天", "zh", "借期多长"),
        ("ยกเลิกการสมัครสมาชิก", "th", "สมัครสมาชิก"),
        ("図書館の利用時間", "ja", "利用時間は？"),
        ("réservations annulées", "fr", "annuler une réservation"),
    ]:
        asked = query_vector(question, ("en", "de", "zh", "th", "ja", "fr"))
        assert {*asked.indices} & {*document_vector(text, language).indices}, text


@given(st.text(max_size=300), st.sampled_from(["en", "de", "zh", "xx"]))
def test_a_vector_has_each_id_once_in_32_bits_and_weights_between_0_and_k_and_1(text: str, language: str) -> None:
    found = document_vector(text, language)
    assert len({*found.indices}) == len(found.indices) == len(found.values)
    assert all(0 <= id_ < 2**32 for id_ in found.indices)
    assert all(math.isfinite(value) and 0 < value < K + 1 for value in found.values)


@given(st.text(max_size=300), st.sampled_from(["en", "de", "zh", "xx"]))
def test_a_text_as_a_question_asks_for_no_term_that_the_text_lacks(text: str, language: str) -> None:
    assert {*query_vector(text, (language,)).indices} == {*document_vector(text, language).indices}
