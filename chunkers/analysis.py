"""What is known of a text before any strategy looks at it: tokens, clusters, blocks, headings.

Each part is computed at first use, once, and shared by all strategies and threads. The structure that strategies cut along is
kept as arrays of positions by level, from the strongest boundary to the weakest: six levels of headings, then top-level blocks,
then what nests inside them (list items, table rows, blocks in quotes) by depth. `glued` are positions at which a cut would part
what belongs together: a heading and its text, a table's header and its first row, a fence's opener and its first line.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from chunkers import markdown
from chunkers.clusters import Clusters
from chunkers.markdown import Block, Kind
from chunkers.tokens import TokenIndex

HEADING_LEVELS = 6
_NEWLINE = re.compile(r"\r\n?|\n")


@dataclass(frozen=True, slots=True)
class Table:
    """A table's header (with its delimiter row) and body, as spans."""

    start: int
    body: int
    end: int


@dataclass(frozen=True, slots=True)
class Structure:
    """Cut positions by level (strongest first), and the positions where nothing may be parted while it fits."""

    levels: tuple[list[int], ...]
    glued: frozenset[int]
    tables: tuple[Table, ...]


T = TypeVar("T")


class shared(Generic[T]):  # noqa: N801 - reads as a decorator, like `property`
    """An attribute that is computed at first use, under the instance's lock, and kept."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self._compute = compute

    def __set_name__(self, owner: type, name: str) -> None:
        self._slot = f"_{name}"

    def __get__(self, instance: Any, owner: type | None = None) -> T:
        with instance._lock:
            if self._slot not in instance.__dict__:
                instance.__dict__[self._slot] = self._compute(instance)
            return instance.__dict__[self._slot]


class Analysis:
    """The shared analysis of one text. Every attribute is computed at first use, under one lock.

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

    @shared
    def tokens(self) -> TokenIndex:
        return TokenIndex(self.text)

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

    def table_header_for(self, offset: int) -> str | None:
        """The header rows of the table in whose body `offset` lies; None elsewhere."""
        tables = self.structure.tables
        at = bisect_right(tables, offset, key=lambda table: table.start) - 1
        if at >= 0 and tables[at].body <= offset < tables[at].end:
            return self.text[tables[at].start : tables[at].body].strip()
        return None

    @shared
    def headings(self) -> tuple[list[int], list[tuple[str, ...]]]:
        starts: list[int] = []
        paths: list[tuple[str, ...]] = []
        stack: list[tuple[int, str]] = []
        for block in self.blocks:
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
        by_level: dict[int, list[int]] = {level: [] for level in range(HEADING_LEVELS + 1)}
        glued: set[int] = set()
        tables: list[Table] = []
        after_heading = False
        for block in self.blocks:
            if after_heading:
                glued.add(block.start)
            elif block.start > 0:
                by_level[block.level - 1 if block.kind is Kind.HEADING else HEADING_LEVELS].append(block.start)
            after_heading = block.kind is Kind.HEADING
            self._descend(block, HEADING_LEVELS + 1, by_level, glued, tables)
        levels = (sorted(by_level[level]) for level in sorted(by_level))
        return Structure(tuple(levels), frozenset(glued), tuple(sorted(tables, key=lambda table: table.start)))

    def _descend(
        self, block: Block, depth: int, by_level: dict[int, list[int]], glued: set[int], tables: list[Table]
    ) -> None:
        if block.kind is Kind.TABLE:
            body = [child.start for child in block.children[1:]]
            by_level.setdefault(depth, []).extend(body[1:])
            # Between header, delimiter row and first row.
            glued.update(
                newline.end() for newline in _NEWLINE.finditer(self.text, block.start, (body or [block.end])[0])
            )
            if body:
                tables.append(Table(block.start, body[0], block.end))
            return
        if block.kind is Kind.FENCE:
            lines = [newline.end() for newline in _NEWLINE.finditer(self.text, block.start, block.end - 1)]
            glued.update(lines[:1])
            glued.update(lines[-1:])
            return
        for child in block.children:
            if child.start > block.start:
                by_level.setdefault(depth, []).append(child.start)
            self._descend(child, depth + 1, by_level, glued, tables)


def between(positions: list[int], start: int, end: int) -> list[int]:
    """Those of the sorted `positions` that lie strictly between `start` and `end`."""
    return positions[bisect_right(positions, start) : bisect_left(positions, end)]
