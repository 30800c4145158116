"""Packing: units in, chunk spans out. One place that enforces cap, overlap and progress for strategies that build from units.

A run that takes all that fits ends where the run before it happened to end, so one edited sentence may shift every boundary after it,
and each shifted chunk is embedded again. A *steady* run ends at a place that its content chooses: in the last quarter of what fits,
before the highest heading, else before another block, else inside one; where several are as good, after the unit whose text has the
smallest checksum. Two packings of almost the same text come upon the same such place soon, and are alike from there on.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import partial
from zlib import crc32

from chunkers.analysis import Analysis
from chunkers.markdown import Kind
from chunkers.spans import Limit, Span, furthest
from chunkers.structure import HEADING_LEVELS


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
    starts = [block.start for block in analysis.blocks] if steady else []
    first = fresh = 0
    while fresh < len(units):
        first = bisect_left(range(fresh), True, first, key=partial(fits, end=fresh))
        start = units[first][0]
        guess = bisect_right(ends, limit.reach(analysis, start)) - 1
        last = max(furthest(fresh, len(units), partial(fits, first), guess), fresh)
        if steady and last < len(units) - 1:
            # About where the last quarter starts is near enough.
            quarter = bisect_left(ends, limit.three_quarters.reach(analysis, start), fresh, last)
            last = min(range(quarter, last + 1), key=partial(_joint, analysis, starts, units))
        spans.append((start, units[last][1]))
        fresh = last + 1
        first = max(first + 1, fresh - overlap)
    return spans


def _joint(analysis: Analysis, starts: Sequence[int], units: Sequence[Span], unit: int) -> tuple[int, int]:
    """How good it is to part `unit` from the next, best first: before a heading by its level, before any other block, in a block; then
    by the checksum of its text."""
    start, end = units[unit]
    checksum = crc32(analysis.text[start:end].encode())
    at = bisect_left(starts, end)
    if at == len(starts) or starts[at] > units[unit + 1][0]:
        return HEADING_LEVELS + 2, checksum
    block = analysis.blocks[at]
    return block.level if block.kind is Kind.HEADING else HEADING_LEVELS + 1, checksum
