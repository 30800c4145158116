"""The file behind the cache: one SQLite database with what models have answered, by key.

`vectors` holds float32 numbers in little-endian order, `contexts` holds texts. All of it can be asked for again, so the file never
stops a run: a damaged or foreign one is set aside (renamed, never deleted) and a new one begun, and what cannot be written is
logged and done without. It has a bound; over that, what was not used for the longest time goes (`cache_bound`). Threads share one
connection under a lock; processes may share the file.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from chunkers.errors import SettingError
from chunkers.models import cache_bound as bound
from chunkers.models import cache_schema as schema
from chunkers.models.claims import Claims

T = TypeVar("T")

logger = logging.getLogger(__name__)

# Keys asked for at once, and rows written in one transaction (1.5 MB of vectors).
_ASKED_AT_ONCE = 500
_WRITTEN_AT_ONCE = 256
# Bytes at which the log is played into the file, and the part of a small bound that this, or one transaction, may have.
_LOG_BYTES = 4 * 1024**2
_PART = 16
# Milliseconds that others are waited for where the log could not be emptied for a while.
_LOG_WAIT = 1000


class ModelCache:
    """Vectors and contexts by key, in the file `path`. Its folder is made. Safe to use from several threads.

    Args:
        path: of the file.
        read_only: what is in the file can be read, and nothing is changed: no file is made, and a damaged one is left where it is. What is
            put is not kept.
        max_bytes: what is kept at most. Over that, the least recently used goes.

    Attributes:
        claims: on keys that are being asked for.

    Raises:
        SettingError: no file can be made there.
        OSError: the disk is full, or fails.
    """

    def __init__(self, path: str | Path, *, read_only: bool = False, max_bytes: int = bound.MAX_BYTES) -> None:
        self.path = Path(path)
        self._read_only = read_only
        self._max_bytes = max_bytes
        self._log_bytes = min(_LOG_BYTES, max_bytes // _PART)
        self._identity: tuple[int, int] | None = None
        self._lock = threading.Lock()
        self._evicting = threading.Lock()
        self._uses = bound.Uses()
        self.claims = Claims()
        try:
            if read_only:
                self._connection = self._read()
                return
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = self._open()
        except (OSError, sqlite3.Error) as error:
            if schema.is_of_the_disk(error):
                raise OSError(f"cache file {self.path} cannot be made: {error}") from error
            raise SettingError("cache file", str(self.path), f"a file that can be written ({error})") from error

    def __enter__(self) -> ModelCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. What was put is on disk already; what was used is written now."""
        self._write_uses()
        with self._lock:
            self._connection.close()

    def get_vectors(self, keys: Iterable[bytes]) -> dict[bytes, NDArray[np.float32]]:
        """The vectors that are there, each of shape (dimensions,)."""
        rows = self._get("vectors", keys)
        return {
            key: np.frombuffer(value, "<f4")
            for key, value in rows.items()
            if isinstance(value, bytes) and len(value) % 4 == 0
        }

    def put_vectors(self, vectors: Mapping[bytes, NDArray[np.float32]], *, model: str = "") -> None:
        """Keep vectors of a model, each of shape (dimensions,)."""
        self._put("vectors", {key: np.asarray(vector, dtype="<f4").tobytes() for key, vector in vectors.items()}, model)

    def get_contexts(self, keys: Iterable[bytes]) -> dict[bytes, str]:
        """The contexts that are there."""
        return {key: value for key, value in self._get("contexts", keys).items() if isinstance(value, str)}

    def put_contexts(self, contexts: Mapping[bytes, str], *, model: str = "") -> None:
        """Keep contexts of a model."""
        self._put("contexts", contexts, model)

    def _get(self, table: str, keys: Iterable[bytes]) -> dict[bytes, Any]:
        """The values that are there, in the order asked for, which is the order of their use."""
        wanted = list(dict.fromkeys(keys))
        found: dict[bytes, Any] = {}
        nothing: dict[bytes, Any] = {}
        for start in range(0, len(wanted), _ASKED_AT_ONCE):
            found |= self._run(partial(_select, table, wanted[start : start + _ASKED_AT_ONCE]), nothing)
        found = {key: found[key] for key in wanted if key in found}
        if not self._read_only and self._uses.note(table, found):
            self._write_uses()
        return found

    def _put(self, table: str, rows: Mapping[bytes, Any], model: str) -> None:
        if self._read_only or not rows:
            return
        since = self._uses.stamp()
        sizes = {key: len(value) for key, value in rows.items()}
        for part in bound.portions(sizes, _WRITTEN_AT_ONCE, self._max_bytes // _PART):
            self._make_room(sum(sizes[key] for key in part), since)
            self._run(partial(_insert, table, [(key, model, self._uses.stamp(), rows[key]) for key in part]), None)
        self._make_room(0, since)
        self._empty_log()

    def _make_room(self, incoming: int, since: float) -> None:
        """Lets rows go where `incoming` bytes would go over the bound; what was put after `since` only if nothing else is left."""
        for before in (since, math.inf):
            down_to = bound.goal(self._run(bound.size_in_use, 0), incoming, self._max_bytes)
            # One thread at a time, and none waits for it.
            if down_to is None or not self._evicting.acquire(blocking=False):
                return
            try:
                self._write_uses()
                gone: Counter[str] = Counter()
                while some := self._run(partial(bound.evict, down_to=down_to, before=before), Counter[str]()):
                    gone += some
                if gone:
                    logger.info(
                        "model cache %s was full: the %d answers least recently used are gone", self.path, gone.total()
                    )
            finally:
                self._evicting.release()

    def _write_uses(self) -> None:
        uses = self._uses.take()
        if any(uses.values()):
            self._run(partial(bound.write_uses, uses=uses), None)

    def _empty_log(self) -> None:
        """Plays the log into the file where that has not happened by itself for long, as others were always reading."""
        log = self.path.with_name(self.path.name + "-wal")
        with suppress(OSError):
            if log.stat().st_size > 4 * self._log_bytes:
                self._run(_checkpoint, None)

    def _run(self, work: Callable[[sqlite3.Connection], T], nothing: T) -> T:
        """What `work` gives, tried again in a new file if this one is damaged. A failure is logged, and gives `nothing`."""
        with self._lock:
            try:
                return work(self._connection)
            except sqlite3.Error as error:
                try:
                    if self._read_only or not schema.is_damage(error):
                        raise
                    self._connection.close()
                    self._set_aside(error, self._identity)
                    self._connection = self._open()
                    return work(self._connection)
                except (OSError, sqlite3.Error) as problem:
                    logger.warning("model cache %s cannot be used: %s", self.path, problem)
                    return nothing

    def _open(self) -> sqlite3.Connection:
        found = schema.identity(self.path)
        try:
            return self._connect()
        except sqlite3.DatabaseError as error:
            if not schema.is_damage(error):
                raise
            self._set_aside(error, found)
        return self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = schema.connect(self.path)
        try:
            (page,) = connection.execute("PRAGMA page_size").fetchone()
            connection.execute(f"PRAGMA wal_autocheckpoint={max(1, self._log_bytes // page)}")
            connection.execute(f"PRAGMA journal_size_limit={self._log_bytes}")
            self._uses.follow(bound.last_use(connection))
        except BaseException:
            connection.close()
            raise
        self._identity = schema.identity(self.path)
        return connection

    def _read(self) -> sqlite3.Connection:
        """A connection that changes nothing: to an empty database in memory where there is no file, or one that cannot be used."""
        try:
            if self.path.exists():
                connection = schema.connect_to_read(self.path)
                if schema.schema(connection):
                    return connection
                connection.close()
        except sqlite3.Error as error:
            logger.warning("model cache %s cannot be read: %s", self.path, error)
        return schema.empty()

    def _set_aside(self, reason: Exception, found: tuple[int, int] | None) -> None:
        # Another process may have done it already: what is there now is sound then.
        if schema.identity(self.path) == found:
            schema.set_aside(self.path, reason)


def _select(table: str, keys: Sequence[bytes], file: sqlite3.Connection) -> dict[bytes, Any]:
    return dict(
        file.execute(f"SELECT key, value FROM {table} WHERE key IN ({','.join('?' * len(keys))})", keys).fetchall()
    )


def _insert(table: str, rows: Sequence[tuple[bytes, str, float, Any]], file: sqlite3.Connection) -> None:
    file.execute("BEGIN IMMEDIATE")
    with file:
        file.executemany(f"INSERT OR REPLACE INTO {table} (key, model, used, value) VALUES (?, ?, ?, ?)", rows)


def _checkpoint(file: sqlite3.Connection) -> None:
    file.execute(f"PRAGMA busy_timeout={_LOG_WAIT}")
    try:
        file.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    finally:
        file.execute(f"PRAGMA busy_timeout={int(schema.BUSY_SECONDS * 1000)}")
