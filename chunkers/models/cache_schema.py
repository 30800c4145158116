"""What makes a SQLite file the cache: its marks, its tables, how one of before is brought up to date, and what becomes of any other file.

`vectors` and `contexts` have a row for each answer: `key`, `model` (its name, for people), `used` (when it was last asked for, in
seconds since the epoch) and `value`. Files of schema 1 have `key` and `value` alone. They get the other columns where they are, in one
transaction: what is in them was paid for. Whoever comes second finds that done, and one that was killed in it has done nothing.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import time
from pathlib import Path

logger = logging.getLogger(__name__)

TABLES = ("vectors", "contexts")

# "QRYC", so that another program's database is known as such.
_APPLICATION_ID = 0x51525943
_SCHEMA = 2
_OLDEST_SCHEMA = 1

# Seconds to wait for another process. One that gives the space of a large file back takes the longest.
BUSY_SECONDS = 120.0


class CacheFileError(sqlite3.DatabaseError):
    """A file that cannot be used as the cache. The message says why, and not which file."""


def connect(path: Path) -> sqlite3.Connection:
    """A connection to the cache file, which is made where there is none, and brought up to date where it is one of before.

    Raises:
        CacheFileError: it is no cache, or one of a newer version.
        sqlite3.Error: it is damaged, or cannot be opened.
    """
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, check_same_thread=False)
    try:
        connection.execute("PRAGMA synchronous=NORMAL")
        # Looked at first without the lock, which another process may hold for long.
        if schema(connection) != _SCHEMA:
            _prepare(connection)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            # Another process is in the file just now. The mode is kept in the file, so whoever comes first sets it for all.
            logger.debug("model cache stays in its journal mode for now: %s", error)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection to a file that is there, which changes nothing, not even its schema.

    Raises:
        CacheFileError, sqlite3.Error: as `connect`.
    """
    # With a log beside it, SQLite makes an index of that; without one, the file is all, and none is made.
    logged = path.with_name(path.name + "-wal").exists()
    uri = f"{path.absolute().as_uri()}?mode=ro" + ("" if logged else "&immutable=1")
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, check_same_thread=False)
    try:
        schema(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def empty() -> sqlite3.Connection:
    """A connection to a cache in memory that holds nothing."""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    _prepare(connection)
    return connection


def schema(connection: sqlite3.Connection) -> int:
    """The version of the tables; 0 for an empty file.

    Raises:
        CacheFileError: they are another program's, or a newer version's.
        sqlite3.Error: the file is damaged, or no database.
    """
    # In one statement, so that all three are of one moment.
    application, version, names = connection.execute(
        "SELECT application_id, user_version, (SELECT group_concat(name) FROM sqlite_master WHERE type = 'table')"
        " FROM pragma_application_id, pragma_user_version"
    ).fetchone()
    tables = set((names or "").split(","))
    if not names and application == 0:
        return 0
    if application != _APPLICATION_ID or not tables.issuperset(TABLES):
        raise CacheFileError("it is another program's database")
    if not _OLDEST_SCHEMA <= version <= _SCHEMA:
        raise CacheFileError(f"it is the cache of another version of quarry (its schema is {version}, ours {_SCHEMA})")
    return int(version)


def _prepare(connection: sqlite3.Connection) -> None:
    """Tables in an empty file, columns in one of before, all of it or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        # Another process may have been here while this one waited.
        version = schema(connection)
        if version == _SCHEMA:
            return
        for table in TABLES:
            if version == 0:
                # The value last: what stands behind a long one is read page by page.
                connection.execute(
                    f"CREATE TABLE {table} (key BLOB PRIMARY KEY, model TEXT NOT NULL, used REAL NOT NULL, value NOT NULL)"
                )
            else:
                # When its rows were used is not known. Now is the latest that it can have been, so none counts as old already.
                connection.execute(f"ALTER TABLE {table} ADD COLUMN model TEXT NOT NULL DEFAULT ''")
                connection.execute(f"ALTER TABLE {table} ADD COLUMN used REAL NOT NULL DEFAULT {time.time():.6f}")
            connection.execute(f"CREATE INDEX {table}_used ON {table} (used)")
        connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={_SCHEMA}")


def identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from another that has taken its name; None where there is no file."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def set_aside(path: Path, reason: Exception) -> None:
    """Renames the file `path`, and its log, to a name that is free."""
    number = 1
    while (aside := path.with_name(f"{path.name}.set-aside-{number}")).exists():
        number += 1
    logger.warning("model cache %s is set aside as %s: %s", path, aside.name, reason)
    # The log goes first: SQLite would play it into the new file.
    for suffix in ("-wal", "-shm", ""):
        source = path.with_name(path.name + suffix)
        if source.exists():
            os.replace(source, aside.with_name(aside.name + suffix))


def files_set_aside(path: Path) -> list[Path]:
    """The files that `set_aside` has made of `path`, by name, their logs included."""
    start = f"{path.name}.set-aside-"
    return sorted(one for one in path.parent.iterdir() if one.name.startswith(start)) if path.parent.is_dir() else []


def is_damage(error: Exception) -> bool:
    """Whether the file cannot be read as a database, or not as this one."""
    # An error of the Python module, such as use after closing, has no code of SQLite's.
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, CacheFileError) or code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def is_busy(error: sqlite3.Error) -> bool:
    """Whether another process stood in the way."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def is_of_the_disk(error: Exception) -> bool:
    """Whether the disk is full, or fails."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
