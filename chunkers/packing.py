"""Packing: units in, chunk spans out. One place that enforces cap, overlap and progress for strategies that build from units."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import partial

from chunkers.analysis import Analysis
from chunkers.spans import Limit, Span, furthest


def pack(analysis: Analysis, units: Sequence[Span], limit: Limit, overlap: int = 0) -> list[Span]:
    """Runs of whole units, each as long as `limit` allows, the last `overlap` units of a run repeated in the next.

    Each span holds at least one unit that the span before it does not; the overlap gives way where both would not fit.
    """

    def fits(begin: int, end: int) -> bool:
        return limit.fits(analysis, units[begin][0], units[end][1])

    spans: list[Span] = []
    ends = [end for _, end in units]
    first = fresh = 0
    while fresh < len(units):
        first = bisect_left(range(fresh), True, first, key=partial(fits, end=fresh))
        guess = bisect_right(ends, limit.reach(analysis, units[first][0])) - 1
        last = max(furthest(fresh, len(units), partial(fits, first), guess), fresh)
        spans.append((units[first][0], units[last][1]))
        fresh = last + 1
        first = max(first + 1, fresh - overlap)
    return spans
