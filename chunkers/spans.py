"""Spans: what strategies decide on before any text is cut, and what counts as one that fits."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from chunkers.analysis import Analysis, Span
from chunkers.tokens import LONGEST_TOKEN

_WHITE = re.compile(r"\s*")
# Indentation carries meaning (lists, code) and is kept with a first line, unless it is plainly no indentation.
_DEEPEST_INDENT = 40
_NEAR = 64
# From this number of spans on it pays to look at all of them in one go.
_MANY = 16


def trim(analysis: Analysis, start: int, end: int) -> Span:
    """The span without blank lines before it and white space after it; indentation of the first line stays.

    A blank span comes back empty: (end, end). A space that a combining mark sits on is no white space.
    """
    text = analysis.text
    first = start if start < end and not text[start].isspace() else skip_blank(analysis, start, end)
    if first == end or not text[end - 1].isspace():
        return first, end
    # Mostly a newline or two: looked for in the last few characters before the whole span is copied.
    near = max(first, end - _NEAR)
    tail = text[near:end].rstrip()
    return first, near + len(tail) if tail else first + len(text[first:near].rstrip())


def skip_blank(analysis: Analysis, start: int, end: int) -> int:
    """Where the span starts once the blank lines before it are left out; `end` if it is blank."""
    text = analysis.text
    if start < end and not text[start].isspace():
        return start
    blank = _WHITE.match(text, start, end)
    first = blank.end() if blank else start
    if first == end:
        return end
    first = max(start, analysis.clusters.floor(first))
    if first > start:
        line = max(text.rfind("\n", start, first), text.rfind("\r", start, first)) + 1
        begins_line = line > start or start == 0 or text[start - 1] in "\r\n"
        indent = line if line > start else start
        first = indent if begins_line and first - indent <= _DEEPEST_INDENT else first
    return first


@dataclass(frozen=True, slots=True)
class Limit:
    """How large a chunk may be: at most `tokens` cl100k_base tokens and, if set, at most `characters`, white space around it apart."""

    tokens: int
    characters: int | None = None

    @property
    def quarter(self) -> Limit:
        """A quarter of this limit: what is within it is a crumb, better put together with what stands beside it."""
        return Limit(self.tokens // 4, None if self.characters is None else self.characters // 4)

    @property
    def three_quarters(self) -> Limit:
        """What the last quarter of this limit lies beyond."""
        return Limit(self.tokens * 3 // 4, None if self.characters is None else self.characters * 3 // 4)

    def reach(self, analysis: Analysis, start: int) -> int:
        """About where a span from `start` passes the limit: a guess, made without encoding anything."""
        tokens = analysis.tokens
        reach = tokens.offset_after(tokens.tokens_until(start) + self.tokens)
        return reach if self.characters is None else min(reach, start + self.characters)

    def fits(self, analysis: Analysis, start: int, end: int) -> bool:
        """Whether `text[start:end]`, trimmed, is within the limit."""
        return self.trimmed(analysis, start, end) is not None

    def trimmed(self, analysis: Analysis, start: int, end: int) -> Span | None:
        """The span, trimmed, if that is within the limit."""
        # White space at the ends costs nothing, but a span far over the limit is refused without looking for it: what is
        # parted too early because of it is put together again by the merging of parts.
        longest = LONGEST_TOKEN * self.tokens if self.characters is None else self.characters
        if end - start > 2 * longest + 1000:
            return None
        text = analysis.text
        bare = start < end and not (text[start].isspace() or text[end - 1].isspace())
        first, last = (start, end) if bare else trim(analysis, start, end)
        if self.characters is not None and last - first > self.characters:
            return None
        return (first, last) if analysis.tokens.fits(first, last, self.tokens) else None

    def trimmed_all(self, analysis: Analysis, spans: Sequence[Span]) -> list[Span | None]:
        """As `trimmed`, for each of many spans: most are found to fit at one look at all of them."""
        if len(spans) < _MANY:
            return [self.trimmed(analysis, start, end) for start, end in spans]
        starts, ends = np.array(spans, dtype=np.int64).T
        white = analysis.white
        begins = ~white[starts]
        # Mostly a newline or two; what has more is looked at alone.
        for _ in range(3):
            ends = ends - white[ends - 1]
        sure = begins & (starts < ends) & ~white[ends - 1] & analysis.tokens.surely_fit(starts, ends, self.tokens)
        if self.characters is not None:
            sure &= ends - starts <= self.characters
        return [
            (span[0], end) if fits else self.trimmed(analysis, *span)
            for span, end, fits in zip(spans, ends.tolist(), sure.tolist(), strict=True)
        ]


def furthest(low: int, high: int, fits: Callable[[int], bool], guess: int | None = None) -> int:
    """The largest n in [low, high) with `fits(n)`, for a `fits` that is true up to some place; `low - 1` if none fits.

    Gallops from `guess` (or `low`), so the cost goes with the logarithm of the answer's distance from there, not of `high`.
    """
    if low >= high:
        return low - 1
    at = low if guess is None else min(max(guess, low), high - 1)
    step = 1
    if fits(at):
        good, bad = at, high
        while good + step < bad:
            if not fits(good + step):
                bad = good + step
                break
            good += step
            step *= 2
    else:
        good, bad = low - 1, at
        while bad - step > good:
            if fits(bad - step):
                good = bad - step
                break
            bad -= step
            step *= 2
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good
