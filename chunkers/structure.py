"""Where a text may be cut: the boundaries of its blocks by strength, and the bonds across which it should not be.

Boundaries are arrays of positions by level, strongest first: six levels of headings, then top-level blocks, then what nests inside
them (list items, table rows, blocks in quotes) by depth. A bond holds together what means little apart: headings and the first
word under them, a table's header and its first row, a fence's opener and its first line, its last line and its closer. A bond that
is too large gives way at its loose joints first (between two headings, between header and row, before a closer), then at the
others.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from chunkers.markdown import NEWLINE, Block, Kind

HEADING_LEVELS = 6
_MARKS = re.compile(r"(?:\s*(?:[-+*]|\d{1,9}[.)])\s+(?:\[[ xX]\]\s+)?|\s*>[ \t]*)*")


@dataclass(frozen=True, slots=True)
class Table:
    """A table's header (with its delimiter row) and body, as spans."""

    start: int
    body: int
    end: int


@dataclass(frozen=True, slots=True)
class Structure:
    """Cut positions by level, strongest first; bonds and their joints; tables. Everything is in order of position.

    A bond is a pair (a, b) that holds every cut with a < cut <= b.
    """

    levels: tuple[list[int], ...]
    bonds: list[tuple[int, int]]
    loose_joints: list[int]
    joints: list[int]
    tables: list[Table]

    def holds(self, cut: int) -> bool:
        """Whether a cut at this position would break a bond."""
        at = bisect_left(self.bonds, (cut,)) - 1
        return at >= 0 and cut <= self.bonds[at][1]

    def table_at(self, offset: int) -> Table | None:
        """The table in whose body `offset` lies."""
        at = bisect_right(self.tables, offset, key=lambda table: table.start) - 1
        return self.tables[at] if at >= 0 and self.tables[at].body <= offset < self.tables[at].end else None


def structure(text: str, blocks: Sequence[Block]) -> Structure:
    """The structure of a text with these top-level blocks."""
    reading = _Reading(text)
    reading.siblings(blocks, 0, HEADING_LEVELS)
    return Structure(
        tuple(sorted(reading.levels[level]) for level in sorted(reading.levels)),
        sorted(reading.bonds),
        sorted(reading.loose),
        sorted(reading.loose | reading.tight),
        sorted(reading.tables, key=lambda table: table.start),
    )


def leads(blocks: Sequence[Block]) -> list[bool]:
    """For each of blocks that follow one another whether it only leads to the next: it is a heading, or stands under one and is no text.

    A thematic break or link definitions under a heading are not yet what it is the heading of, unless its section ends there.
    """
    found = [block.kind is Kind.HEADING for block in blocks]
    level = 0  # of the heading that nothing but `waiting` stands under
    waiting: list[int] = []
    for number, block in enumerate(blocks):
        if block.kind is Kind.OTHER and level:
            waiting.append(number)
            continue
        goes_on = block.kind is not Kind.HEADING or block.level > level
        for other in waiting if goes_on else ():
            found[other] = True
        waiting = []
        level = block.level
    return found


@dataclass(slots=True)
class _Reading:
    """What has been found so far on the way through the blocks."""

    text: str
    levels: dict[int, list[int]] = field(default_factory=lambda: {level: [] for level in range(HEADING_LEVELS + 1)})
    bonds: list[tuple[int, int]] = field(default_factory=list)
    loose: set[int] = field(default_factory=set)
    tight: set[int] = field(default_factory=set)
    tables: list[Table] = field(default_factory=list)

    def siblings(self, blocks: Sequence[Block], parent: int, level: int) -> None:
        """Read blocks that follow one another inside a block that starts at `parent`, and what is in them."""
        lead: int | None = None
        reached = parent
        for block, leads_on in zip(blocks, leads(blocks), strict=True):
            is_heading = block.kind is Kind.HEADING
            if lead is not None:
                self.bonds.append((lead, block.start if leads_on else self._first_word(block)))
                (self.loose if leads_on else self.tight).add(block.start)
            elif block.start > parent:
                at = block.level - 1 if is_heading and level == HEADING_LEVELS else level
                # Lines of nothing but a quote's marks are between blocks; they go with the one that follows.
                between_blocks = level > HEADING_LEVELS and reached > parent
                self.levels.setdefault(at, []).append(reached if between_blocks else block.start)
            # Definitions may be many: what follows them is kept with the last.
            lead = [block.start, *self._lines(block.start, block.end)][0 if is_heading else -1] if leads_on else None
            reached = block.end
            if block.kind is Kind.TABLE:
                self._table(block, level + 1)
            elif block.kind is Kind.FENCE:
                self._fence(block)
            elif block.children:
                self.siblings(block.children, block.start, level + 1)

    def _first_word(self, block: Block) -> int:
        """Where the text of a block starts, behind the marks of lists and quotes."""
        marks = _MARKS.match(self.text, block.start, block.end) if block.children else None
        return marks.end() if marks else block.start

    def _table(self, table: Block, level: int) -> None:
        rows = table.children[1:]
        self.levels.setdefault(level, []).extend(row.start for row in rows[1:])
        self.bonds.append((table.start, (rows[0].end if rows else table.end) - 1))
        body = rows[0].start if rows else table.end
        self.tight.update(self._lines(table.start, body))
        if rows:
            self.loose.add(body)
            self.tables.append(Table(table.start, body, table.end))

    def _fence(self, fence: Block) -> None:
        lines = self._lines(fence.start, fence.end)
        if lines:
            self.bonds.append((fence.start, lines[0]))
            self.tight.add(lines[0])
        if len(lines) > 1:
            self.bonds.append((lines[-1] - 1, lines[-1]))
            self.loose.add(lines[-1])

    def _lines(self, start: int, end: int) -> list[int]:
        """Where the lines between `start` and `end` start, but for the first."""
        return [newline.end() for newline in NEWLINE.finditer(self.text, start, end) if newline.end() < end]


def between(positions: list[int], start: int, end: int) -> list[int]:
    """Those of the sorted `positions` that lie strictly between `start` and `end`."""
    return positions[bisect_right(positions, start) : bisect_left(positions, end)]
