"""Where a run or a question finds its store, and what models have answered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from chunkers.models import ModelCache
from flows.settings import Settings

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

# Bytes of what settings call a megabyte.
MEGABYTE = 1024**2


def cache_path(settings: Settings) -> Path:
    """The file with what models have answered, which need not be there yet."""
    return settings.home / "cache.sqlite"


def open_cache(settings: Settings, *, read_only: bool = False) -> ModelCache:
    """What models have answered, within the bound that settings say.

    Raises:
        SettingError, OSError: as `ModelCache`.
    """
    return ModelCache(cache_path(settings), read_only=read_only, max_bytes=settings.cache_max_mb * MEGABYTE)


@contextmanager
def open_store(settings: Settings, *, create: bool) -> Iterator[QdrantClient]:
    """The store that settings name, closed at the end.

    Args:
        settings: a server's address, or the home folder of an embedded store.
        create: make the embedded store where there is none; otherwise it is an empty one in memory, so that asking a question or
            planning a run leaves no folder behind.

    Raises:
        StoreError: it cannot be reached or opened.
    """
    # Who asks for the cache alone need not load the store's client, which takes a second.
    from qdrant_client import QdrantClient

    from stores import connect

    path = settings.home / "qdrant"
    if not create and not settings.qdrant_url and not path.exists():
        yield QdrantClient(":memory:")
        return
    key = settings.qdrant_api_key.get_secret_value() if settings.qdrant_api_key else None
    with connect(url=settings.qdrant_url, path=path, api_key=key) as client:
        yield client
