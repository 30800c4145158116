"""Offsets where other tools lose them: equal texts, overlaps, characters of many bytes, odd white space."""

from __future__ import annotations

from itertools import pairwise

import pytest

from chunkers import STRATEGIES, Document, chunk, chunk_document
from chunkers.encoding import count_tokens
from tests.chunkers.cases import STRUCTURED, WINDOWS, chunked, chunks_of, places_of, texts_of
from tests.doubles import HashEmbedder


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("separator", ["\n", "\n\n", "\r\n"])
def test_equal_lines_have_places_of_their_own(strategy: str, separator: str) -> None:
    line = "thirty characters in this line"
    step = len(line + separator)
    found = places_of(separator.join([line] * 50), strategy, count_tokens(line + separator))
    assert found == [(n * step, line) for n in range(50)]


@pytest.mark.parametrize("strategy", STRUCTURED)
def test_equal_sentences_in_one_line_have_places_of_their_own(strategy: str) -> None:
    sentence = "The same sentence is here again."
    two = f"{sentence} {sentence}"
    size = count_tokens(sentence) * 5 // 2
    assert places_of(f"{two} {two} {two}", strategy, size) == [(n * (len(two) + 1), two) for n in range(3)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_equal_words_in_one_line_have_places_of_their_own(strategy: str) -> None:
    assert places_of("ab ab ab ab", strategy, 1) == [(0, "ab"), (3, "ab"), (6, "ab"), (9, "ab")]


def test_a_chunk_that_is_part_of_an_earlier_one_has_a_place_of_its_own() -> None:
    chunks = chunk("ab ab ab ab", "recursive", recursive_chunk_chars=2)
    assert [(c.start_char, c.end_char) for c in chunks] == [(0, 2), (3, 5), (6, 8), (9, 11)]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_equal_lines_among_others_have_places_of_their_own(strategy: str) -> None:
    assert places_of("Note.\nX\nNote.\nY", strategy, 2) == [(0, "Note."), (6, "X"), (8, "Note."), (14, "Y")]


def test_equal_parents_have_places_of_their_own() -> None:
    text = "\n\n".join(["Some words."] * 6)
    models = {"embedder": HashEmbedder(), "chunk_size": 3, "parent_max_tokens": 7}
    _, parents = chunk_document(Document(text=text), "semantic_parent_child", **models)
    assert [(parent.start_char, parent.text) for parent in parents] == [
        (start, "Some words.\n\nSome words.") for start in (0, 26, 52)
    ]


@pytest.mark.parametrize("strategy", WINDOWS)
def test_windows_that_overlap_across_paragraphs_are_slices_at_their_places(strategy: str) -> None:
    text = "First paragraph has a few plain words in it.\n\nSecond paragraph has a few more words in it."
    found = [(c.start_char, c.text) for c in chunks_of(text, strategy, 8, 3)]
    assert found == [
        (0, "First paragraph has a few plain words in"),
        (25, " plain words in it.\n\nSecond paragraph has"),
        (46, "Second paragraph has a few more words in"),
        (72, " more words in it."),
    ]


@pytest.mark.parametrize("strategy", WINDOWS)
def test_an_overlap_of_one_token_is_one_token_in_every_window(strategy: str) -> None:
    text = " ".join(f"Sentence {n} is short." for n in range(40))
    chunks = chunks_of(text, strategy, 12, 1)
    assert len(chunks) == 22
    for left, right in pairwise(chunks):
        assert text[left.start_char : left.end_char] == left.text
        assert count_tokens(text[right.start_char : left.end_char]) == 1


def test_an_overlap_of_one_sentence_is_one_sentence_in_every_chunk() -> None:
    sentences = [f"Sentence {n} is short." for n in range(40)]
    size = max(count_tokens(" ".join(sentences[n : n + 3])) for n in range(38))
    chunks = chunks_of(" ".join(sentences), "sentence", size, 1)
    assert [c.text for c in chunks[:-1]] == [" ".join(sentences[n : n + 3]) for n in range(0, 38, 2)]
    assert [c.start_char for c in chunks[:-1]] == [len(" ".join([*sentences[:n], ""])) for n in range(0, 38, 2)]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("before", ["🚀🇩🇪", "𝒜𝒷", "e\u0301ë", "\ufeff", "\r\n", "ﬁ½", "İ", "\u200b"])
def test_offsets_count_code_points_as_they_stand(strategy: str, before: str) -> None:
    text = f"{before} one two. Three four here."
    assert places_of(text, strategy, count_tokens(f"{before} one two."))[-1] == (len(before) + 10, "Three four here.")


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "semantic_parent_child"])
@pytest.mark.parametrize("gap", ["\n\n", "\n\n\t", "\r\n\r\n", " \t ", "\u00a0\u3000", "\n\n\n\n", "\u2028"])
def test_white_space_between_sentences_stays_as_it_is(strategy: str, gap: str) -> None:
    text = gap.join(["One sentence here.", "Two sentences here.", "Three sentences here."])
    assert texts_of(text, strategy) == [text]


@pytest.mark.parametrize("gap", ["\n\n", "\n\n\t", "\r\n\r\n", "\n\n\n\n"])
def test_white_space_between_paragraphs_stays_as_it_is_in_a_parent(gap: str) -> None:
    text = gap.join(["One sentence here.", "Two sentences here.", "Three sentences here."])
    chunks, parents = chunked(text, "semantic_parent_child")
    assert [parent.text for parent in parents] == [text]
    assert len(chunks) == (2 if "\t" in gap else 3)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("text", ["äöüßÄÖÜ" * 6, "🇩🇪🇫🇷🇯🇵" * 4, "👨‍👩‍👧‍👦" * 3, "日本語漢字仮名" * 5, "𝒜𝒷𝒸𝒹" * 6])
def test_no_byte_of_a_character_is_lost_between_chunks(strategy: str, text: str) -> None:
    for size in range(1, 21):
        assert "".join(texts_of(text, strategy, size)) == text


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_place_of_a_chunk_behind_many_odd_characters_is_exact(strategy: str) -> None:
    text = "".join(f"👨‍👩‍👧‍👦 é\u0301 🇩🇪 Grüße {n}. " for n in range(30)) + "Needle."
    chunks = chunks_of(Document(text=text), strategy, 40, 1)
    assert chunks[-1].text.endswith("Needle.")
    assert chunks[-1].end_char == len(text)
