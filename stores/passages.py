"""Hits that fit a budget of tokens, as passages for a prompt. Pure.

Hits are taken best first, each if what it adds still fits. One that overlaps a passage of the same document, or follows it without a
gap, is merged into it: the passage is the slice of the document that both cover, and its tokens are counted anew. A hit with a parent
stands for that parent's text, which is there once; where only the parent is too large, the hit stands for itself.

While a document is being written again, or after a run that was killed just then, chunks of its old text stand beside those of the new,
and their offsets count in two texts. Points that were written together have the same stamp, so those of another stamp are never merged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache

from stores.hits import Hit

Count = Callable[[str], int]


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
        full: something did not fit, so that to look further down would give little.
    """

    hits: list[Hit]
    full: bool


def pack(hits: Iterable[Hit], max_tokens: int, count: Count, limit: int | None = None) -> Packed:
    """The best of `hits` that fit into `max_tokens`, overlapping ones merged.

    Args:
        hits: best first; those with a parent that is wanted have it.
        max_tokens: tokens of all texts together, a hit's with a parent being the parent's; contexts and separators are not counted.
        count: tokens of a text.
        limit: passages at most; any number by default.
    """
    count = cache(count)
    passages: list[_Passage] = []
    parents: set[tuple[str, int, int]] = set()
    full = False
    for rank, hit in enumerate(hits):
        around = (hit.source, hit.parent.start_char, hit.parent.end_char) if hit.parent else None
        if around in parents:
            continue
        changed = None
        if hit.parent and around:
            changed = _fitting([*passages, _Passage(hit, rank, count(hit.parent.text))], max_tokens, limit)
        if changed is None:
            changed = _fitting(_merged(passages, replace(hit, parent=None), rank, count), max_tokens, limit)
        elif around:
            parents.add(around)
        if changed is None:
            full = True
        else:
            passages = changed
    return Packed([passage.hit for passage in sorted(passages, key=lambda passage: passage.rank)], full)


def _fitting(passages: list[_Passage], max_tokens: int, limit: int | None) -> list[_Passage] | None:
    """`passages` if they are within both bounds, else None."""
    within = limit is None or len(passages) <= limit
    return passages if within and sum(passage.tokens for passage in passages) <= max_tokens else None


def _merged(passages: list[_Passage], hit: Hit, rank: int, count: Count) -> list[_Passage]:
    """`passages` with a hit put in, and all that it touches made one."""
    apart: list[_Passage] = []
    touching: list[_Passage] = []
    for passage in passages:
        one = passage.hit
        (touching if one.parent is None and _touch(one, hit) else apart).append(passage)
    together = hit
    for passage in touching:
        together = joined(together, passage.hit)
    if together is hit:
        return [*apart, _Passage(hit, rank, hit.metadata.get("token_count") or count(hit.text))]
    tokens = count(together.text)
    together = replace(together, metadata={**together.metadata, "token_count": tokens})
    return [*apart, _Passage(together, min(rank, *(passage.rank for passage in touching)), tokens)]


def _touch(one: Hit, other: Hit) -> bool:
    """Whether two hits are of one writing of one document, and overlap or meet."""
    if one.source != other.source or one.metadata.get("ingested_at") != other.metadata.get("ingested_at"):
        return False
    start, end = max(one.start_char, other.start_char), min(one.end_char, other.end_char)
    shared = [hit.text[start - hit.start_char : end - hit.start_char] for hit in (one, other)]
    return start <= end and shared[0] == shared[1]


def joined(one: Hit, other: Hit) -> Hit:
    """Two hits of one document that overlap or meet, as the slice that they cover. Score is that of the better one; headings, context
    and metadata, but for the place, are those of the one that begins first."""
    first, second = sorted((one, other), key=lambda hit: (hit.start_char, -hit.end_char))
    if second.end_char <= first.end_char:
        text, end = first.text, first.end_char
    else:
        text, end = first.text + second.text[first.end_char - second.start_char :], second.end_char
    return replace(
        first,
        score=max(one.score, other.score),
        text=text,
        end_char=end,
        metadata={**first.metadata, "end_char": end},
    )
