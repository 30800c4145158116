"""Hits that fit a budget of tokens, as passages for a prompt. Pure.

Hits are taken best first, each if what it adds still fits. One that overlaps a passage of the same document, or follows it without a
gap, is merged into it: the passage is the slice of the document that both cover, and its tokens are counted anew. A hit with a parent
stands for that parent's text, which is there once; where only the parent is too large, the hit stands for itself.

While a document is being written again, or after a run that was killed just then, chunks of its old text stand beside those of the new,
and their offsets count in two texts. Points that were written together have the same stamp, so those of another stamp are never merged.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

from stores.hits import Hit


class Counter(Protocol):
    """Counts tokens, as `chunkers.encoding.count_tokens` and `chunkers.tokens.count_joined` do."""

    def count(self, text: str) -> int:
        """Tokens of a text."""

    def joined(self, left: str, left_tokens: int, right: str, right_tokens: int, overlap: int) -> int:
        """Tokens of `left + right[overlap:]`."""


@dataclass(frozen=True, slots=True)
class _Passage:
    """A passage and what it costs.

    Attributes:
        hit: it, as a hit.
        rank: that of its best hit.
        tokens: of its text, or of its parent's.
    """

    hit: Hit
    rank: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Packed:
    """What fits.

    Attributes:
        hits: the passages, best first.
        tokens: that they have together.
        full: something did not fit.
    """

    hits: list[Hit]
    tokens: int
    full: bool


def pack(hits: Iterable[Hit], max_tokens: int, counter: Counter, limit: int | None = None) -> Packed:
    """The best of `hits` that fit into `max_tokens`, overlapping ones merged.

    Args:
        hits: best first; those with a parent that is wanted have it.
        max_tokens: tokens of all texts together, a hit's with a parent being the parent's; contexts and separators are not counted.
        counter: counts them.
        limit: passages at most; any number by default.
    """
    count = cache(counter.count)
    passages = _Passages(max_tokens, limit)
    parents: set[tuple[str, int, int]] = set()
    full = False
    for rank, hit in enumerate(hits):
        around = (hit.source, hit.parent.start_char, hit.parent.end_char) if hit.parent else None
        if around in parents:
            continue
        if hit.parent and around and passages.take(_Passage(hit, rank, count(hit.parent.text)), []):
            parents.add(around)
            continue
        alone = _Passage(replace(hit, parent=None), rank, hit.metadata.get("token_count") or count(hit.text))
        touching = passages.touching(alone.hit)
        if not passages.take(_merged([alone, *touching], counter), touching):
            full = True
    return Packed(passages.hits(), passages.tokens, full)


class _Passages:
    """Passages by document, within both bounds.

    Attributes:
        tokens: that they have together.
    """

    def __init__(self, max_tokens: int, limit: int | None) -> None:
        self._max_tokens = max_tokens
        self._limit = limit
        self._by_source: dict[str, list[_Passage]] = {}
        self._number = self.tokens = 0

    def touching(self, hit: Hit) -> list[_Passage]:
        """Those without a parent that `hit` touches."""
        own = self._by_source.get(hit.source, ())
        return [passage for passage in own if passage.hit.parent is None and _touch(passage.hit, hit)]

    def take(self, passage: _Passage, replaced: list[_Passage]) -> bool:
        """Puts a passage in the place of those that it is merged of, if that fits."""
        tokens = self.tokens + passage.tokens - sum(one.tokens for one in replaced)
        number = self._number + 1 - len(replaced)
        if tokens > self._max_tokens or (self._limit is not None and number > self._limit):
            return False
        own = self._by_source.setdefault(passage.hit.source, [])
        for one in replaced:
            own.remove(one)
        own.append(passage)
        self.tokens, self._number = tokens, number
        return True

    def hits(self) -> list[Hit]:
        """The passages, best first."""
        found = [passage for own in self._by_source.values() for passage in own]
        return [passage.hit for passage in sorted(found, key=lambda passage: passage.rank)]


def _merged(touching: list[_Passage], counter: Counter) -> _Passage:
    """Passages of which each touches one before it in the text, as one."""
    first, *others = sorted(touching, key=lambda one: (one.hit.start_char, -one.hit.end_char))
    for other in others:
        first = _joined(first, other, counter)
    return first


def _joined(first: _Passage, second: _Passage, counter: Counter) -> _Passage:
    """Two passages that overlap or meet, the one that begins first before the other, as the slice that they cover. Score is that of the
    better one; headings, context and metadata, but for the place, are those of the first."""
    left, right = first.hit, second.hit
    text, tokens, overlap = left.text, first.tokens, left.end_char - right.start_char
    if overlap < len(right.text):
        tokens = counter.joined(left.text, first.tokens, right.text, second.tokens, overlap)
        text += right.text[overlap:]
    end = left.start_char + len(text)
    told = {**left.metadata, "end_char": end, "token_count": tokens}
    hit = replace(left, score=max(left.score, right.score), text=text, end_char=end, metadata=told)
    return _Passage(hit, min(first.rank, second.rank), tokens)


def _touch(one: Hit, other: Hit) -> bool:
    """Whether two hits of one document are of one writing of it, and overlap or meet."""
    start, end = max(one.start_char, other.start_char), min(one.end_char, other.end_char)
    if start > end or one.metadata.get("ingested_at") != other.metadata.get("ingested_at"):
        return False
    shared = [hit.text[start - hit.start_char : end - hit.start_char] for hit in (one, other)]
    return shared[0] == shared[1]
