"""Sentences as spans that tile a slice of a text, by the rules of `sentencex` for the document's language."""

from __future__ import annotations

import sentencex

from chunkers.analysis import Analysis
from chunkers.spans import Span


def sentence_spans(analysis: Analysis, start: int, end: int) -> list[Span]:
    """Spans of the sentences of `text[start:end]`, in order and without a gap; white space belongs to the sentence before it.

    A newline is no sentence end, a blank line is. A slice without any sentence end is one sentence.
    """
    starts: list[int] = []
    for sentence in sentencex.get_sentence_boundaries(analysis.language, analysis.text[start:end]):
        # Blank lines are reported as sentences of their own, and left out between sentencex's own blocks: both go to the
        # sentence before. Blanks at the very start go to the first.
        at = start + sentence["start_index"]
        if not sentence["text"].isspace() and analysis.clusters.floor(at) == at:
            starts.append(at)
    if end <= start:
        return []
    starts[:1] = [start]
    return list(zip(starts, [*starts[1:], end], strict=True))
