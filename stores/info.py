"""What is in a store, for people and programs: one record for each physical collection."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from qdrant_client import QdrantClient

from stores.errors import StoreError
from stores.inventory import read_inventory
from stores.journal import DONE, JournalRow
from stores.journal_io import count_kind, read_journal
from stores.names import alias_name

LIVE, UNFINISHED, SUPERSEDED = "live", "unfinished", "superseded"


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """One physical collection.

    Attributes:
        corpus, strategy, root: what it holds.
        build: its number, from 1.
        collection, alias: its name, and the alias of its strategy.
        state: `live` (the alias points at it), `unfinished` (a newer build), or `superseded` (an older one).
        embedding_model, dimensions, context_model, parameters: what it is made with.
        documents, chunks, parents: exact numbers of points.
        unfinished_documents: journal rows that are not done.
        error: why the journal cannot be read, or None.
        last_run: when a run over this collection last ended, ISO 8601; None before the first did.
    """

    corpus: str
    strategy: str
    root: str
    build: int
    collection: str
    alias: str
    state: str
    embedding_model: str
    dimensions: int
    context_model: str | None
    parameters: dict[str, Any]
    documents: int
    chunks: int
    parents: int
    unfinished_documents: int
    error: str | None
    last_run: str | None

    def as_json(self) -> dict[str, Any]:
        """The record as `status --json` prints it."""
        return asdict(self)


def list_collections(client: QdrantClient) -> list[CollectionInfo]:
    """Every collection of ours in a store, by corpus, strategy and build.

    Raises:
        StoreError: the store cannot be read.
    """
    inventory = read_inventory(client)
    builds = {found.name: found.build for found in inventory.collections}
    infos = []
    for found in inventory.collections:
        alias = alias_name(found.corpus, found.strategy)
        live = inventory.aliases.get(alias)
        newer = found.build > builds.get(live or "", 0)
        try:
            rows, error = read_journal(client, found.name).values(), None
        except StoreError as unreadable:
            rows, error = dict[str, JournalRow]().values(), str(unreadable)
        infos.append(
            CollectionInfo(
                corpus=found.corpus,
                strategy=found.strategy,
                root=found.root,
                build=found.build,
                collection=found.name,
                alias=alias,
                state=LIVE if live == found.name else UNFINISHED if newer else SUPERSEDED,
                embedding_model=found.recipe.embedding_model,
                dimensions=found.recipe.dimensions,
                context_model=found.recipe.context_model,
                parameters=dict(found.recipe.parameters),
                documents=len(rows),
                chunks=count_kind(client, found.name, "chunk"),
                parents=count_kind(client, found.name, "parent"),
                unfinished_documents=sum(row.status != DONE for row in rows),
                error=error,
                last_run=found.finished_at,
            )
        )
    return infos
