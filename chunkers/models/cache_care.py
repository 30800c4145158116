"""What is in the cache file, and taking rows out of it by hand: what `quarry cache` does.

Looking changes nothing. Pruning and clearing delete rows, a few hundred in a transaction, and then give the space of the file back; a run
may be at work on the same file meanwhile. Nothing here sets a file aside, or makes one: that is for a run to do.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from chunkers.models import cache_schema as schema
from chunkers.models.cache_bound import evict, size_in_use

# Rows deleted in one transaction.
_DELETED_AT_ONCE = 500
# Milliseconds that other processes are waited for before their space is left to be given back later.
_PATIENCE = 5000


class CacheError(Exception):
    """The cache file cannot be used; the message says which, why, and what becomes of it."""


@dataclass(frozen=True, slots=True)
class Held:
    """What the file holds of one kind and model.

    Attributes:
        kind: vectors or contexts.
        model: its name; empty for rows of before names were kept.
        number: of answers.
        bytes: of the answers themselves.
        oldest: the use that is longest ago, in seconds since the epoch; None in a file of before uses were kept.
        newest: the last one.
    """

    kind: str
    model: str
    number: int
    bytes: int
    oldest: float | None
    newest: float | None

    def as_json(self) -> dict[str, object]:
        """What `--json` prints, times as ISO 8601 in UTC."""
        uses = {"oldest": _iso(self.oldest), "newest": _iso(self.newest)}
        return {"kind": self.kind, "model": self.model, "number": self.number, "bytes": self.bytes, **uses}


@dataclass(frozen=True, slots=True)
class Survey:
    """A cache file: bytes of it and its log on disk, bytes of pages that hold something, and what they hold."""

    bytes: int
    bytes_in_use: int
    held: list[Held]

    def number(self, kind: str) -> int:
        """Answers of a kind."""
        return sum(one.number for one in self.held if one.kind == kind)


@dataclass(frozen=True, slots=True)
class Removed:
    """Rows that were deleted, bytes on disk before and after, and why space was not given back yet, if it was not."""

    vectors: int
    contexts: int
    bytes_before: int
    bytes: int
    later: str | None


def survey(path: Path) -> Survey | None:
    """What is in the file `path`; None if there is none.

    Raises:
        CacheError: it cannot be read.
    """
    if not path.exists():
        return None
    with _told(path):
        try:
            return _survey(path)
        except sqlite3.DatabaseError:
            if not path.with_name(path.name + "-wal").exists():
                raise
        # A run began to write while the file was read as one that nobody writes to.
        return _survey(path)


def prune(
    path: Path, *, max_bytes: int | None = None, before: float | None = None, model: str | None = None
) -> Removed | None:
    """Deletes the rows that were last used before `before` and are of `model`, then the least recently used down to `max_bytes`.

    Args:
        path: of the file.
        max_bytes: that its pages may hold.
        before: seconds since the epoch.
        model: its name.

    Returns:
        What was done; None if there is no file.

    Raises:
        CacheError: the file cannot be used, and is as it was; or it could not be written to the end.
    """
    conditions: dict[str, object] = {}
    if before is not None:
        conditions["used < ?"] = before
    if model is not None:
        conditions["model = ?"] = model

    def remove(file: sqlite3.Connection) -> Counter[str]:
        gone: Counter[str] = Counter()
        if conditions:
            gone += _delete(file, conditions)
        while max_bytes is not None and (some := evict(file, max_bytes)):
            gone += some
        return gone

    return _remove(path, remove)


def clear(path: Path) -> Removed | None:
    """Deletes all rows; returns and raises as `prune`."""

    def remove(file: sqlite3.Connection) -> Counter[str]:
        file.execute("BEGIN IMMEDIATE")
        with file:
            return Counter({table: file.execute(f"DELETE FROM {table}").rowcount for table in schema.TABLES})

    return _remove(path, remove)


def size_on_disk(path: Path) -> int:
    """Bytes of the file and its log."""
    return sum(file.stat().st_size for file in (path, path.with_name(path.name + "-wal")) if file.exists())


def _survey(path: Path) -> Survey:
    with closing(schema.connect_to_read(path)) as file:
        file.execute("BEGIN")
        held: list[Held] = []
        version = schema.schema(file)
        columns = "model, min(used), max(used)" if version > 1 else "'' AS model, NULL, NULL"
        for table in schema.TABLES if version else ():
            # The length of a text would be counted in characters.
            length = "length(value)" if table == "vectors" else "length(CAST(value AS BLOB))"
            rows = file.execute(f"SELECT {columns}, count(*), sum({length}) FROM {table} GROUP BY model ORDER BY model")
            held += [Held(table, model, number, size, *uses) for model, *uses, number, size in rows if number]
        return Survey(size_on_disk(path), size_in_use(file), held)


def _remove(path: Path, work: Callable[[sqlite3.Connection], Counter[str]]) -> Removed | None:
    if not path.exists():
        return None
    before = size_on_disk(path)
    with _told(path):
        with closing(schema.connect(path)) as file:
            gone = work(file)
            later = _give_back(file)
        return Removed(gone["vectors"], gone["contexts"], before, size_on_disk(path), later)


def _delete(file: sqlite3.Connection, conditions: dict[str, object]) -> Counter[str]:
    condition, values = " AND ".join(conditions), list(conditions.values())
    gone: Counter[str] = Counter()
    for table in schema.TABLES:
        numbers = [row[0] for row in file.execute(f"SELECT rowid FROM {table} WHERE {condition}", values)]
        for start in range(0, len(numbers), _DELETED_AT_ONCE):
            part = [(number, *values) for number in numbers[start : start + _DELETED_AT_ONCE]]
            file.execute("BEGIN IMMEDIATE")
            with file:
                # Used by a run meanwhile, or another row by now: it stays.
                gone[table] += file.executemany(f"DELETE FROM {table} WHERE rowid = ? AND {condition}", part).rowcount
    return gone


def _give_back(file: sqlite3.Connection) -> str | None:
    """Makes the file as small as what is in it. Why it is not so yet, or None."""
    file.execute(f"PRAGMA busy_timeout={_PATIENCE}")
    try:
        file.execute("VACUUM")
        (busy, *_) = file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    except sqlite3.OperationalError as error:
        if not schema.is_busy(error):
            return str(error)
        busy = 1
    return "another process is at work on the file" if busy else None


def _iso(stamp: float | None) -> str | None:
    return None if stamp is None else datetime.fromtimestamp(stamp, UTC).isoformat(timespec="seconds")


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turns what SQLite says into `CacheError`."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        next_run = "; the next run sets it aside and begins a new one" if schema.is_damage(error) else ""
        raise CacheError(f"cache file {path} cannot be used: {error}{next_run}") from error
