"""The file behind the cache: one SQLite database with what models have answered, by key.

`vectors` holds float32 numbers in little-endian order, `contexts` holds texts. All of it can be asked for again, so the file never
stops a run: a damaged or foreign one is set aside (renamed, never deleted) and a new one begun, and what cannot be written is
logged and done without. Threads share one connection under a lock; processes may share the file.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from chunkers.errors import SettingError
from chunkers.models.claims import Claims

T = TypeVar("T")

logger = logging.getLogger(__name__)

# "QRYC", so that another program's database is known as such.
_APPLICATION_ID = 0x51525943
_SCHEMA = 1
_TABLES = ("vectors", "contexts")

# Seconds to wait for another process, keys asked for at once, and rows written in one transaction (1.5 MB of vectors).
_BUSY_SECONDS = 30.0
_ASKED_AT_ONCE = 500
_WRITTEN_AT_ONCE = 256


class _ForeignFileError(Exception):
    """A sound database that is not this cache, or one of another version."""


class ModelCache:
    """Vectors and contexts by key, in the file `path`. Its folder is made. Safe to use from several threads.

    Args:
        path: of the file.
        read_only: what is in the file can be read, and nothing is changed: no file is made, and a damaged one is left where it is. What is
            put is not kept.

    Attributes:
        claims: on keys that are being asked for.

    Raises:
        SettingError: no file can be made there.
        OSError: the disk is full, or fails.
    """

    def __init__(self, path: str | Path, *, read_only: bool = False) -> None:
        self.path = Path(path)
        self._read_only = read_only
        self._lock = threading.Lock()
        self.claims = Claims()
        try:
            if read_only:
                self._connection = self._read()
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = self._open()
        except (OSError, sqlite3.Error) as error:
            if _is_of_the_disk(error):
                raise OSError(f"cache file {self.path} cannot be made: {error}") from error
            raise SettingError("cache file", str(self.path), f"a file that can be written ({error})") from error

    def __enter__(self) -> ModelCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. What was put is on disk already."""
        with self._lock:
            self._connection.close()

    def get_vectors(self, keys: Iterable[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """The vectors that are there, each of shape (dimensions,)."""
        rows = self._get("vectors", keys)
        return {
            key: np.frombuffer(value, "<f4") for key, value in rows if isinstance(value, bytes) and len(value) % 4 == 0
        }

    def put_vectors(self, vectors: Mapping[bytes, NDArray[np.float32]]) -> None:
        """Keep vectors, each of shape (dimensions,)."""
        self._put("vectors", {key: np.asarray(vector, dtype="<f4").tobytes() for key, vector in vectors.items()})

    def get_contexts(self, keys: Iterable[bytes]) -> dict[bytes, str]:
        """The contexts that are there."""
        return {key: value for key, value in self._get("contexts", keys) if isinstance(value, str)}

    def put_contexts(self, contexts: Mapping[bytes, str]) -> None:
        """Keep contexts."""
        self._put("contexts", contexts)

    def _get(self, table: str, keys: Iterable[bytes]) -> list[tuple[bytes, Any]]:
        rows: list[tuple[bytes, Any]] = []
        for part in _parts(keys, _ASKED_AT_ONCE):
            rows += self._run(f"SELECT key, value FROM {table} WHERE key IN ({','.join('?' * len(part))})", part)
        return rows

    def _put(self, table: str, rows: Mapping[bytes, Any]) -> None:
        if self._read_only:
            return
        for part in _parts(rows.items(), _WRITTEN_AT_ONCE):
            places = ",".join(["(?,?)"] * len(part))
            self._run(f"INSERT OR REPLACE INTO {table} VALUES {places}", list(chain.from_iterable(part)))

    def _run(self, statement: str, values: Sequence[Any]) -> list[tuple[bytes, Any]]:
        """One statement in its own transaction, tried again in a new file if this one is damaged. A failure is logged: no rows."""
        with self._lock:
            try:
                return self._transact(statement, values)
            except sqlite3.Error as error:
                try:
                    if self._read_only or not _is_damage(error):
                        raise
                    self._connection.close()
                    self._set_aside(error)
                    self._connection = self._open()
                    return self._transact(statement, values)
                except (OSError, sqlite3.Error) as problem:
                    logger.warning("model cache %s cannot be used: %s", self.path, problem)
                    return []

    def _transact(self, statement: str, values: Sequence[Any]) -> list[tuple[bytes, Any]]:
        with self._connection:
            return self._connection.execute(statement, values).fetchall()

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except _ForeignFileError as error:
            self._set_aside(error)
        except sqlite3.DatabaseError as error:
            if not _is_damage(error):
                raise
            self._set_aside(error)
        return self._connect()

    def _read(self) -> sqlite3.Connection:
        """A connection that changes nothing: to an empty database in memory where there is no file, or one that cannot be used."""
        try:
            if self.path.exists():
                # With a log beside it, SQLite makes an index of that; without one, the file is all, and none is made.
                logged = self.path.with_name(self.path.name + "-wal").exists()
                uri = f"{self.path.absolute().as_uri()}?mode=ro" + ("" if logged else "&immutable=1")
                connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_SECONDS, check_same_thread=False)
                try:
                    marks = [
                        connection.execute(f"PRAGMA {name}").fetchone()[0]
                        for name in ("application_id", "user_version")
                    ]
                    if marks == [_APPLICATION_ID, _SCHEMA]:
                        connection.execute(f"SELECT key FROM {_TABLES[0]} LIMIT 1")
                        return connection
                except BaseException:
                    connection.close()
                    raise
                connection.close()
        except sqlite3.Error as error:
            logger.warning("model cache %s cannot be read: %s", self.path, error)
        empty = sqlite3.connect(":memory:", check_same_thread=False)
        _prepare(empty)
        return empty

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, check_same_thread=False)
        try:
            _prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_aside(self, reason: Exception) -> None:
        number = 1
        while (aside := self.path.with_name(f"{self.path.name}.set-aside-{number}")).exists():
            number += 1
        logger.warning("model cache %s is set aside as %s: %s", self.path, aside.name, reason)
        # The log goes first: SQLite would play it into the new file.
        for suffix in ("-wal", "-shm", ""):
            source = self.path.with_name(self.path.name + suffix)
            if source.exists():
                os.replace(source, aside.with_name(aside.name + suffix))


def _prepare(connection: sqlite3.Connection) -> None:
    """Pragmas and, in an empty file, tables.

    Raises:
        _ForeignFileError: the file holds something else.
    """
    connection.execute("PRAGMA synchronous=NORMAL")
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables and application == 0:
            for table in _TABLES:
                connection.execute(f"CREATE TABLE {table} (key BLOB PRIMARY KEY, value NOT NULL)")
            connection.execute(f"PRAGMA application_id={_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version={_SCHEMA}")
        elif application != _APPLICATION_ID or version != _SCHEMA or not tables.issuperset(_TABLES):
            raise _ForeignFileError("it is another program's database, or another version's")
    try:
        connection.execute("PRAGMA journal_mode=WAL")
    except sqlite3.OperationalError as error:
        # Another process is in the file just now. The mode is kept in the file, so whoever comes first sets it for all.
        logger.debug("model cache stays in its journal mode for now: %s", error)


def _is_damage(error: sqlite3.Error) -> bool:
    # An error of the Python module, such as use after closing, has no code of SQLite's.
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def _is_of_the_disk(error: OSError | sqlite3.Error) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO)
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)


def _parts(items: Iterable[T], size: int) -> Iterator[list[T]]:
    rest = iter(items)
    while part := list(islice(rest, size)):
        yield part
