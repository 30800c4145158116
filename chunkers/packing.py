"""Packing: units in, chunk spans out. One place that enforces cap, overlap and progress for strategies that build from units."""

from __future__ import annotations

from collections.abc import Sequence

from chunkers.analysis import Analysis
from chunkers.spans import Limit, Span, furthest


def pack(analysis: Analysis, units: Sequence[Span], limit: Limit, overlap: int = 0) -> list[Span]:
    """Runs of whole units, each as long as `limit` allows, the last `overlap` units of a run repeated in the next.

    Each span holds at least one unit that the span before it does not; the overlap gives way where both would not fit.
    """
    spans: list[Span] = []
    first = fresh = 0
    while fresh < len(units):
        begin = units[first][0]
        last = furthest(fresh, len(units), lambda n, begin=begin: limit.fits(analysis, begin, units[n][1]))  # type: ignore[misc]
        if last < fresh and first < fresh:
            first += 1
            continue
        last = max(last, fresh)
        spans.append((begin, units[last][1]))
        fresh = last + 1
        first = max(first + 1, fresh - overlap)
    return spans
