"""Sentences as spans that tile a slice of a text, by the rules of `sentencex` for the document's language.

`sentencex` needs the square of a paragraph's length and is several times faster on a page than on ten. So it is shown a long text
through a window that moves on to where its last certain sentence starts: one whose end, and some text behind it, was in view.
"""

from __future__ import annotations

import sentencex

from chunkers.analysis import Analysis
from chunkers.spans import Span

WINDOW = 4000
# What has to be in view behind the start of a sentence for it to be certain: more than a quotation in which nothing is parted.
MARGIN = 500


def sentence_spans(analysis: Analysis, start: int, end: int) -> list[Span]:
    """Spans of the sentences of `text[start:end]`, in order and without a gap; white space belongs to the sentence before it.

    A newline is no sentence end, a blank line is. A slice without any sentence end is one sentence.
    """
    if end <= start:
        return []
    starts = [start]
    size = WINDOW
    while (seen := starts[-1] + size) < end:
        certain = [at for at in _starts(analysis, starts[-1], seen) if at <= seen - MARGIN]
        starts.extend(certain)
        size = WINDOW if certain else 2 * size
    starts.extend(_starts(analysis, starts[-1], end))
    return list(zip(starts, [*starts[1:], end], strict=True))


def _starts(analysis: Analysis, start: int, end: int) -> list[int]:
    """Where the sentences of `text[start:end]` start, but for the first."""
    starts: list[int] = []
    for sentence in sentencex.get_sentence_boundaries(analysis.language, analysis.text[start:end]):
        # Blank lines are reported as sentences of their own or before the next, and left out between sentencex's own blocks:
        # all go to the sentence before. Blanks at the very start go to the first.
        text = sentence["text"].lstrip("\r\n")
        if text and not text.isspace():
            starts.append(start + sentence["end_index"] - len(text))
    return [at for at in starts[1:] if analysis.clusters.floor(at) == at]
