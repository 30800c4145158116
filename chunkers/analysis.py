"""What is known of a text before any strategy looks at it: tokens, clusters, blocks, headings, structure.

Each part is computed at first use, once, and shared by all strategies and threads.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from chunkers import markdown
from chunkers.characters import code_points, white_space
from chunkers.clusters import Clusters
from chunkers.markdown import Block, Kind
from chunkers.sentences import sentence_starts
from chunkers.structure import Structure, between, structure
from chunkers.tokens import EncodedText, TokenIndex

T = TypeVar("T")
Span = tuple[int, int]


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
    """The shared analysis of one text. Every attribute is computed at first use, under one lock.

    Only the encoding of the text starts at once, beside whatever is done first.

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
        self._kept: dict[Hashable, Any] = {}

    def once(self, key: Hashable, compute: Callable[[], T]) -> T:
        """What `compute` gives, kept under `key`: for what several strategies make in the same way."""
        with self._lock:
            if key not in self._kept:
                self._kept[key] = compute()
            found: T = self._kept[key]
            return found

    @shared
    def tokens(self) -> TokenIndex:
        # Every strategy needs these too, and while they are looked for the text is being encoded.
        _ = self.headings, self.clusters
        index = TokenIndex(self._encoded)
        del self._encoded  # of several times the text's size, and the index has what it needs
        return index

    @shared
    def white(self) -> NDArray[np.bool_]:
        """For each character whether it is white space, shape (len(text),)."""
        return white_space()[code_points(self.text)]

    @shared
    def carriage_returns(self) -> bool:
        """Whether the text has any."""
        return "\r" in self.text

    @shared
    def clusters(self) -> Clusters:
        return Clusters(self.text)

    @shared
    def blocks(self) -> list[Block]:
        return markdown.blocks(self.text, self.media_type)

    def headings_at(self, offset: int) -> tuple[str, ...]:
        """The path of headings in force at `offset`; a heading is in force from its own first character."""
        starts, paths = self.headings
        if not starts:
            return ()
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

    def sentences(self, start: int, end: int) -> list[Span]:
        """Spans of the sentences of `text[start:end]`, in order and without a gap; white space belongs to the sentence before it."""
        if end <= start:
            return []
        starts = [start, *self._sentence_starts(start, end)[1:]]
        return list(zip(starts, [*starts[1:], end], strict=True))

    def sentences_of(self, paragraph: Block) -> list[Span]:
        """As `sentences`, of a whole paragraph; those of top-level paragraphs are found once."""
        if known := self._paragraph_sentences.get(paragraph.start):
            return list(zip(known, [*known[1:], paragraph.end], strict=True))
        return self.sentences(paragraph.start, paragraph.end)

    @shared
    def _paragraph_sentences(self) -> dict[int, list[int]]:
        """Where the sentences of each top-level paragraph start, by the start of the paragraph."""
        # Paragraphs that only an empty line parts are gone through in one go: `sentencex` parts them there too.
        runs: list[list[Block]] = []
        for block in self.blocks:
            if block.kind is Kind.PARAGRAPH:
                at = block.start
                if runs and runs[-1][-1].end == at - 1 and self.text[at - 2 : at] == "\n\n":
                    runs[-1].append(block)
                else:
                    runs.append([block])
        found: dict[int, list[int]] = {}
        for run in runs:
            starts = self._sentence_starts(run[0].start, run[-1].end)
            for block in run:
                # Indentation is no sentence of its own.
                line = self.text[block.start : block.end]
                first = block.start + len(line) - len(line.lstrip()) if line[0].isspace() else block.start
                found[block.start] = [block.start, *between(starts, first, block.end)]
        return found

    def _sentence_starts(self, start: int, end: int) -> list[int]:
        starts = sentence_starts(self.text, self.language, start, end)
        floor = self.clusters.floor
        return [at for at in starts if floor(at) == at] if self.clusters.any_within(start, end) else starts

    @shared
    def structure(self) -> Structure:
        return structure(self.text, self.blocks)
