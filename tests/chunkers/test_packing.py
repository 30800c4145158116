"""Packing of sentences: where a run ends, and that an edit moves only the boundaries near it."""

from __future__ import annotations

import random
from itertools import pairwise
from statistics import median

import pytest

from chunkers import Document
from chunkers.encoding import count_tokens
from chunkers.packing import pack
from chunkers.spans import Limit, Span
from chunkers.units import sentence_units

LIMIT = Limit(100)
LARGE = Limit(500)


def packed(text: str, overlap: int = 0) -> list[str]:
    analysis = Document(text=text).analysis
    spans = pack(analysis, sentence_units(analysis, LIMIT), LIMIT, overlap, steady=True)
    return [text[start:end] for start, end in spans]


def sentences(count: int, seed: int = 1, longest: int = 8) -> list[str]:
    """Sentences of 8 tokens and up, no two alike."""
    rng = random.Random(seed)
    return [f"Sentence {n}{' goes on' * rng.randint(1, longest)} to its end." for n in range(count)]


def test_a_run_that_is_not_steady_takes_all_that_fits() -> None:
    text = " ".join(sentences(60))
    analysis = Document(text=text).analysis
    units = sentence_units(analysis, LIMIT)
    spans = pack(analysis, units, LIMIT)
    following = dict(units)
    for (start, _), (after, _) in pairwise(spans):
        assert not LIMIT.fits(analysis, start, following[after])


@pytest.mark.parametrize("overlap", [0, 1, 2])
def test_a_steady_run_is_longer_than_three_quarters_of_the_limit_less_a_sentence(overlap: int) -> None:
    text = " ".join(sentences(200))
    analysis = Document(text=text).analysis
    units = list(sentence_units(analysis, LIMIT))
    spans = pack(analysis, units, LIMIT, overlap, steady=True)
    for start, end in spans[:-1]:
        following = next(unit[1] for unit in units if unit[0] > end - 1)
        # A token more than the estimate from the whole text's tokens.
        assert not LIMIT.three_quarters.fits(analysis, start, following)
        assert LIMIT.fits(analysis, start, end)


@pytest.mark.parametrize("overlap", [0, 2])
def test_what_fits_in_one_run_is_one_run(overlap: int) -> None:
    text = " ".join(["It goes on."] * 20)
    assert packed(text, overlap) == [text]


@pytest.mark.parametrize("boundary", ["\n\n", "\n\n## Heading\n\n", "\n\n- ", "\n\n> "])
@pytest.mark.parametrize("count", [9, 10, 11])
def test_a_steady_run_ends_at_the_end_of_a_block_rather_than_of_a_sentence(boundary: str, count: int) -> None:
    parts = sentences(20, longest=1)
    before, after = " ".join(parts[:count]), " ".join(parts[count:])
    assert 76 <= count_tokens(before) <= 100
    assert packed(before + boundary + after)[0] == before


def test_a_steady_run_ends_before_a_heading_rather_than_at_the_end_of_a_paragraph() -> None:
    parts = sentences(20, longest=1)
    text = "\n\n".join([*parts[:9], "## Heading", *parts[9:]])
    assert packed(text)[0] == "\n\n".join(parts[:9])


def test_a_paragraph_s_end_before_the_last_quarter_ends_no_run() -> None:
    parts = sentences(14)
    text = " ".join(parts[:2]) + "\n\n" + " ".join(parts[2:])
    assert packed(text)[0].startswith(f"{parts[0]} {parts[1]}\n\n{parts[2]}")


@pytest.mark.parametrize("overlap", [0, 2])
@pytest.mark.parametrize("joint", [" ", "\n\n"])
def test_an_edited_sentence_changes_few_runs(overlap: int, joint: str) -> None:
    parts = sentences(2000)
    rng = random.Random(1)
    changes = []
    for _ in range(12):
        at = rng.randrange(len(parts))
        changes.append(rng.choice([[*parts[:at], *parts[at + 1 :]], [*parts[:at], "One more, put in.", *parts[at:]]]))

    def runs(parts: list[str]) -> list[set[str]]:
        """Those of steady packing, and those of the other."""
        text = joint.join(parts)
        analysis = Document(text=text).analysis
        units = sentence_units(analysis, LARGE)
        return [
            {text[start:end] for start, end in pack(analysis, units, LARGE, overlap, steady=steady)}
            for steady in (True, False)
        ]

    whole = runs(parts)
    changed = [[len(after - before) for before, after in zip(whole, runs(edited), strict=True)] for edited in changes]
    steady, other = zip(*changed, strict=True)
    assert median(steady) <= 4
    assert sum(steady) < sum(other) / 2


def test_every_sentence_is_in_a_run_and_every_run_goes_further() -> None:
    text = " ".join(sentences(100))
    analysis = Document(text=text).analysis
    units = list(sentence_units(analysis, LIMIT))
    for overlap in (0, 1, 3, 50):
        spans: list[Span] = pack(analysis, units, LIMIT, overlap, steady=True)
        assert {unit for unit in units if any(start <= unit[0] and unit[1] <= end for start, end in spans)} == set(
            units
        )
        assert all(left[0] < right[0] and left[1] < right[1] for left, right in pairwise(spans))
