"""The token index: every count is what a fresh encoding gives, every offset is one of a character."""

from __future__ import annotations

import os
import random
import threading

import numpy as np
import pytest
from numpy.typing import NDArray

from chunkers import encoding as encoding_module
from chunkers import tokens
from chunkers.encoding import count_tokens, encode, encoding
from chunkers.tokens import LONGEST_TOKEN, EncodedText, TokenIndex, count_joined
from tests.chunkers.texts import SCRIPTS


def fresh(text: str) -> int:
    return len(encoding().encode(text, disallowed_special=()))


@pytest.mark.parametrize("script", [*SCRIPTS, "mixed", "spaces"])
def test_the_count_of_two_joined_spans_is_that_of_a_fresh_encoding(script: str) -> None:
    mixed = "".join(SCRIPTS.values())
    text = {"mixed": mixed, "spaces": "word" + " " * 700 + "1\n" * 400}.get(script) or SCRIPTS[script] * 20
    chance = random.Random(script)
    for _ in range(300):
        start, second, first, end = sorted(chance.choices(range(len(text)), k=4))
        left, right = text[start : first + 1], text[second:end]
        overlap = first + 1 - second
        if len(right) < overlap:
            continue
        found = count_joined(left, count_tokens(left), right, count_tokens(right), overlap)
        assert found == count_tokens(text[start:end])


@pytest.mark.parametrize("script", SCRIPTS)
def test_counts_of_random_spans_are_those_of_a_fresh_encoding(script: str) -> None:
    text = SCRIPTS[script] * 30
    index = TokenIndex(EncodedText(text))
    chance = random.Random(script)
    for _ in range(1500):
        start = chance.randrange(len(text))
        end = min(len(text), start + chance.choice((1, 3, 20, 150, 1000)))
        assert index.count(start, end) == fresh(text[start:end]), text[start:end]


def test_counts_of_random_spans_are_exact_where_scripts_meet() -> None:
    chance = random.Random(1)
    pieces = [word for text in SCRIPTS.values() for word in text.split(" ")] + [" ", "\n", "'s", "'ll", "  \n ", "\x00"]
    for _ in range(40):
        text = "".join(chance.choices(pieces, k=60))
        index = TokenIndex(EncodedText(text))
        for _ in range(25):
            start, end = sorted(chance.sample(range(len(text) + 1), 2))
            assert index.count(start, end) == fresh(text[start:end]), text[start:end]


@pytest.mark.parametrize(
    "text",
    [
        "don't",
        "'llama",
        "a'sb",
        "x\u0301y",
        "ab12cd",
        "1234567",
        "\u2167a",
        "a\u180eb",
        "İi",
        "ǅz",
        "a \n b",
        "  \r\n\r\n x",
    ],
)
def test_counts_of_all_spans_of_awkward_texts_are_exact(text: str) -> None:
    index = TokenIndex(EncodedText(text))
    for start in range(len(text)):
        for end in range(start, len(text) + 1):
            assert index.count(start, end) == (fresh(text[start:end]) if end > start else 0)


def test_special_tokens_are_ordinary_text() -> None:
    text = "a <|endoftext|> b"
    assert TokenIndex(EncodedText(text)).count(0, len(text)) == fresh(text) > 5


def test_an_empty_text_has_no_tokens() -> None:
    index = TokenIndex(EncodedText(""))
    assert (len(index), index.count(0, 0), index.offset_after(3), index.tokens_until(0)) == (0, 0, 0, 0)


@pytest.mark.parametrize("script", SCRIPTS)
def test_offsets_follow_the_documents_tokens(script: str) -> None:
    text = SCRIPTS[script]
    index = TokenIndex(EncodedText(text))
    ids = encoding().encode(text, disallowed_special=())
    assert len(index) == len(ids)
    for n in range(1, len(ids) + 1):
        raw = encoding().decode_bytes(ids[:n])
        # A token that ends inside a character counts as ending where that character starts.
        assert index.offset_after(n) == len(raw.decode("utf-8", errors="ignore"))


def test_offset_after_stays_inside_the_text() -> None:
    index = TokenIndex(EncodedText("one two"))
    assert index.offset_after(-1) == 0
    assert index.offset_after(100) == 7


