"""Where sentences start, by the rules of `sentencex` for a language.

`sentencex` needs the square of a paragraph's length and is several times faster on a page than on ten. So it is shown a long text
through a window that moves on to where its last certain sentence starts: one whose end, and some text behind it, was in view.
"""

from __future__ import annotations

import sentencex

WINDOW = 4000
# What has to be in view behind the start of a sentence for it to be certain: more than a quotation in which nothing is parted.
MARGIN = 500


def sentence_starts(text: str, language: str, start: int, end: int) -> list[int]:
    """Offsets at which the sentences of `text[start:end]` start, the first at `start`; white space belongs to the sentence before it.

    A newline is no sentence end, a blank line is. A slice without any sentence end is one sentence.

    Args:
        language: ISO 639-1 code.
    """
    starts = [start]
    size = WINDOW
    while (seen := starts[-1] + size) < end:
        certain = [at for at in _inner(text, language, starts[-1], seen) if at <= seen - MARGIN]
        starts.extend(certain)
        size = WINDOW if certain else 2 * size
    starts.extend(_inner(text, language, starts[-1], end))
    return starts


def _inner(text: str, language: str, start: int, end: int) -> list[int]:
    """Where the sentences of `text[start:end]` start, but for the first."""
    starts: list[int] = []
    for sentence in sentencex.get_sentence_boundaries(language, text[start:end]):
        # Blank lines are reported as sentences of their own or before the next, and left out between sentencex's own blocks:
        # all go to the sentence before. Blanks at the very start go to the first.
        found = sentence["text"]
        if found[0] in "\r\n":
            found = found.lstrip("\r\n")
        if found and not found.isspace():
            starts.append(start + sentence["end_index"] - len(found))
    return starts[1:]
