"""The Qdrant client: a server where one is named, otherwise an embedded store in a folder.

The embedded store takes one client per process and folder, is not safe to use from several threads, and writes four times to the disk
for each point unless told otherwise. So all callers in a process share one client by folder, every call goes through one lock, and each
collection's database is switched to a write-ahead log.
"""

from __future__ import annotations

import atexit
import copy
import json
import logging
import os
import pickle
import sqlite3
import threading
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from qdrant_client import QdrantClient, models

from chunkers.redaction import HIDDEN, keep_address, keep_secret, redacted, shown_address
from stores.errors import StoreError
from stores.transport import send

log = logging.getLogger(__name__)

# Embedded, both are known and lead nowhere: indexes are made for the server's sake, and many points are told of by `connect`.
warnings.filterwarnings("ignore", message="Payload indexes have no effect in the local Qdrant")
warnings.filterwarnings("ignore", message="Local mode is not recommended")

TIMEOUT_SECONDS = 60
# For the one call that finds out whether a server is there.
PROBE_SECONDS = 5
# Metadata of collections came with this version.
OLDEST_SERVER = (1, 16)
MANY_POINTS = 20_000

# What the library raises when its list of collections, or a point that it pickled, is not what it wrote.
_DAMAGED = (ValueError, TypeError, LookupError, AttributeError, EOFError, ImportError, pickle.PickleError)

_embedded: dict[Path, EmbeddedClient] = {}
# Re-entrant: the garbage collector may run in the middle of anything.
_opening = threading.RLock()


def connect(url: str | None = None, path: str | Path | None = None, api_key: str | None = None) -> StoreClient:
    """A client for the store; close it when done (it is a context manager).

    Args:
        url: a server's address; the variable QDRANT_URL by default. It decides where both are given.
        path: folder of an embedded store, which goes before the variable QDRANT_URL; `qdrant` below QUARRY_HOME (`.quarry`) by default.
        api_key: of the server; the variable QDRANT_API_KEY by default.

    Raises:
        StoreError: the server does not answer or is too old, or the folder cannot be used or is in use by another process.
    """
    if url is None and path is None:
        url = os.environ.get("QDRANT_URL")
    if url:
        return _server(url, api_key or os.environ.get("QDRANT_API_KEY") or None)
    home = Path(os.environ.get("QUARRY_HOME") or ".quarry")
    return _embed(Path(path) if path else home / "qdrant")


def _server(url: str, api_key: str | None) -> StoreClient:
    keep_secret(api_key)
    keep_address(url)
    told = shown_address(url)
    if api_key and not (api_key.isascii() and api_key.isprintable()):
        raise StoreError(f"QDRANT_API_KEY: {HIDDEN} cannot be used; it must be printable ASCII characters", fatal=True)

    def client(timeout: int) -> StoreClient:
        return StoreClient(url=url, api_key=api_key, timeout=timeout, check_compatibility=False)

    try:
        # A client's time-out holds for all its calls, and a dead address should be told of soon.
        with client(PROBE_SECONDS) as probe:
            info = send(f"Qdrant server {told} cannot be used", probe.info, attempts=3)
    except ValueError as error:
        raise StoreError(
            f"QDRANT_URL {told}: {redacted(str(error))}; it must look like http://localhost:6333", fatal=True
        ) from error
    version = tuple(int(part) for part in info.version.split(".")[:2] if part.isdigit())
    if version < OLDEST_SERVER:
        raise StoreError(f"Qdrant server {told} has version {info.version}; 1.16 or newer is needed", fatal=True)
    opened = client(TIMEOUT_SECONDS)
    opened.server_version = version
    return opened


def _embed(path: Path) -> StoreClient:
    # Resolved, so that a folder reached by two names is opened once.
    folder = path.expanduser().resolve()
    with _opening:
        store = _embedded.get(folder)
        if store is None:
            store = _embedded[folder] = _open(folder)
        return store.handle()


def _open(folder: Path) -> EmbeddedClient:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _begin(folder)
        client = EmbeddedClient(folder)
    except RuntimeError as error:
        if "already accessed" not in str(error):
            raise StoreError(f"{folder}: {error}", fatal=True) from error
        raise StoreError(
            f"the embedded store {folder} is in use by another process; wait until that ends, or run a Qdrant server and set QDRANT_URL",
            fatal=True,
        ) from error
    except (OSError, sqlite3.Error, *_DAMAGED) as error:
        told = f"{type(error).__name__}: {error}" if isinstance(error, _DAMAGED) else error
        raise StoreError(f"the embedded store {folder} cannot be opened: {told}", fatal=True) from error
    client.warn_of_size()
    return client


