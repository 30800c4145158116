"""Making collections, and moving readers to them. Nothing here drops a collection that holds anything."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from qdrant_client import QdrantClient, models

from stores.check import compare
from stores.client import EmbeddedClient
from stores.contents import read_contents
from stores.errors import StoreError
from stores.inventory import Target, alias_targets, choose_target, read_inventory
from stores.journal import DONE, DocumentState
from stores.journal_io import count_kind, read_states
from stores.lease import lease_id
from stores.names import parse_alias, parse_collection
from stores.payloads import SPARSE
from stores.recipe import Recipe
from stores.transport import agreed, confirm, send

INDEXED = ("kind", "doc_id", "parent_id", "metadata.source")


def open_target(client: QdrantClient, corpus: str, root: str, recipe: Recipe, *, rebuild: bool = False) -> Target:
    """The collection that a run writes to, chosen by `inventory.choose_target` and made if it is missing.

    Raises:
        SettingsChanged, StoreError: as `choose_target`; StoreError also when it cannot be made.
    """
    return make_target(client, choose_target(read_inventory(client), corpus, root, recipe, rebuild=rebuild), root)


def make_target(client: QdrantClient, target: Target, root: str) -> Target:
    """`target` with its collection and indexes made as far as they are missing.

    Raises:
        StoreError: they cannot be made, or another run has just made the collection with other settings.
    """
    if target.live:
        return target
    name, recipe = target.collection, target.recipe
    metadata = {
        "corpus": target.corpus,
        "root": root,
        "recipe": recipe.as_metadata(),
        "fingerprint": recipe.fingerprint(),
    }

    def make() -> None:
        if not client.collection_exists(name):
            if isinstance(client, EmbeddedClient):
                # A folder that a crash left behind would come back to life with its points. On a server, this could hit the collection
                # that another run has made since it was looked for.
                client.delete_collection(name)
            client.create_collection(
                name,
                vectors_config=models.VectorParams(size=recipe.dimensions, distance=models.Distance.COSINE),
                sparse_vectors_config={SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                metadata=metadata,
            )
        # It may have been cut off between the collection and its indexes, so they are asked for again.
        for field in INDEXED:
            confirm(client.create_payload_index(name, field, field_schema=models.PayloadSchemaType.KEYWORD, wait=True))

    send(f"create collection {name}", make)
    made = send(f"read collection {name}", lambda: client.get_collection(name)).config.metadata or {}
    if made.get("fingerprint") != metadata["fingerprint"]:
        raise StoreError(f"{name} was made by another run with other settings at the same moment; run again")
    return replace(target, exists=True)


def verify(client: QdrantClient, target: Target, states: Iterable[DocumentState]) -> None:
    """Compares exact numbers of points with what the journal names. Of a document that is not done, points may be there or not.

    A point that is none of ours is no matter here, nor one of another kind in the place of a lost one: `check` finds those.

    Raises:
        StoreError: they differ.
    """
    states = list(states)
    if _total_is_right(client, target, states):
        return
    for kind in ("chunk", "parent"):
        numbers = [(state.chunks if kind == "chunk" else state.parents, state.status == DONE) for state in states]
        most, least = sum(number for number, _ in numbers), sum(number for number, done in numbers if done)
        held = count_kind(client, target.collection, kind)
        if not least <= held <= most:
            named = f"{most}" if most == least else f"{least} to {most}"
            raise StoreError(
                f"{target.collection} holds {held} {kind} points where its journal names {named}; "
                "`quarry verify --repair` puts it right"
            )


def _total_is_right(client: QdrantClient, target: Target, states: Sequence[DocumentState]) -> bool:
    """Whether all is done and the number of all points is as the journal says. Embedded, to count one kind is to look at every payload."""
    if any(state.status != DONE for state in states):
        return False
    named = len(states) + sum(state.chunks + state.parents for state in states)
    what = f"count points of {target.collection}"
    held = send(what, lambda: client.count(target.collection, exact=True)).count
    leases = send(what, lambda: client.retrieve(target.collection, [lease_id(target.alias)], with_payload=False))
    return held == named + len(leases)


def finish_target(
    client: QdrantClient,
    target: Target,
    *,
    journal: Mapping[str, DocumentState] | None = None,
    lacking: str | None = None,
    allowed: int = 0,
    siblings: Sequence[str] = (),
    confirm: Callable[[], None] = lambda: None,
) -> None:
    """Verifies what a run has written, notes in the collection's metadata that it ended, and points the alias at the collection.

    Of a collection in use exact counts are compared with the journal, of a new one every point. Where the alias points at another
    build it moves only if nothing is lacking, so readers never see less than before; parked documents do not count. Where there is no
    alias yet it is made in any case: some documents are better than none.

    Args:
        client: of the store.
        target: what the run wrote to.
        journal: the collection's documents as they are now; read when None.
        lacking: why the collection may hold less than it should, or None.
        allowed: how many documents may be not done all the same, since they failed.
        siblings: strategies of the corpus that are stored, for noticing later that one is gone.
        confirm: called just before the alias moves; it raises if that must not be any more.

    Raises:
        StoreError: the counts differ, or the alias may not be moved.
    """
    states = (read_states(client, target.collection) if journal is None else journal).values()
    unfinished = sum(not state.finished for state in states)
    if target.live:
        verify(client, target, states)
    else:
        _verify_all(client, target)
    _note(client, target.collection, finished_at=_now(), siblings=[*siblings])
    if target.live:
        return
    present = alias_targets(client).get(target.alias)
    if present == target.collection:
        return
    if present is not None:
        parsed = parse_collection(present)
        if parsed is None or parse_alias(target.alias) != (parsed.corpus, parsed.strategy):
            raise StoreError(f"alias {target.alias} points at {present}, which is not ours; it is left alone")
        if unfinished > allowed:
            lacking = lacking or f"{unfinished} documents are not done"
        if lacking:
            raise StoreError(
                f"the new collection {target.collection} is not complete ({lacking}), so {target.alias} stays with {present}; "
                "run again to go on"
            )
    confirm()
    move_alias(client, target.alias, target.collection)


def _verify_all(client: QdrantClient, target: Target) -> None:
    findings = compare(read_contents(client, target.collection))
    if findings:
        first = findings[0]
        raise StoreError(
            f"the new collection {target.collection} is not what its journal says in {len(findings)} places, such as "
            f"{first.document}: {first.kind} {first.detail}; drop it with `quarry drop {target.collection}` and build it again"
        )


def _note(client: QdrantClient, collection: str, **metadata: Any) -> None:
    """Adds to a collection's metadata."""
    send(f"note the run in {collection}", lambda: client.update_collection(collection, metadata=metadata))


def move_alias(client: QdrantClient, alias: str, collection: str) -> None:
    """Points an alias at a collection, in one operation, so that readers see the one or the other.

    The collection's metadata says when, for the way back; it says so first, since a crash may come between the two.

    Raises:
        StoreError: the store did not do it.
    """
    _note(client, collection, live_at=datetime.now(UTC).isoformat(timespec="milliseconds"))
    move = models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=collection, alias_name=alias))
    send(f"point alias {alias} at {collection}", lambda: agreed(client.update_collection_aliases([move])))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