def test_tokens_until_counts_the_tokens_that_end_at_or_before_an_offset() -> None:
    index = TokenIndex(EncodedText("one two three"))
    assert [index.tokens_until(offset) for offset in (0, 2, 3, 6, 7, 13)] == [0, 0, 1, 1, 2, 3]


@pytest.mark.parametrize("script", SCRIPTS)
def test_fits_agrees_with_the_count(script: str) -> None:
    text = SCRIPTS[script]
    index = TokenIndex(EncodedText(text))
    for end in range(1, len(text) + 1, 3):
        count = fresh(text[:end])
        assert index.fits(0, end, count)
        assert not index.fits(0, end, count - 1)


def test_a_span_longer_than_the_longest_tokens_is_refused_without_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    index = TokenIndex(EncodedText("a" * 10_000))
    encoded: list[str] = []
    monkeypatch.setattr(encoding_module, "count_tokens", lambda text: encoded.append(text) or 1)
    assert not index.fits(0, 10 * LONGEST_TOKEN + 1, 10)
    assert encoded == []


def test_a_run_of_a_million_spaces_is_encoded_in_parts() -> None:
    run = encoding_module.LONGEST_RUN + 5_000
    text = "word" + " " * run + "word" + "\n" * 10
    ids = encode(text)
    assert encoding().decode(ids.tolist()) == text
    assert count_tokens(text) == TokenIndex(EncodedText(text)).count(0, len(text)) == len(ids)


def test_only_runs_that_are_too_long_are_encoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoding_module, "LONGEST_RUN", 10)
    short, run = "a" + " " * 10 + "b", "\n" + " " * 25
    assert encoding_module._inside_long_runs(short * 5 + "\n" * 40) == []
    start = len(short * 3) + 1
    assert encoding_module._inside_long_runs(short * 3 + run + "x") == [start + 10, start + 20]


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize(("times", "part"), [(1, 4000), (200, 4000), (200, 10), (200, 10**9)])
def test_a_text_encoded_beside_other_work_has_its_tokens(
    script: str, times: int, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "SMALLEST_PART", part)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    text = SCRIPTS[script] * times
    assert EncodedText(text).tokens().tolist() == encoding().encode(text, disallowed_special=())


def test_what_goes_wrong_in_the_encoding_thread_is_told_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(text: str) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(encoding_module, "encode", failing)
    with pytest.raises(MemoryError, match="no room"):
        EncodedText("word " * 10_000).tokens()


def test_a_text_whose_encoding_was_interrupted_is_encoded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    real = encoding_module.encode
    here = threading.get_ident()
    come = threading.Event()

    def interrupted(text: str) -> NDArray[np.uint32]:
        if threading.get_ident() == here:
            come.set()
            raise KeyboardInterrupt
        come.wait(60)  # so that something is left for who comes for the tokens
        return real(text)

    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with monkeypatch.context() as patched:
        patched.setattr(encoding_module, "encode", interrupted)
        encoded = EncodedText("word river " * 10_000)
        with pytest.raises(KeyboardInterrupt):
            encoded.tokens()
    assert len(encoded.tokens()) == 20_001


def test_a_text_is_encoded_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ended:
        def submit(self, *_: object) -> None:
            raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(encoding_module, "_thread", Ended)
    monkeypatch.setattr(encoding_module, "_encoding", None)
    assert len(EncodedText("word river " * 10_000).tokens()) == 20_001


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_encodes_what_its_parent_began_and_more() -> None:
    text = "word river " * 10_000
    encoded = EncodedText(text)
    child = os.fork()
    if child == 0:
        whole = len(encoded.tokens()) == len(EncodedText(text).tokens()) == 20_001
        os._exit(0 if whole else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(encoded.tokens()) == 20_001


@pytest.mark.parametrize("before", ["", "x", "x.", " ", "(", "'", "\u00a0", "e\u0301", "\r"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r", "\n\n", " \n"])
@pytest.mark.parametrize(
    "after", ["word", "'s", "'ll be", "12345", "...", " x", "\tx", "\x1cx", "\x85x", "\u0301x", "字", "👍🏽", "(a)"]
)
def test_a_slice_that_begins_a_line_is_counted_exactly(before: str, newline: str, after: str) -> None:
    text = f"{before}{newline}{after} and more.\nEnd"
    index = TokenIndex(EncodedText(text))
    start = len(before) + len(newline)
    for end in range(start + 1, len(text) + 1):
        assert index.count(start, end) == fresh(text[start:end])
