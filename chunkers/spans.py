"""Spans: what strategies decide on before any text is cut, and what counts as one that fits."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from chunkers.analysis import Analysis
from chunkers.tokens import LONGEST_TOKEN

Span = tuple[int, int]

_WHITE = re.compile(r"\s*")
# Indentation carries meaning (lists, code) and is kept with a first line, unless it is plainly no indentation.
_DEEPEST_INDENT = 40


def trim(analysis: Analysis, start: int, end: int) -> Span:
    """The span without blank lines before it and white space after it; indentation of the first line stays.

    A blank span comes back empty: (end, end). A space that a combining mark sits on is no white space.
    """
    first = skip_blank(analysis, start, end)
    if first == end or not analysis.text[end - 1].isspace():
        return first, end
    return first, first + len(analysis.text[first:end].rstrip())


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
        first, last = trim(analysis, start, end)
        if self.characters is not None and last - first > self.characters:
            return None
        return (first, last) if analysis.tokens.fits(first, last, self.tokens) else None


def furthest(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """The largest n in [low, high) with `fits(n)`, for a `fits` that is true up to some place; `low - 1` if none fits.

    Gallops from `low`, so the cost goes with the logarithm of the answer's distance, not of `high`.
    """
    if low >= high or not fits(low):
        return low - 1
    good, step = low, 1
    while good + step < high and fits(good + step):
        good += step
        step *= 2
    bad = min(good + step, high)
    while bad - good > 1:
        middle = (good + bad) // 2
        if fits(middle):
            good = middle
        else:
            bad = middle
    return good