def _begin(folder: Path) -> None:
    """Makes the list of collections of a store that has none yet, whole or not at all.

    The library writes that first file in place. A process that died, or a disk that was full, just then leaves an empty one, with which
    the store could never be opened again; where there are no collections either, nothing is lost by beginning anew.

    Raises:
        OSError: it cannot be written.
    """
    listed = folder / "meta.json"
    if (folder / "collection").exists() or (listed.exists() and _is_json(listed)):
        return
    new = folder / f"meta.json.{os.getpid()}.new"
    try:
        new.write_text(json.dumps({"collections": {}, "aliases": {}}))
        if listed.exists() and _is_json(listed):
            return  # another process was faster
        os.replace(new, listed)
    finally:
        new.unlink(missing_ok=True)


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except ValueError:
        return False
    return True


class StoreClient(QdrantClient):
    """A Qdrant client that is a context manager.

    Attributes:
        server_version: major and minor number of the server; None for an embedded store.
    """

    server_version: tuple[int, ...] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Locked:
    """An object whose methods are called by one thread at a time."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._lock = threading.RLock()

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not callable(value):
            return value

        def locked(*args: Any, **kwargs: Any) -> Any:
            with self._lock:
                return value(*args, **kwargs)

        return locked


class _Closed:
    """Stands in for the store of a client that is closed, while others may still use that store."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("the client is closed; connect again")


class EmbeddedClient(StoreClient):
    """A client of an embedded store. Those of one process and folder share the store, and the last to be closed closes it."""

    def __init__(self, folder: Path) -> None:
        # One lock guards the store, so its database connections may be used from any thread.
        super().__init__(path=str(folder), force_disable_check_same_thread=True)
        self.folder = folder
        for name in self._client.collections:
            self.tune(name)
        self._client: Any = _Locked(self._client)
        self._handles: list[EmbeddedClient] = []
        self._warned = threading.Event()

    def handle(self) -> EmbeddedClient:
        """Another client of the same store."""
        handle = copy.copy(self)
        self._handles.append(handle)
        return handle

    def warn_of_size(self) -> None:
        """Tells, once for all clients of the store, of collections with which an embedded store is slow."""
        if self._warned.is_set():
            return
        sizes = {name: len(collection.ids) for name, collection in list(self._client.collections.items())}
        many = [f"{name} holds {points:,} points" for name, points in sorted(sizes.items()) if points > MANY_POINTS]
        if many:
            self._warned.set()
            log.warning("%s, which is slow embedded; run a Qdrant server and set QDRANT_URL", ", ".join(many))

    def tune(self, collection: str) -> None:
        """Switches a collection's database to a write-ahead log, synchronised at checkpoints: as safe for a killed process, far faster.

        The connection is private to the client library, so where it is not found nothing is changed.
        """
        storage = getattr(self._client.collections.get(collection), "storage", None)
        connection = getattr(storage, "storage", None)
        if not isinstance(connection, sqlite3.Connection):
            log.debug("embedded collection %s has no SQLite connection where it was expected; not tuned", collection)
            return
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
        except sqlite3.Error as error:
            log.debug("embedded collection %s was not tuned: %s", collection, error)

    def create_collection(self, collection_name: str, *args: Any, **kwargs: Any) -> bool:
        created = super().create_collection(collection_name, *args, **kwargs)
        self.tune(collection_name)
        return created

    def upsert(self, *args: Any, **kwargs: Any) -> models.UpdateResult:
        result = super().upsert(*args, **kwargs)
        self.warn_of_size()
        return result

    def close(self, grpc_grace: float | None = None, **kwargs: Any) -> None:
        with _opening:
            # Handles are told apart by identity. Closing one twice is harmless.
            left = [handle for handle in self._handles if handle is not self]
            was_open = len(left) < len(self._handles)
            self._handles[:] = left
            if was_open and not left:
                _embedded.pop(self.folder, None)
                super().close(grpc_grace, **kwargs)
            self._client = _Closed()

    def __del__(self) -> None:
        """Nothing: a handle that nobody holds any more must not close the store that others use."""


@atexit.register
def _close_all() -> None:
    for store in list(_embedded.values()):
        for handle in list(store._handles):
            handle.close()
