"""Packing: units in, chunk spans out. One place that enforces cap, overlap and progress for strategies that build from units.

A run that takes all that fits ends where the run before it happened to end, so one edited sentence may shift every boundary after it,
and each shifted chunk is embedded again. A *steady* run ends at a place that its content chooses: in the last quarter of what fits, at
the strongest boundary of the document's structure; where several are as strong, after the unit whose text has the smallest checksum.
Two packings of almost the same text come upon the same such place soon, and are alike from there on.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import partial
from zlib import crc32

from chunkers.analysis import Analysis
from chunkers.spans import Limit, Span, furthest
from chunkers.structure import between


def pack(
    analysis: Analysis, units: Sequence[Span], limit: Limit, overlap: int = 0, *, steady: bool = False
) -> list[Span]:
    """Runs of whole units, each within `limit`, the last `overlap` units of a run repeated in the next.

    Each span holds at least one unit that the span before it does not; the overlap gives way where both would not fit. A run is as long
    as can be, or ends in the last quarter of that if it is to be `steady`.
    """

    def fits(begin: int, end: int) -> bool:
        return limit.fits(analysis, units[begin][0], units[end][1])

    spans: list[Span] = []
    ends = [end for _, end in units]
    first = fresh = 0
    while fresh < len(units):
        first = bisect_left(range(fresh), True, first, key=partial(fits, end=fresh))
        start = units[first][0]
        guess = bisect_right(ends, limit.reach(analysis, start)) - 1
        last = max(furthest(fresh, len(units), partial(fits, first), guess), fresh)
        if steady and last < len(units) - 1:
            # About where the last quarter starts is near enough.
            quarter = bisect_left(ends, limit.three_quarters.reach(analysis, start), fresh, last)
            last = _steady_end(analysis, units, ends, quarter, last)
        spans.append((start, units[last][1]))
        fresh = last + 1
        first = max(first + 1, fresh - overlap)
    return spans


def _steady_end(analysis: Analysis, units: Sequence[Span], ends: Sequence[int], low: int, high: int) -> int:
    """Which of the units from `low` to `high` a run is to end with. A unit follows the last of them."""
    if low == high:
        return high
    choice: Sequence[int] = range(low, high + 1)
    for boundaries in analysis.structure.levels:
        # A boundary parts two units where it lies in the gap between them; what lies inside a unit is none here.
        found = between(boundaries, ends[low] - 1, units[high + 1][0] + 1)
        before = [bisect_right(ends, boundary, low, high + 1) - 1 for boundary in found]
        parted = [unit for unit, boundary in zip(before, found, strict=True) if boundary <= units[unit + 1][0]]
        if parted:
            choice = parted
            break
    if len(choice) == 1:
        return choice[0]
    return min(choice, key=lambda unit: crc32(analysis.text[units[unit][0] : units[unit][1]].encode()))
