"""Inputs on which other tools never end, recurse too deep or need the square of a length; work is counted, not timed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from chunkers import STRATEGIES
from chunkers import encoding as encoding_module
from chunkers.encoding import count_tokens, encode, encoding
from tests.chunkers.cases import STRUCTURED, WINDOWS, chunks_of, texts_of


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("character", ["🚀", "𓀀", "ࠂ"])
@pytest.mark.parametrize("size", [1, 2])
def test_a_character_over_the_cap_is_a_chunk_with_its_true_count(strategy: str, character: str, size: int) -> None:
    (only,) = chunks_of(character, strategy, size)
    assert (only.text, only.token_count) == (character, count_tokens(character))
    assert only.token_count > 2


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("size", [1, 2])
def test_characters_over_the_cap_stand_alone_between_words(strategy: str, size: int) -> None:
    assert texts_of("Go 🚀🚀 now\n\n🚀", strategy, size) == ["Go", "🚀", "🚀", "now", "🚀"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_cluster_over_the_cap_is_parted_into_its_characters(strategy: str, size: int) -> None:
    assert texts_of("👨\u200d👩\u200d👧", strategy, size) == ["👨", "\u200d", "👩", "\u200d", "👧"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("size", [1, 7, 16])
def test_letters_without_any_separator_fill_their_chunks(strategy: str, size: int) -> None:
    parts = texts_of("x" * 1000, strategy, size)
    assert "".join(parts) == "x" * 1000
    assert [count_tokens(part) for part in parts[:-1]] == [size] * (125 // size - (125 % size == 0))


@pytest.mark.parametrize("strategy", WINDOWS)
@pytest.mark.parametrize(("size", "overlap"), [(32, 10), (11, 10), (2, 1), (100, 99), (512, 511)])
def test_windows_over_a_word_without_spaces_move_on_by_their_step(strategy: str, size: int, overlap: int) -> None:
    url = "https://example.com/" + "path/segment-" * 152
    chunks = chunks_of(url, strategy, size, overlap)
    assert all(left.start_char < right.start_char for left, right in pairwise(chunks))
    assert chunks[-1].end_char == len(url)
    steps = -(-max(count_tokens(url) - size, 0) // (size - overlap))
    assert len(chunks) == steps + 1


@pytest.mark.parametrize("overlap", [1, 10, 1000])
@pytest.mark.parametrize(
    "text", ["https://example.com/" + "path/segment-" * 152, "x" * 3000, "word " * 500, "\n".join("y" * 99)]
)
def test_sentences_over_the_cap_move_on_with_any_overlap(text: str, overlap: int) -> None:
    chunks = chunks_of(text, "sentence", 11, overlap)
    assert all(left.end_char < right.end_char for left, right in pairwise(chunks))
    assert all(left.start_char < right.start_char for left, right in pairwise(chunks))
    assert chunks[-1].end_char == len(text.rstrip())


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("nested", ["> ", "- ", "1. ", "* > ", "[", "**", "((", "<div>", "![["])
def test_deep_nesting_ends_with_every_character_in_a_chunk(strategy: str, nested: str) -> None:
    text = nested * 3000 + "deepest"
    assert "".join("".join(texts_of(text, strategy, 64)).split()) == "".join(text.split())


class CountingEncoding:
    """cl100k_base, counting the characters that it encodes."""

    def __init__(self) -> None:
        self.characters = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(encoding(), name)

    def encode_ordinary(self, text: str) -> list[int]:
        self.characters += len(text)
        return encoding().encode_ordinary(text)

    def encode_to_numpy(self, text: str, **options: Any) -> Any:
        self.characters += len(text)
        return encoding().encode_to_numpy(text, **options)


def deep_headings(length: int) -> str:
    return "".join(f"{'#' * (1 + n % 6)} Head {n}\n\nSome words.\n\n" for n in range(length // 28))


def table(length: int) -> str:
    return "| a | b |\n|---|---|\n" + "| cell | cell |\n" * (length // 16)


TEXTS = {
    "one line": lambda length: "word river " * (length // 11),
    "letters": lambda length: "a" * length,
    "carets": lambda length: "^" * length,
    "spaces": lambda length: "x" + " " * length + "y",
    "newlines": lambda length: "x" + "\n" * length + "y",
    "emoji": lambda length: "👨‍👩‍👧‍👦" * (length // 7),
    "chinese": lambda length: "今天天气很好" * (length // 6),
    "headings": deep_headings,
    "table": table,
    "fence": lambda length: "```\n" + "value = 1\n" * (length // 10),
    "items": lambda length: "- some item\n" * (length // 12),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("kind", TEXTS)
def test_a_long_text_is_encoded_a_bounded_number_of_times(
    kind: str, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting = CountingEncoding()
    monkeypatch.setattr(encoding_module, "encoding", lambda: counting)
    length = 40_000
    chunks_of(TEXTS[kind](length), strategy, 64)
    assert length // 2 < counting.characters < 25 * length


@pytest.mark.parametrize(("run", "count"), [("a", 125_000), ("^", 250_000), ("\n", 31_250), (" ", 7_815)])
def test_a_run_of_a_million_characters_is_encoded(run: str, count: int) -> None:
    assert len(encode(run * 1_000_000)) == count


@pytest.mark.parametrize("size", [1, 2])
def test_windows_behind_characters_over_the_cap_are_full_again(size: int) -> None:
    found = texts_of("🚀" * 30 + " some plain words follow here and go on", "fixed_size", size)
    assert found[:30] == ["🚀"] * 30
    assert found[30] == (" some" if size == 1 else " some plain")
    assert [count_tokens(text) for text in found[30:]] == [size] * (8 // size)


@pytest.mark.parametrize("strategy", STRUCTURED)
def test_a_run_that_has_to_be_cut_leaves_no_crumb(strategy: str) -> None:
    counts = [count_tokens(text) for text in texts_of("x" * (8 * 129), strategy, 16)]
    assert sum(counts) == 129
    assert min(counts) > 4


def test_the_parents_cap_leaves_no_crumb_among_children() -> None:
    text = "今天天气很好我们去公园散步然后回家吃饭" * 316
    chunks = chunks_of(text, "semantic_parent_child", 512)
    assert min(chunk.token_count for chunk in chunks) > 100
