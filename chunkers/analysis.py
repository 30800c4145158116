"""What is known of a text before any strategy looks at it: tokens, clusters, blocks, headings, structure.

Each part is computed at first use, once, and shared by all strategies and threads.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from chunkers import markdown
from chunkers.clusters import Clusters
from chunkers.markdown import Block, Kind
from chunkers.structure import Structure, structure
from chunkers.tokens import EncodedText, TokenIndex

T = TypeVar("T")


class shared(Generic[T]):  # noqa: N801 - reads as a decorator, like `property`
    """An attribute that is computed at first use, under the instance's lock, and kept."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        with instance._lock:
            if self._name not in instance.__dict__:
                # From now on the instance's own attribute is found first, and neither lock nor call stands before it.
                instance.__dict__[self._name] = self._compute(instance)
            return instance.__dict__[self._name]


class Analysis:
    """The shared analysis of one text. Every attribute is computed at first use, under one lock; only the encoding of a long text starts at once.

    Args:
        text: a text without lone surrogates.
        media_type: `text/markdown` or `text/plain`.
        language: ISO 639-1 code for the sentence rules.
    """

    def __init__(self, text: str, media_type: str, language: str) -> None:
        self.text = text
        self.media_type = media_type
        self.language = language
        self._lock = threading.RLock()
        self._encoded = EncodedText(text)

    @shared
    def tokens(self) -> TokenIndex:
        index = TokenIndex(self._encoded)
        del self._encoded  # of several times the text's size, and the index has what it needs
        return index

    @shared
    def clusters(self) -> Clusters:
        return Clusters(self.text)

    @shared
    def blocks(self) -> list[Block]:
        return markdown.blocks(self.text, self.media_type)

    def headings_at(self, offset: int) -> tuple[str, ...]:
        """The path of headings in force at `offset`; a heading is in force from its own first character."""
        starts, paths = self.headings
        at = bisect_right(starts, offset) - 1
        return paths[at] if at >= 0 else ()

    @shared
    def headings(self) -> tuple[list[int], list[tuple[str, ...]]]:
        starts: list[int] = []
        paths: list[tuple[str, ...]] = []
        stack: list[tuple[int, str]] = []
        for block in self.blocks if markdown.may_have_headings(self.text, self.media_type) else ():
            if block.kind is not Kind.HEADING:
                continue
            while stack and stack[-1][0] >= block.level:
                stack.pop()
            stack.append((block.level, block.title))
            starts.append(block.start)
            paths.append(tuple(title for _, title in stack if title))
        return starts, paths

    @shared
    def structure(self) -> Structure:
        return structure(self.text, self.blocks)
