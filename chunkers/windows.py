"""Token windows: slices of `size` tokens, `size - overlap` tokens apart, moved off the inside of a character.

Windows follow the document's own tokens. A slice that begins or ends inside a cluster or that, encoded on its own, needs more than
`size` tokens is cut a little shorter, and the next window starts no later than where this one ended, so nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from chunkers.analysis import Analysis
from chunkers.cascade import hard_cut
from chunkers.spans import Span


def token_windows(analysis: Analysis, size: int, overlap: int) -> Sequence[Span]:
    """Spans of the windows of a text, verbatim, those that hold nothing but white space left out.

    Args:
        size: tokens of a window, at least 1.
        overlap: tokens shared by neighbours, from 0 to size - 1.
    """
    return analysis.once(("token windows", size, overlap), lambda: _token_windows(analysis, size, overlap))


def _token_windows(analysis: Analysis, size: int, overlap: int) -> list[Span]:
    text, tokens, clusters = analysis.text, analysis.tokens, analysis.clusters
    spans: list[Span] = []
    first, start = 0, 0
    while start < len(text):
        end = clusters.floor(tokens.offset_after(first + size))
        if end <= start or not tokens.fits(start, end, size):
            begin = start
            end = hard_cut(
                analysis,
                start,
                max(end, clusters.ceil(start + 1)),
                size,
                lambda cut, begin=begin: tokens.fits(begin, cut, size),  # type: ignore[misc]
            )
        if not text[start:end].isspace():
            spans.append((start, end))
        if end >= len(text):
            break
        reached = tokens.tokens_until(end)
        # Behind a character of more than `size` tokens the windows go on from its end.
        first = min(first + size - overlap, reached) if overlap else reached
        following = min(clusters.floor(tokens.offset_after(first)), end) if overlap else end
        if following <= start:
            # The overlap reaches back over the whole window (one cluster of many tokens): go on behind its first cluster.
            following = min(clusters.ceil(start + 1), end)
            first = tokens.tokens_until(following)
        start = following
    return spans
