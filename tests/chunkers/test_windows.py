"""Token windows: size, step, end, and what happens where a window would end inside a character."""

from __future__ import annotations

from itertools import pairwise

import pytest

from chunkers import Document, chunk
from chunkers.encoding import count_tokens, encoding
from chunkers.windows import token_windows
from tests.chunkers.texts import SCRIPTS

WORDS = "".join(f" word{n}" for n in range(400))


def windows(text: str, size: int, overlap: int) -> list[str]:
    return [text[start:end] for start, end in token_windows(Document(text=text).analysis, size, overlap)]


def test_windows_are_the_slices_of_the_documents_tokens() -> None:
    ids = encoding().encode(WORDS)
    assert windows(WORDS, 50, 10) == [
        encoding().decode(ids[start : start + 50]) for start in range(0, len(ids) - 10, 40)
    ]


def test_windows_end_with_the_first_that_reaches_the_end() -> None:
    text = " a" * 100
    assert [len(window) // 2 for window in windows(text, 40, 10)] == [40, 40, 40]
    assert [len(window) // 2 for window in windows(text, 100, 99)] == [100]


def test_a_short_text_is_one_window() -> None:
    assert windows("short text", 512, 50) == ["short text"]


def test_windows_without_overlap_join_to_the_text() -> None:
    for text in SCRIPTS.values():
        assert "".join(windows(text, 7, 0)).rstrip() == text.rstrip()


def test_an_overlap_of_all_but_one_token_moves_by_one_token() -> None:
    assert windows(" a b c d", 3, 2) == [" a b c", " b c d"]


def test_repeated_text_gives_windows_at_different_places() -> None:
    chunks = chunk("ab ab ab ab ab ab", "fixed_size", chunk_size=2, chunk_overlap=1)
    assert [c.start_char for c in chunks] == [0, 2, 5, 8, 11]


@pytest.mark.parametrize("size", range(1, 21))
@pytest.mark.parametrize("text", ["äöüßÄÖÜ" * 6, "🇩🇪🇫🇷🇯🇵" * 4, "👨‍👩‍👧‍👦" * 3, "e\u0301a\u0301\u0302" * 8])
def test_windows_never_hold_half_a_character_and_keep_the_cap(text: str, size: int) -> None:
    spans = token_windows(Document(text=text).analysis, size, size // 2)
    assert all(count_tokens(text[start:end]) <= size or end - start == 1 for start, end in spans)
    assert all(left[0] < right[0] <= left[1] for left, right in pairwise(spans))
    assert (spans[0][0], spans[-1][1]) == (0, len(text))


@pytest.mark.parametrize(("size", "whole"), [(18, True), (20, True), (17, False)])
def test_a_family_stays_whole_where_it_fits(size: int, whole: bool) -> None:
    family = "👨‍👩‍👧‍👦"
    assert count_tokens(family) == 18
    assert (windows(family * 3, size, 0) == [family] * 3) is whole


@pytest.mark.parametrize("size", [1, 2])
def test_a_character_over_the_cap_is_a_window_of_its_own(size: int) -> None:
    assert windows("🚀🚀", size, size - 1) == ["🚀", "🚀"]


def test_a_window_of_white_space_is_left_out() -> None:
    text = "a" + "\n \t" * 200 + "b"
    found = windows(text, 8, 0)
    assert len(found) == 2
    assert [window.strip() for window in found] == ["a", "b"]


@pytest.mark.parametrize("text", ["https://x.y/" + "abc/" * 500, "x" * 3000, "^" * 3000])
def test_text_without_spaces_ends(text: str) -> None:
    spans = token_windows(Document(text=text).analysis, 11, 10)
    assert spans[-1][1] == len(text)
    assert all(left[0] < right[0] for left, right in pairwise(spans))


def test_windows_ignore_structure() -> None:
    chunks = chunk("# Heading\n\n" + WORDS, "fixed_size", chunk_size=3, chunk_overlap=0)
    assert chunks[0].text == "# Heading\n\n"
    assert chunks[1].headings == ("Heading",)


def test_no_window_carries_a_table_header() -> None:
    table = "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 40
    assert all(c.context is None for c in chunk(table, "fixed_size", chunk_size=40, chunk_overlap=0))
