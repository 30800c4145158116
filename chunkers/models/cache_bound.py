"""What goes when the cache file is full, and how it is known what was used when.

Size is what the file's pages hold: pages that rows have left are used again, so that a file does not grow over its bound once it is kept
under it, and needs no copying for that. Over the bound, rows go down to nine tenths of it, so that room is made seldom, and the least
recently used go first, over both tables together. They go in transactions of a few hundred: other processes get their turn between two.

A use is a stamp in seconds since the epoch, later for each key than for the one before. Stamps are collected in memory and written many
at a time, since a lookup should not cost a write; a crash forgets the last of them and nothing else.
"""

from __future__ import annotations

import math
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from chunkers.models.cache_schema import TABLES

K = TypeVar("K")

# 4 GiB: some 500,000 vectors of 1,536 dimensions.
MAX_BYTES = 4 * 1024**3
# Down to this part of the bound.
_KEPT = 0.9

# Rows deleted in one transaction, and bytes at least that are worth one.
_DELETED_AT_ONCE = 256
_LEAST = 16_384
# What a row takes besides its value: the key, twice, the model's name, the index.
_BESIDES = 128

# Uses that are kept in memory.
USES = 4096


class Row(NamedTuple):
    """A row that may go; they sort by use."""

    used: float
    table: str
    number: int
    size: int


class Uses:
    """When keys were asked for, as far as that is not in the file yet. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last = 0.0
        self._of: dict[str, dict[bytes, float]] = {table: {} for table in TABLES}

    def follow(self, stamp: float) -> None:
        """Stamps from now on are later than this one, though the clock may have been put back since."""
        with self._lock:
            self._last = max(self._last, stamp)

    def stamp(self) -> float:
        """Now, and later than any stamp before."""
        with self._lock:
            return self._next()

    def note(self, table: str, keys: Iterable[bytes]) -> bool:
        """Takes down that `keys` were asked for, in this order. Whether it is time to write."""
        with self._lock:
            for key in keys:
                self._of[table][key] = self._next()
            return sum(map(len, self._of.values())) >= USES

    def take(self) -> dict[str, dict[bytes, float]]:
        """All that was noted, and forgets it."""
        with self._lock:
            taken, self._of = self._of, {table: {} for table in TABLES}
            return taken

    def _next(self) -> float:
        self._last = max(time.time(), math.nextafter(self._last, math.inf))
        return self._last


def goal(size: int, incoming: int, bound: int) -> int | None:
    """Down to how many bytes rows go, so that `incoming` ones have room; None if none has to go."""
    return max(0, int(bound * _KEPT) - incoming) if size + incoming > bound else None


def first_to_go(rows: Iterable[Row], wanted: int) -> list[Row]:
    """The least recently used of `rows` that take `wanted` bytes together, or all of them; always one."""
    going: list[Row] = []
    taken = 0
    for row in sorted(rows):
        if going and taken >= max(wanted, _LEAST):
            break
        going.append(row)
        taken += row.size + _BESIDES
    return going


def portions(sizes: Mapping[K, int], most: int, most_bytes: int) -> Iterator[list[K]]:
    """The keys of `sizes` in order, in portions of `most` at most, and of `most_bytes` unless one alone has more."""
    portion: list[K] = []
    taken = 0
    for key, size in sizes.items():
        if portion and (len(portion) == most or taken + size > most_bytes):
            yield portion
            portion, taken = [], 0
        portion.append(key)
        taken += size
    if portion:
        yield portion


def size_in_use(connection: sqlite3.Connection) -> int:
    """Bytes of the file's pages that hold something."""
    pages, free, size = connection.execute(
        "SELECT page_count, freelist_count, page_size FROM pragma_page_count, pragma_freelist_count, pragma_page_size"
    ).fetchone()
    return int((pages - free) * size)


def evict(connection: sqlite3.Connection, down_to: int, before: float = math.inf) -> Counter[str]:
    """Deletes some rows that were used before `before`, in one transaction, if the file is over `down_to` bytes.

    Returns:
        How many have gone, by table; empty when there is no more to do.
    """
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        excess = size_in_use(connection) - down_to
        if excess <= 0:
            return Counter()
        rows: list[Row] = []
        for table in TABLES:
            found = connection.execute(
                f"SELECT used, rowid, length(value) FROM {table} WHERE used < ? ORDER BY used, rowid LIMIT ?",
                (before, _DELETED_AT_ONCE),
            )
            rows += [Row(used, table, number, size) for used, number, size in found]
        going = first_to_go(rows, excess)[:_DELETED_AT_ONCE]
        for table in TABLES:
            numbers = [(row.number,) for row in going if row.table == table]
            connection.executemany(f"DELETE FROM {table} WHERE rowid = ?", numbers)
        return Counter(row.table for row in going)


def write_uses(connection: sqlite3.Connection, uses: Mapping[str, Mapping[bytes, float]]) -> None:
    """Puts stamps into the file, where it has no later ones, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        for table, stamps in uses.items():
            values: Sequence[Any] = [(stamp, key, stamp) for key, stamp in stamps.items()]
            connection.executemany(f"UPDATE {table} SET used = ? WHERE key = ? AND used < ?", values)


def last_use(connection: sqlite3.Connection) -> float:
    """The latest stamp in the file; 0 if it has none."""
    found = [connection.execute(f"SELECT max(used) FROM {table}").fetchone()[0] for table in TABLES]
    return max((stamp for stamp in found if isinstance(stamp, float)), default=0.0)
