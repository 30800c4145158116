"""Where sentences start, by the rules of `sentencex` for a language, and a few of our own where those fall short.

`sentencex` needs the square of a paragraph's length and is several times faster on a page than on ten. So it is shown a long text
through a window that moves on to where its last certain sentence starts: one whose end, and some text behind it, was in view. A
stretch of several windows in which no sentence ends (a dump of records, a wall of quotes) is gone through in parts; it stays one
sentence.

What is mended: a stop of ASCII ends no sentence where a name or a number goes on (`./a.out`, `foo.bar.Baz`), nor after some common
abbreviations; what closes quotes, brackets and emphasis stays with the sentence that it closes, and so does a note's mark; and some
stops of other scripts are added.
"""

from __future__ import annotations

import re
from itertools import pairwise

import sentencex

from chunkers.abbreviations import BEFORE_NUMBERS, TITLES

WINDOW = 4000
# What has to be in view behind the start of a sentence for it to be certain: more than a quotation in which nothing is parted.
MARGIN = 500
# As far as the window grows where no sentence is certain.
LONGEST_WINDOW = 2 * WINDOW

_OPENERS = "“‘「『《〈（(【〔[{«"
_PAIRED = "”’」』》〉）)】〕]}»"
_CLOSERS = _PAIRED + "\"'"
# Chinese and Japanese semicolons and ellipses, and the full stops of Khmer and Tibetan.
_MORE_STOPS = "；…។៕།"
_CLOSING = rf"[{re.escape(_CLOSERS)}]*"
_MORE_ENDS = re.compile(rf"(?:[；។៕།]|…+(?={_CLOSING}[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])){_CLOSING}\s*")
# What closes quotes, brackets and emphasis, tags and notes, and the white space after it: all of the sentence before.
_BEHIND = re.compile(rf"(?:[{re.escape(_CLOSERS)}*_~`]|\[\^?\w{{1,20}}\]|</\w{{1,20}}>|<br ?/?>)*+\s*+")
# What a stop of ASCII before it is inside of: a name, a number, a path, an address, an image, a note.
_GOES_ON = re.compile(r"[a-zA-Z0-9/._(\[]")
# More than any abbreviation has.
_LONGEST_WORD = 16


def sentence_starts(text: str, language: str, start: int, end: int) -> list[int]:
    """Offsets at which the sentences of `text[start:end]` start, the first at `start`; white space belongs to the sentence before it.

    A newline is no sentence end, a blank line is. A slice without any sentence end is one sentence.

    Args:
        language: ISO 639-1 code.
    """
    starts = [start]
    size = WINDOW
    while (seen := start + size) < end:
        certain = [at for at in _inner(text, language, start, seen) if at <= seen - MARGIN]
        starts.extend(certain)
        if certain or size >= LONGEST_WINDOW:
            start = certain[-1] if certain else _gap(text, start, seen)
            size = WINDOW
        else:
            size *= 2
    starts.extend(_inner(text, language, start, end))
    return starts


def _gap(text: str, start: int, end: int) -> int:
    """Where the last line in `text[start:end]` starts, else its last word, else `end`."""
    for places in ("\n", "\r", " "):
        if (found := text.rfind(places, start, end)) >= start:
            return found + 1
    return end


def _inner(text: str, language: str, start: int, end: int) -> list[int]:
    """Where the sentences of `text[start:end]` start, but for the first."""
    window = text[start:end]
    starts: list[int] = []
    for sentence in sentencex.get_sentence_boundaries(language, window):
        # Blank lines are reported as sentences of their own or before the next, and left out between sentencex's own blocks:
        # all go to the sentence before. Blanks at the very start go to the first.
        found = sentence["text"]
        if found[0].isspace():
            found = found.lstrip()
        if found:
            starts.append(start + sentence["end_index"] - len(found))
    # One that is moved may come to where the next is.
    kept = list(dict.fromkeys(moved for at in starts[1:] if (moved := _mended(text, language, at, end))))
    if not window.isascii() and any(stop in window for stop in _MORE_STOPS):
        return sorted({*kept, *_more(text, [start, *kept, end])})
    return kept


def _mended(text: str, language: str, at: int, end: int) -> int | None:
    """The sentence start `at`, moved behind the brackets and quotes that close the sentence before it; None if no sentence starts."""
    before = text[at - 1]
    if before.isspace():
        # A stop, one white space, a start: what nearly every sentence is like.
        if text[at - 2] == "." and _is_abbreviation(text, language, at - 2, at):
            return None
        return at
    behind = _BEHIND.match(text, at, end)
    after = behind.end() if behind else at
    stop = at - 1
    while text[stop] in _CLOSERS and stop:
        stop -= 1
    if after == end or (text[stop] == "．" and text[at].isdigit()):
        return None
    inside = text[stop] in ".!?" and not text[after - 1].isspace() and _GOES_ON.match(text, after)
    return None if inside else after


def _is_abbreviation(text: str, language: str, stop: int, following: int) -> bool:
    """Whether the full stop at `stop` is that of an abbreviation which `sentencex` does not know in this place."""
    words = text[max(stop - _LONGEST_WORD, 0) : stop].split()
    word = words[-1].lstrip(_OPENERS + "\"'*_") if words else ""
    if word in TITLES.get(language, ()):
        return True
    return word in BEFORE_NUMBERS.get(language, ()) and not text[following].isupper()


def _more(text: str, edges: list[int]) -> list[int]:
    """Starts behind the stops that `sentencex` does not know, outside quotes and brackets, in sentences between these edges."""
    starts: list[int] = []
    for start, end in pairwise(edges):
        depth, reached = 0, start
        for stop in _MORE_ENDS.finditer(text, start, end):
            between = text[reached : stop.start()]
            depth += sum(map(between.count, _OPENERS)) - sum(map(between.count, _PAIRED))
            reached = stop.start()
            if depth <= 0 and stop.end() < end:
                starts.append(stop.end())
    return starts
