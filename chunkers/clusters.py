"""Grapheme clusters: what a reader takes for one character may be several code points that no cut should part.

Most text has no cluster of more than one code point but CR LF. Only stretches outside ASCII are searched, and only clusters of
several code points are kept, so plain text costs one scan.
"""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_left, bisect_right

import numpy as np
import regex

from chunkers.characters import code_points

# A stretch outside ASCII with the ASCII character before it, which a combining mark may sit on, and the one after it, which some
# marks attach to. The one after is looked at only, since it may begin the next stretch.
_STRETCH = re.compile(r"[\x00-\x7f]?[^\x00-\x7f]+(?=([\x00-\x7f]?))")
# No cluster of several code points outside ASCII is without one of these.
_JOINS = regex.compile(
    r"[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}\p{GCB=Prepend}\p{GCB=Regional_Indicator}\p{GCB=L}\p{GCB=V}\p{GCB=T}]"
)
# Flags are paired here: `\X` counts back to the first of a run of flags for each of them, so a long run would cost its square.
_CLUSTER = regex.compile(r"\p{GCB=Regional_Indicator}{1,2}[\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}]*+|\X")

# Below this a set of the characters is made faster than a table of all that there are.
_SHORT = 40_000


def _characters_of(text: str) -> str:
    """The different characters of a text: far fewer than it has, and found much faster than one of a class is."""
    if len(text) < _SHORT:
        return "".join(set(text))
    seen = np.zeros(sys.maxunicode + 1, dtype=np.bool_)
    seen[code_points(text)] = True
    return "".join(map(chr, np.flatnonzero(seen)))


class Clusters:
    """Cluster boundaries of one text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts, self._ends = array("q"), array("q")
        self._crlf = "\r\n" in text
        self._find(text)
        self._any = self._crlf or bool(self._starts)

    def _find(self, text: str) -> None:
        if text.isascii() or not _JOINS.search(_characters_of(text)):
            return
        for stretch in _STRETCH.finditer(text):
            start, end = stretch.start(), stretch.end(1)
            if not _JOINS.search(text, start, end):
                continue
            for cluster in _CLUSTER.finditer(text, start, end):
                if self._ends and cluster.start() < self._ends[-1]:
                    # The stretch before ended inside this cluster.
                    self._ends[-1] = max(self._ends[-1], cluster.end())
                elif cluster.end() - cluster.start() > 1:
                    self._starts.append(cluster.start())
                    self._ends.append(cluster.end())

    def any_within(self, start: int, end: int) -> bool:
        """Whether there may be a cluster of more than one code point between `start` and `end`."""
        return self._crlf or bisect_left(self._starts, end) > bisect_right(self._ends, start)

    def floor(self, offset: int) -> int:
        """The last cluster boundary at or before `offset`."""
        return self._around(offset)[0] if self._any else offset

    def ceil(self, offset: int) -> int:
        """The first cluster boundary at or after `offset`."""
        return self._around(offset)[1] if self._any else offset

    def _around(self, offset: int) -> tuple[int, int]:
        if self._crlf and offset > 0 and self._text[offset - 1 : offset + 1] == "\r\n":
            return offset - 1, offset + 1
        if not self._starts:
            return offset, offset
        nearest = bisect_right(self._starts, offset) - 1
        if nearest >= 0 and self._starts[nearest] < offset < self._ends[nearest]:
            return self._starts[nearest], self._ends[nearest]
        return offset, offset
