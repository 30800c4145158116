"""The cascade: a span that is too large is parted at the strongest boundary inside it, and its parts are merged up to the limit.

Boundaries from strong to weak: headings by level, blocks, nested blocks (list items, table rows), blank lines inside a block,
newlines, sentence ends, spaces; all of these leave bonds whole (`chunkers.structure`). Then the joints of bonds, spaces inside them,
and last of all a cut between two characters. Parts that still do not fit go through the rest of the cascade; neighbours that fit
together are merged, and a crumb goes with the first or last piece of a part that has to be cut. This is the strategy `recursive`,
and what every other strategy does with a unit that is over the cap.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

import numpy as np

from chunkers.analysis import Analysis
from chunkers.markdown import BLANK_LINES
from chunkers.spans import Limit, Span, furthest, skip_blank, trim
from chunkers.structure import HEADING_LEVELS, between

# The last newline of each run of them.
_NEWLINES = re.compile(r"(?:\r\n?|\n)(?![\r\n])")
# The same where a text has no CR, several times faster: a pattern that begins with a character is searched for by that.
_NEWLINES_LF = re.compile(r"\n(?!\n)")
_BLANK_LINES_LF = re.compile(r"\n(?:[^\S\n]*+\n)++")


def split(analysis: Analysis, start: int, end: int, limit: Limit) -> list[Span]:
    """Trimmed spans, in order and apart, that hold every non-space character of `text[start:end]`, each within `limit`.

    The only span over the limit is a single character that costs more tokens than `limit.tokens`.
    """
    spans = _split(analysis, start, end, limit, 0, None)
    if len(spans) > 1 and spans[-2][1] == spans[-1][0] and limit.quarter.fits(analysis, *spans[-1]):
        # The rest of a run that had to be cut between two characters.
        spans[-2:] = _halves(analysis, spans[-2], spans[-1], limit)
    return spans


def _split(analysis: Analysis, start: int, end: int, limit: Limit, level: int, lead: Span | None) -> list[Span]:
    """As `split`, from this level of the cascade on. `lead` is a span right before `start` that the first piece may take in."""
    begin = lead[0] if lead else start
    whole = limit.trimmed(analysis, begin, end)
    if whole:
        return [whole] if whole[0] < whole[1] else []
    levels = analysis.structure.levels
    while level < len(levels) + len(_FINE):
        cuts = _cuts(analysis, start, end, level)
        level += 1
        if cuts:
            return _merge(analysis, [start, *cuts, end], limit, level, lead)
    return _hard_cuts(analysis, begin, end, limit)


def _cuts(analysis: Analysis, start: int, end: int, level: int) -> list[int]:
    """Where a span may be parted at `level`."""
    levels = analysis.structure.levels
    if level < len(levels):
        return between(levels[level], start, end)
    places, breaks_bonds = _FINE[level - len(levels)]
    cuts = [cut for cut in places(analysis, start, end) if start < cut < end]
    if analysis.structure.bonds and not breaks_bonds:
        holds = analysis.structure.holds
        cuts = [cut for cut in cuts if not holds(cut)]
    if analysis.clusters.any_within(start, end):
        floor = analysis.clusters.floor
        cuts = [cut for cut in cuts if floor(cut) == cut]
    return cuts


def _merge(analysis: Analysis, edges: list[int], limit: Limit, level: int, lead: Span | None) -> list[Span]:
    """Parts between neighbouring edges, merged greedily while they fit; one that does not fit alone goes down the cascade.

    A crumb before such a part goes with its first piece; below the headings its last piece goes with the parts that follow. Where a
    crumb is left at the end, the span before it gives up parts to it.
    """
    below_headings, crumb = level > HEADING_LEVELS, limit.quarter
    spans: list[Span] = []
    carried = lead
    # `whole` is where the whole parts of `carried` start, `whole_before` the same of the last of `spans`.
    part = whole = 0
    whole_before: int | None = None
    while part < len(edges) - 1:
        begin = carried[0] if carried else edges[part]
        last = _furthest_part(analysis, begin, edges, part, limit)
        if last >= part:
            span = trim(analysis, begin, edges[last + 1])
            carried, whole = (span if span[0] < span[1] else None), part
            part = last + 1
        elif carried and (limit.fits(analysis, edges[part], edges[part + 1]) or not crumb.fits(analysis, *carried)):
            spans.append(carried)
            carried, whole_before = None, whole
        else:
            pieces = _split(analysis, edges[part], edges[part + 1], limit, level, carried)
            part += 1
            carried, whole = (pieces.pop() if pieces and below_headings else None), part
            spans.extend(pieces)
            whole_before = None
    if not carried:
        return spans
    if whole_before is not None and crumb.fits(analysis, *carried):
        return [*spans[:-1], *_level_out(analysis, spans[-1], carried, edges[whole_before:whole], limit)]
    return [*spans, carried]


def _level_out(analysis: Analysis, full: Span, crumb: Span, starts: list[int], limit: Limit) -> list[Span]:
    """`full` and `crumb` with the cut between them moved back: to the last of `starts` that leaves no crumb behind it."""
    for start in reversed(starts):
        left, right = trim(analysis, full[0], start), trim(analysis, start, crumb[1])
        if left[0] >= left[1] or not limit.fits(analysis, *right):
            break
        if not (limit.quarter.fits(analysis, *right) or analysis.structure.holds(start)):
            return [left, right]
    return [full, crumb]


def _furthest_part(analysis: Analysis, begin: int, edges: list[int], part: int, limit: Limit) -> int:
    guess = bisect_right(edges, limit.reach(analysis, begin)) - 2
    return furthest(part, len(edges) - 1, lambda n: limit.fits(analysis, begin, edges[n + 1]), guess)


def _blank_lines(analysis: Analysis, start: int, end: int) -> list[int]:
    pattern = BLANK_LINES if analysis.carriage_returns else _BLANK_LINES_LF
    return [blank.end() for blank in pattern.finditer(analysis.text, start, end)]


def _lines(analysis: Analysis, start: int, end: int) -> list[int]:
    pattern = _NEWLINES if analysis.carriage_returns else _NEWLINES_LF
    return [newline.end() for newline in pattern.finditer(analysis.text, start, end)]


def _sentences(analysis: Analysis, start: int, end: int) -> list[int]:
    return [sentence[0] for sentence in analysis.sentences(start, end)]


def _words(analysis: Analysis, start: int, end: int) -> list[int]:
    white = analysis.white[start:end]
    found: list[int] = (np.flatnonzero(white[:-1] & ~white[1:]) + start + 1).tolist()
    return found


def _loose_joints(analysis: Analysis, start: int, end: int) -> list[int]:
    return between(analysis.structure.loose_joints, start, end)


def _joints(analysis: Analysis, start: int, end: int) -> list[int]:
    return between(analysis.structure.joints, start, end)


# What comes after the levels of the structure, and whether it may break a bond.
_FINE = (
    (_blank_lines, False),
    (_lines, False),
    (_sentences, False),
    (_words, False),
    (_loose_joints, True),
    (_joints, True),
    (_words, True),
)


def _hard_cuts(analysis: Analysis, start: int, end: int, limit: Limit) -> list[Span]:
    """Cuts between characters, each span as long as the limit allows, clusters whole while they fit."""
    spans: list[Span] = []
    while (start := skip_blank(analysis, start, end)) < end:
        reach = min(end, start + (limit.characters or end))

        def fits(cut: int, start: int = start) -> bool:
            return limit.fits(analysis, start, cut)

        cut = hard_cut(analysis, start, reach, limit.tokens, fits)
        span = trim(analysis, start, cut)
        # Blank only where the cut fell between a space and the mark that sits on it.
        spans.extend([span] if span[0] < span[1] else [])
        start = cut
    return spans


def _halves(analysis: Analysis, full: Span, crumb: Span, limit: Limit) -> list[Span]:
    """Two spans next to each other, the second a crumb, with the cut moved to about their middle if both are within `limit` then."""
    tokens = analysis.tokens
    middle = (tokens.tokens_until(full[0]) + tokens.tokens_until(crumb[1])) // 2
    cut = analysis.clusters.floor(tokens.offset_after(middle))
    if full[0] < cut < crumb[1]:
        left, right = limit.trimmed(analysis, full[0], cut), limit.trimmed(analysis, cut, crumb[1])
        if left and right and left[0] < left[1] and right[0] < right[1]:
            return [left, right]
    return [full, crumb]


def hard_cut(analysis: Analysis, start: int, end: int, cap: int, fits: Callable[[int], bool]) -> int:
    """A cut in (start, end] with `fits(cut)`, on a cluster boundary and about `cap` tokens after `start` where that can be.

    Where one cluster does not fit (or passes `end`) the cut falls inside it; where one character does not, behind that character.
    """
    tokens, clusters = analysis.tokens, analysis.clusters
    known = tokens.tokens_until(start)
    # The token index guesses the place; a slice encoded on its own may need a token more, seldom two.
    for budget in range(cap, 0, -1):
        cut = clusters.floor(min(end, tokens.offset_after(known + budget)))
        if cut <= start:
            break
        if fits(cut):
            return cut
    cluster_end = clusters.ceil(start + 1)
    if cluster_end <= end and fits(cluster_end):
        return cluster_end
    return max(furthest(start + 1, min(cluster_end, end) + 1, fits), start + 1)
