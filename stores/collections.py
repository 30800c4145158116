"""Making collections, and moving readers to them. Nothing here drops a collection that holds anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

from qdrant_client import QdrantClient, models

from stores.errors import StoreError
from stores.inventory import Target, alias_targets, choose_target, read_inventory
from stores.journal import DONE, JournalRow
from stores.journal_io import count_kind, read_journal
from stores.names import parse_alias, parse_collection
from stores.recipe import Recipe
from stores.transport import send

SPARSE = "bm25"
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
            # Embedded, a folder that a crash left behind would come back to life with its points.
            client.delete_collection(name)
            client.create_collection(
                name,
                vectors_config=models.VectorParams(size=recipe.dimensions, distance=models.Distance.COSINE),
                sparse_vectors_config={SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                metadata=metadata,
            )
        # It may have been cut off between the collection and its indexes, so they are asked for again.
        for field in INDEXED:
            client.create_payload_index(name, field, field_schema=models.PayloadSchemaType.KEYWORD, wait=True)

    send(f"create collection {name}", make)
    made = send(f"read collection {name}", lambda: client.get_collection(name)).config.metadata or {}
    if made.get("fingerprint") != metadata["fingerprint"]:
        raise StoreError(f"{name} was made by another run with other settings at the same moment; run again")
    return replace(target, exists=True)


def verify(client: QdrantClient, target: Target, rows: Mapping[str, JournalRow]) -> None:
    """Compares exact numbers of points with what the journal names.

    Raises:
        StoreError: they differ.
    """
    for kind, wanted in (
        ("chunk", sum(len(row.chunk_ids) for row in rows.values())),
        ("parent", sum(len(row.parent_ids) for row in rows.values())),
    ):
        held = count_kind(client, target.collection, kind)
        if held != wanted:
            raise StoreError(
                f"{target.collection} holds {held} {kind} points where its journal names {wanted}; "
                "use --rebuild to build it anew beside this one"
            )


def finish_target(
    client: QdrantClient, target: Target, *, journal: Mapping[str, JournalRow] | None = None, lacking: str | None = None
) -> None:
    """Verifies what a run has written, notes in the collection's metadata that it ended, and points the alias at the collection.

    Where the alias points at an older build it moves only if nothing is lacking, so readers never see less than before. Where there is
    no alias yet it is made in any case: some documents are better than none.

    Args:
        client: of the store.
        target: what the run wrote to.
        journal: the collection's rows as they are now; read when None.
        lacking: why the collection may hold less than it should, or None.

    Raises:
        StoreError: the counts differ, or the alias may not be moved.
    """
    rows = read_journal(client, target.collection) if journal is None else journal
    unfinished = sum(row.status != DONE for row in rows.values())
    if not unfinished:
        verify(client, target, rows)
    stamp = {"finished_at": datetime.now(UTC).isoformat(timespec="seconds")}
    send(f"note the run in {target.collection}", lambda: client.update_collection(target.collection, metadata=stamp))
    if target.live:
        return
    present = alias_targets(client).get(target.alias)
    if present == target.collection:
        return
    if present is not None:
        parsed = parse_collection(present)
        if parsed is None or parse_alias(target.alias) != (parsed.corpus, parsed.strategy):
            raise StoreError(f"alias {target.alias} points at {present}, which is not ours; it is left alone")
        if unfinished:
            lacking = lacking or f"{unfinished} documents are not done"
        if lacking:
            raise StoreError(
                f"the new collection {target.collection} is not complete ({lacking}), so {target.alias} stays with {present}; "
                "run again to go on"
            )
    move = models.CreateAliasOperation(
        create_alias=models.CreateAlias(collection_name=target.collection, alias_name=target.alias)
    )
    send(f"point alias {target.alias} at {target.collection}", lambda: client.update_collection_aliases([move]))
