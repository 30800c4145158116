"""Tokens and characters: how many cl100k_base tokens lie in any slice of a text, without encoding the text again.

A document is tokenised once. The byte lengths of its tokens give the character offset at which each token ends, and the index
answers `count(start, end)` for any slice exactly, although the slice, encoded on its own, need not give the same tokens as
the document does there. The reason is cl100k's pre-tokenizer: it always ends a piece where a letter is followed by
something that is no letter, and where a digit is followed by something that is no digit, whatever stands before or after. Between
two such places ("sync" positions here) the tokens of the slice are the tokens of the document. So an exact count is a fresh
encoding of the slice's head up to its first sync position, plus the index from there to its last, plus a fresh encoding of the tail.
A slice that begins with a line has no such head, for a piece ends with the newline before it, unless white space follows.
"""

from __future__ import annotations

import os
import sys
import unicodedata
from array import array
from bisect import bisect_left, bisect_right
from functools import lru_cache
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from chunkers import encoding
from chunkers.characters import code_points

# The longest token of cl100k_base has 128 bytes, so a slice of more than 128 * n characters has more than n tokens.
LONGEST_TOKEN = 128
# A character has at most 4 bytes and a token at least one, so a slice of n characters has at most 4 * n tokens.
LONGEST_CHARACTER = 4

# From this length on a text is encoded beside other work: before it the hand-over costs as much.
WORTH_A_THREAD = 4000
# Less than this is not parted further.
SMALLEST_PART = 4000
_LINE_ENDS = ("\n", "\r", "")

_LETTER, _DIGIT, _OTHER = 1, 2, 3


@lru_cache(maxsize=4096)
def _count_recent(text: str) -> int:
    return encoding.count_tokens(text)


def _count_short(text: str) -> int:
    """As `count_tokens`; a text of a few characters, such as a full stop or a word, is remembered."""
    return _count_recent(text) if len(text) <= 16 else encoding.count_tokens(text)


@lru_cache(maxsize=1)
def _character_classes() -> NDArray[np.uint8]:
    """Letter, digit or other for each code point of the basic plane; 0 where that is not settled, and beyond it.

    The tokenizer carries a Unicode table of another version than Python's. A code point that was assigned in Unicode 3.2 and
    has kept its class until today has it in every version between; only those count, so no sync position can be wrong.
    """
    classes = np.zeros(sys.maxunicode + 1, dtype=np.uint8)
    kinds = {"L": _LETTER, "N": _DIGIT, "P": _OTHER, "S": _OTHER, "Z": _OTHER, "M": _OTHER}
    for point in range(0x10000):
        character = chr(point)
        old, new = unicodedata.ucd_3_2_0.category(character), unicodedata.category(character)
        if old[0] == new[0] or old == new:
            classes[point] = kinds.get(new[0], _OTHER if new == "Cc" else 0)
    return classes


def _sync_positions(text: str) -> NDArray[np.int32]:
    """Offsets p, 0 < p < len(text), at which the pre-tokenizer ends a piece whatever the surroundings."""
    classes = _character_classes()[code_points(text)]
    left, right = classes[:-1], classes[1:]
    ends = ((left == _LETTER) | (left == _DIGIT)) & (right != 0) & (left != right)
    return (np.flatnonzero(ends) + 1).astype(np.int32)


# How far from where two texts meet a sync position is looked for.
_NEAR = 500


def count_joined(left: str, left_tokens: int, right: str, right_tokens: int, overlap: int = 0) -> int:
    """How many tokens `left + right[overlap:]` has, exactly, without encoding more than some characters where the two meet.

    Args:
        left, right: texts.
        left_tokens, right_tokens: how many tokens each has.
        overlap: characters at the end of `left` that `right` begins with.
    """
    begin = max(len(left) - _NEAR, 0)
    ends = _sync_positions(left[begin:]) + begin
    first = max(overlap - 1, 0)
    starts = _sync_positions(right[first : first + _NEAR]) + first
    cut = int(ends[-1]) if len(ends) else 0
    rest = int(starts[0]) if len(starts) else len(right)
    before = left_tokens - encoding.count_tokens(left[cut:]) if cut else 0
    after = right_tokens - encoding.count_tokens(right[:rest]) if rest < len(right) else 0
    return before + encoding.count_tokens(left[cut:] + right[overlap:rest]) + after


