"""The cascade: a span that is too large is parted at the strongest boundary inside it, and its parts are merged up to the limit.

Boundaries from strong to weak: headings by level, blocks, nested blocks (list items, table rows), blank lines inside a block,
newlines, sentence ends, spaces; last of all a cut between two characters. Parts that still do not fit go through the rest of the
cascade; neighbours that fit together are merged. This is the strategy `recursive`, and what every other strategy does with a
unit that is over the cap.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from chunkers.analysis import HEADING_LEVELS, Analysis, between
from chunkers.sentences import sentence_spans
from chunkers.spans import Limit, Span, furthest, trim

_BLANK_LINES = re.compile(r"(?:\r\n?+|\n)(?:[^\S\r\n]*+(?:\r\n?+|\n))+")
_NEWLINE = re.compile(r"\r\n?|\n")
_SPACE = re.compile(r"\s+")


def split(analysis: Analysis, start: int, end: int, limit: Limit) -> list[Span]:
    """Trimmed spans, in order and apart, that hold every non-space character of `text[start:end]`, each within `limit`.

    The only span over the limit is a single character that costs more tokens than `limit.tokens`.
    """
    return _split(analysis, start, end, limit, 0)


def _split(analysis: Analysis, start: int, end: int, limit: Limit, level: int) -> list[Span]:
    if limit.fits(analysis, start, end):
        span = trim(analysis, start, end)
        return [span] if span[0] < span[1] else []
    levels = analysis.structure.levels
    while level < len(levels) + len(_FINE):
        cuts = _cuts(analysis, start, end, level)
        level += 1
        if cuts:
            return _merge(analysis, [start, *cuts, end], limit, level)
    return _hard_cuts(analysis, start, end, limit)


def _cuts(analysis: Analysis, start: int, end: int, level: int) -> list[int]:
    """Where a span may be parted at `level`, without what is glued together, until nothing weaker than spaces is left."""
    levels = analysis.structure.levels
    if level < len(levels):
        return between(levels[level], start, end)
    fine = _FINE[level - len(levels)]
    glued, clusters = analysis.structure.glued, analysis.clusters
    return [
        cut
        for cut in fine(analysis, start, end)
        if start < cut < end and cut not in glued and clusters.floor(cut) == cut
    ]


def _merge(analysis: Analysis, edges: list[int], limit: Limit, level: int) -> list[Span]:
    """Parts between neighbouring edges, merged greedily while they fit; one that does not fit alone goes down the cascade.

    Below the headings the last piece of such a part is merged with the parts that follow, so that no crumb is left.
    """
    carries = level > HEADING_LEVELS
    spans: list[Span] = []
    carried: Span | None = None
    part, parts = 0, len(edges) - 1
    while part < parts:
        begin = carried[0] if carried else edges[part]
        last = _furthest_part(analysis, begin, edges, part, limit)
        if last >= part:
            span = trim(analysis, begin, edges[last + 1])
            spans.extend([span] if span[0] < span[1] else [])
            carried, part = None, last + 1
        elif carried:
            spans.append(carried)
            carried = None
        else:
            pieces = _split(analysis, begin, edges[part + 1], limit, level)
            carried = pieces.pop() if pieces and carries else None
            spans.extend(pieces)
            part += 1
    return [*spans, carried] if carried else spans


def _furthest_part(analysis: Analysis, begin: int, edges: list[int], part: int, limit: Limit) -> int:
    return furthest(part, len(edges) - 1, lambda n: limit.fits(analysis, begin, edges[n + 1]))


def _blank_lines(analysis: Analysis, start: int, end: int) -> list[int]:
    return [blank.end() for blank in _BLANK_LINES.finditer(analysis.text, start, end)]


def _lines(analysis: Analysis, start: int, end: int) -> list[int]:
    return [newline.end() for newline in _NEWLINE.finditer(analysis.text, start, end)]


def _sentences(analysis: Analysis, start: int, end: int) -> list[int]:
    return [sentence[0] for sentence in sentence_spans(analysis, start, end)]


def _words(analysis: Analysis, start: int, end: int) -> list[int]:
    return [space.end() for space in _SPACE.finditer(analysis.text, start, end)]


_FINE = (_blank_lines, _lines, _sentences, _words)


def _hard_cuts(analysis: Analysis, start: int, end: int, limit: Limit) -> list[Span]:
    """Cuts between characters, each span as long as the limit allows, clusters whole while they fit."""
    tokens = analysis.tokens
    spans: list[Span] = []
    while (start := trim(analysis, start, end)[0]) < end:
        reach = min(end, start + (limit.characters or end))

        def fits(cut: int, start: int = start) -> bool:
            return tokens.fits(*trim(analysis, start, cut), limit.tokens)

        cut = hard_cut(analysis, start, reach, limit.tokens, fits)
        span = trim(analysis, start, cut)
        # Blank only where the cut fell between a space and the mark that sits on it.
        spans.extend([span] if span[0] < span[1] else [])
        start = cut
    return spans


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
