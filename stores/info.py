"""What is in a store, for people and programs: one record for each physical collection."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from qdrant_client import QdrantClient

from stores.errors import StoreError
from stores.inventory import StoredCollection, read_inventory
from stores.journal import DONE, DocumentState
from stores.journal_io import count_kind, read_states
from stores.names import alias_name

LIVE, UNFINISHED, SUPERSEDED = "live", "unfinished", "superseded"


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """One physical collection.

    Attributes:
        corpus, strategy, root: what it holds.
        build: its number, from 1.
        collection, alias: its name, and the alias of its strategy.
        state: `live` (the alias points at it), `unfinished` (a newer build that no reader has used), or `superseded` (any other).
        embedding_model, dimensions, context_model, parameters, sparse: what it is made with; `sparse` are the parts of the sparse
            vectors' making, empty for a collection that has none.
        languages: of its documents, by which the words of a question are to be stemmed.
        documents: those of which something is stored, or which hold nothing to store.
        chunks, parents: exact numbers of points.
        unfinished_documents: documents that are neither done nor parked.
        parked: documents that are not tried again until their content changes: what, how often it was tried, why it failed.
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
    sparse: dict[str, Any]
    languages: list[str]
    documents: int
    chunks: int
    parents: int
    unfinished_documents: int
    parked: list[dict[str, Any]]
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
        try:
            states, error = read_states(client, found.name).values(), None
        except StoreError as unreadable:
            states, error = dict[str, DocumentState]().values(), str(unreadable)
        infos.append(
            CollectionInfo(
                corpus=found.corpus,
                strategy=found.strategy,
                root=found.root,
                build=found.build,
                collection=found.name,
                alias=alias,
                state=_state(found, live, builds.get(live or "", 0)),
                embedding_model=found.recipe.embedding_model,
                dimensions=found.recipe.dimensions,
                context_model=found.recipe.context_model,
                parameters=dict(found.recipe.parameters),
                sparse=dict(found.recipe.sparse),
                languages=[*found.languages],
                documents=sum(state.status == DONE or state.chunks > 0 for state in states),
                chunks=count_kind(client, found.name, "chunk"),
                parents=count_kind(client, found.name, "parent"),
                unfinished_documents=sum(not state.finished for state in states),
                parked=[
                    {"document": state.uri, "attempts": state.attempts, "error": state.reason}
                    for state in sorted(states, key=lambda state: state.uri)
                    if state.parked
                ],
                error=error,
                last_run=found.finished_at,
            )
        )
    return infos


def _state(found: StoredCollection, live: str | None, live_build: int) -> str:
    if found.name == live:
        return LIVE
    return UNFINISHED if found.build > live_build and not found.live_at else SUPERSEDED