class EncodedText:
    """The tokens of a text, encoded in the encoding thread from now on, so that they are there when they are needed.

    The thread takes half of the text, then half of what is left, and so on. Who comes for the tokens does the same instead of waiting.
    A part ends at a sync position, so the tokens of the parts are those of the text.

    Attributes:
        sync: offsets p, 0 < p < len(text), at which the pre-tokenizer ends a piece whatever the surroundings.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.sync = _sync_positions(text) if text else np.zeros(0, dtype=np.int32)
        self._parts: dict[int, NDArray[np.uint32]] = {}
        self._starts: list[int] = []
        self._reached = 0
        self._lock = Lock()
        self._process = os.getpid()
        worth_it = len(text) >= WORTH_A_THREAD and (os.cpu_count() or 1) > 1
        self._begun = encoding.begin(self._encode_there) if worth_it else None

    def _encode_there(self) -> None:
        encoding.load()
        self._encode_parts()

    def _encode_parts(self) -> None:
        while (part := self._next_part()) is not None:
            start, end = part
            self._parts[start] = encoding.encode(self.text[start:end])

    def _next_part(self) -> tuple[int, int] | None:
        """Half of what nobody has begun with; None once all of it is begun."""
        with self._lock:
            start = self._reached
            left = len(self.text) - start
            if left <= 0:
                return None
            self._starts.append(start)
            size = max(left // 2, SMALLEST_PART)
            at = bisect_left(self.sync, start + size)
            self._reached = int(self.sync[at]) if at < len(self.sync) else len(self.text)
            return start, self._reached

    def tokens(self) -> NDArray[np.uint32]:
        """All tokens of the text, in order."""
        if self._begun is None or self._process != os.getpid():
            # The thread of the process that this one was forked from is out of reach.
            return encoding.encode(self.text)
        self._encode_parts()
        self._begun.result()
        if len(self._parts) < len(self._starts):
            # Somebody came before, and was interrupted in a part.
            return encoding.encode(self.text)
        return np.concatenate([self._parts[start] for start in self._starts])


def _token_ends(text: str, tokens: NDArray[np.uint32]) -> NDArray[np.int32]:
    """Character offset at which each token of `text` ends; for one that ends inside a character, the offset of that character."""
    byte_ends = np.cumsum(encoding.token_bytes()[tokens], dtype=np.int32)
    if text.isascii():
        return byte_ends
    raw = np.frombuffer(text.encode("utf-8"), dtype=np.uint8)
    begins = np.append((raw & 0xC0) != 0x80, True)
    begun = np.cumsum(begins, dtype=np.int32)
    # A token ends inside a character where the byte after it begins none.
    return begun[byte_ends - 1] - ~begins[byte_ends]


def _plain(values: NDArray[np.int32]) -> array[int]:
    """As a plain array: bisect on them is several times faster than on numpy's."""
    found = array("i")
    found.frombytes(np.ascontiguousarray(values, dtype=np.int32).view(np.uint8).data)
    return found


class TokenIndex:
    """Token counts of slices of one text. Safe to use from several threads once built.

    Args:
        encoded: any text without lone surrogates.
    """

    def __init__(self, encoded: EncodedText) -> None:
        self.text = text = encoded.text
        ends = _token_ends(text, encoded.tokens())
        sync = encoded.sync
        self.ends = _plain(ends)
        self._sync = _plain(np.concatenate(([0], sync, [len(text)])))
        # The first token whose end is p ends exactly there: those that end inside the character at p come after it.
        before = np.searchsorted(ends, sync, side="left")
        before += 1
        self._before = _plain(np.concatenate(([0], before, [len(ends)])))

    def __len__(self) -> int:
        return len(self.ends)

    def count(self, start: int, end: int) -> int:
        """Tokens of `text[start:end]`, exactly what a fresh encoding of that slice gives."""
        if end <= start:
            return 0
        text, sync = self.text, self._sync
        last = bisect_right(sync, end) - 1
        tail = sync[last]
        if tail <= start:
            return encoding.count_tokens(text[start:end])
        total = self._before[last]
        if text[start - 1 : start] in _LINE_ENDS and not text[start].isspace():
            # The document has the end of a piece here too, and what follows depends on nothing before.
            total -= bisect_left(self.ends, start) + 1 if start else 0
        else:
            first = bisect_left(sync, start)
            total -= self._before[first]
            if sync[first] > start:
                total += _count_short(text[start : sync[first]])
        return total + _count_short(text[tail:end]) if end > tail else total

    def fits(self, start: int, end: int, cap: int) -> bool:
        """Whether `text[start:end]` has at most `cap` tokens. Encodes only what could decide it, never more than 128 * cap characters."""
        size = end - start
        if size * LONGEST_CHARACTER <= cap:
            return True
        if size > LONGEST_TOKEN * cap:
            return False
        sync = self._sync
        first = bisect_left(sync, start)
        last = bisect_right(sync, end, first, min(first + size + 1, len(sync))) - 1
        if first <= last:
            inner = self._before[last] - self._before[first]
            if inner > cap or inner + (size - sync[last] + sync[first]) * LONGEST_CHARACTER <= cap:
                return inner <= cap
        return self.count(start, end) <= cap

    def surely_fit(self, starts: NDArray[np.int64], ends: NDArray[np.int64], cap: int) -> NDArray[np.bool_]:
        """For each slice of the text whether it certainly has at most `cap` tokens, without encoding any; shape (slices,)."""
        sync, before = (np.frombuffer(values, dtype=np.int32) for values in (self._sync, self._before))
        first = np.searchsorted(sync, starts)
        last = np.maximum(np.searchsorted(sync, ends, side="right") - 1, first)
        inner = before[last] - before[first]
        outer = (ends - starts) - (sync[last] - sync[first])
        # Where no sync position lies inside, `outer` is the whole slice.
        return np.asarray(inner + outer * LONGEST_CHARACTER <= cap)

    def tokens_until(self, offset: int) -> int:
        """Tokens of the document that end at or before `offset`."""
        return bisect_right(self.ends, offset)

    def offset_after(self, tokens: int) -> int:
        """Where the first `tokens` tokens of the document end; the start of the character if that is inside one."""
        if tokens <= 0:
            return 0
        return self.ends[min(tokens, len(self.ends)) - 1] if self.ends else 0
