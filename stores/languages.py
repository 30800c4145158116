"""The languages of a collection's documents, kept in its metadata: a question is stemmed as each of them would be.

Each language is a key of its own. Metadata is merged key by key, so that processes that write to one collection at the same moment
cannot undo each other's notes, as they could in a list. A language is noted before its first words are stored, and stays until the
collection is built anew: to stem a question in one language too many costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from qdrant_client import QdrantClient

from stores.transport import send

_KEY = "language:"


def languages_in(metadata: Mapping[str, Any]) -> tuple[str, ...]:
    """The languages noted in a collection's metadata, as ISO 639-1 codes in alphabetical order."""
    return tuple(sorted(key.removeprefix(_KEY) for key in metadata if key.startswith(_KEY)))


class Languages:
    """Notes the languages of the documents that are written to a collection.

    Args:
        client, collection: where.
    """

    def __init__(self, client: QdrantClient, collection: str) -> None:
        self._client = client
        self._collection = collection
        self._noted: set[str] = set()

    def note(self, languages: Iterable[str]) -> None:
        """Notes those of `languages` that are not noted yet.

        Raises:
            StoreError: the store did not do it.
        """
        wanted = set(languages)
        if wanted <= self._noted:
            return
        name = self._collection
        stored = send(f"read collection {name}", lambda: self._client.get_collection(name)).config.metadata or {}
        new = wanted.difference(languages_in(stored))
        if new:
            metadata = {_KEY + language: True for language in sorted(new)}
            send(f"note the languages of {name}", lambda: self._client.update_collection(name, metadata=metadata))
        self._noted |= wanted
