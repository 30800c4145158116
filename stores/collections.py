"""Collections and aliases: which physical collection a run writes to, and when readers are moved to it.

Readers use the alias only. A run whose recipe is the live one's writes to the live collection; any other is refused, or, asked to
rebuild, writes to a new collection beside it, and the alias moves only after that is verified. A build that was interrupted is taken up
again when the recipe is the same. Nothing here drops a collection that holds anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from qdrant_client import QdrantClient, models

from stores.errors import SettingsChanged, StoreError
from stores.journal import DONE
from stores.journal_io import count_kind, read_journal
from stores.names import alias_name, collection_name, parse_alias, parse_collection
from stores.recipe import Recipe
from stores.transport import send

SPARSE = "bm25"
INDEXED = ("kind", "doc_id", "parent_id", "metadata.source")


@dataclass(frozen=True, slots=True)
class Target:
    """Where a run writes one strategy.

    Attributes:
        corpus, recipe: what is written.
        collection, alias: the physical collection, and the alias of its strategy.
        live: the alias points at the collection already.
        exists: the collection is there; False only in a dry run.
    """

    corpus: str
    recipe: Recipe
    collection: str
    alias: str
    live: bool
    exists: bool


@dataclass(frozen=True, slots=True)
class _Stored:
    """A physical collection of ours and what its metadata says."""

    name: str
    corpus: str
    strategy: str
    build: int
    root: str
    recipe: Recipe


def _stored(client: QdrantClient, name: str) -> _Stored | None:
    """What is known of a collection; None if it is none of ours or its metadata is not what we write."""
    parsed = parse_collection(name)
    if parsed is None:
        return None
    info = send(f"read collection {name}", lambda: client.get_collection(name))
    metadata: dict[str, Any] = info.config.metadata or {}
    try:
        return _Stored(name, *parsed, root=metadata["root"], recipe=Recipe.from_metadata(metadata["recipe"]))
    except (KeyError, TypeError):
        return None


def _names(client: QdrantClient) -> list[str]:
    """The names of all collections, foreign ones included, sorted."""
    return sorted(item.name for item in send("list collections", client.get_collections).collections)


def stored_collections(client: QdrantClient) -> list[_Stored]:
    """All collections of ours, by name."""
    return [found for name in _names(client) if (found := _stored(client, name))]


def alias_targets(client: QdrantClient) -> dict[str, str]:
    """The collection that each alias points at, foreign ones included."""
    aliases = send("list aliases", client.get_aliases).aliases
    return {item.alias_name: item.collection_name for item in aliases}


def corpus_roots(client: QdrantClient) -> dict[str, str]:
    """The root folder of each stored corpus, by its name."""
    return {found.corpus: found.root for found in stored_collections(client)}


def live_recipe(client: QdrantClient, corpus: str, strategy: str) -> Recipe | None:
    """The recipe of the collection behind the alias of a corpus and strategy; None without one."""
    target = alias_targets(client).get(alias_name(corpus, strategy))
    found = _stored(client, target) if target else None
    return found.recipe if found else None


def open_target(
    client: QdrantClient, corpus: str, root: str, recipe: Recipe, *, rebuild: bool = False, create: bool = True
) -> Target:
    """The collection that a run of `recipe` over the documents below `root` writes to, made if need be.

    Args:
        client: of the store.
        corpus: a legal corpus name.
        root: absolute folder of the corpus.
        recipe: what the run would store.
        rebuild: write to a new collection beside the live one.
        create: make what is missing; without it nothing is changed.

    Raises:
        SettingsChanged: the live collection was made with another recipe and `rebuild` was not asked for.
        StoreError: the corpus has another root, or the alias points at a collection that is not ours, or cannot be made.
    """
    alias = alias_name(corpus, recipe.strategy)
    names = _names(client)
    stored = [found for name in names if (found := _stored(client, name))]
    ours = [found for found in stored if (found.corpus, found.strategy) == (corpus, recipe.strategy)]
    if alias in names:
        raise StoreError(f"a collection {alias} is in the way: it has the name of the alias; rename or drop it")
    for found in stored:
        if found.corpus == corpus and found.root != root:
            raise StoreError(
                f"corpus {corpus!r} holds the documents below {found.root}, not those below {root}; "
                "give this one another name with --corpus"
            )
    live = _live(client, alias, ours)
    fingerprint = recipe.fingerprint()
    if live and live.recipe.fingerprint() == fingerprint and not rebuild:
        return Target(corpus, recipe, live.name, alias, live=True, exists=True)
    if live and not rebuild:
        raise SettingsChanged({alias: live.recipe.differences(recipe)})
    newest_first = sorted(ours, key=lambda found: -found.build)
    # A build newer than the live one was never finished; an older one is kept for a way back and is not touched.
    unfinished = [found for found in newest_first if found is not live and (live is None or found.build > live.build)]
    for found in unfinished:
        if found.recipe.fingerprint() == fingerprint:
            if create:
                # It may have been cut off between the collection and its indexes.
                _create(client, found.name, corpus, root, recipe)
            return Target(corpus, recipe, found.name, alias, live=False, exists=True)
    # Above every number that is taken, by collections of others too.
    taken = [parsed for other in names if (parsed := parse_collection(other))]
    build = max((name.build for name in taken if name[:2] == (corpus, recipe.strategy)), default=0) + 1
    name = collection_name(corpus, recipe.strategy, build)
    if create:
        _create(client, name, corpus, root, recipe)
    return Target(corpus, recipe, name, alias, live=False, exists=create)


def _live(client: QdrantClient, alias: str, ours: list[_Stored]) -> _Stored | None:
    target = alias_targets(client).get(alias)
    if target is None:
        return None
    for found in ours:
        if found.name == target:
            return found
    raise StoreError(
        f"alias {alias} points at {target}, which is not a collection of this corpus and strategy; it is left alone"
    )


def _create(client: QdrantClient, name: str, corpus: str, root: str, recipe: Recipe) -> None:
    """Makes the collection and its indexes, as far as they are missing."""

    def create() -> None:
        if not client.collection_exists(name):
            # Embedded, a folder that a crash left behind would come back to life with its points.
            client.delete_collection(name)
            client.create_collection(
                name,
                vectors_config=models.VectorParams(size=recipe.dimensions, distance=models.Distance.COSINE),
                sparse_vectors_config={SPARSE: models.SparseVectorParams(modifier=models.Modifier.IDF)},
                metadata={
                    "corpus": corpus,
                    "root": root,
                    "recipe": recipe.as_metadata(),
                    "fingerprint": recipe.fingerprint(),
                },
            )
        for field in INDEXED:
            client.create_payload_index(name, field, field_schema=models.PayloadSchemaType.KEYWORD, wait=True)

    send(f"create collection {name}", create)


def finish_target(client: QdrantClient, target: Target, *, failed: int = 0) -> None:
    """Verifies that a collection holds what its journal says, and points the alias at it.

    Where the alias points at an older build it moves only if no document failed, so readers never see less than before. Where there is
    no alias yet it is made in any case: some documents are better than none.

    Args:
        client: of the store.
        target: what the run wrote to.
        failed: documents that could not be read or stored.

    Raises:
        StoreError: the counts differ, or the alias may not be moved.
    """
    rows = read_journal(client, target.collection).values()
    done = all(row.status == DONE for row in rows)
    if done:
        for kind, wanted in (
            ("chunk", sum(len(row.chunk_ids) for row in rows)),
            ("parent", sum(len(row.parent_ids) for row in rows)),
        ):
            held = count_kind(client, target.collection, kind)
            if held != wanted:
                raise StoreError(f"{target.collection} holds {held} {kind} points where its journal names {wanted}")
    if target.live:
        return
    present = alias_targets(client).get(target.alias)
    if present == target.collection:
        return
    if present is not None:
        parsed = parse_collection(present)
        if parsed is None or parse_alias(target.alias) != (parsed.corpus, parsed.strategy):
            raise StoreError(f"alias {target.alias} points at {present}, which is not ours; it is left alone")
        if failed or not done:
            raise StoreError(
                f"the new collection {target.collection} is not complete, so {target.alias} stays with {present}; run again to go on"
            )
    move = models.CreateAliasOperation(
        create_alias=models.CreateAlias(collection_name=target.collection, alias_name=target.alias)
    )
    send(f"point alias {target.alias} at {target.collection}", lambda: client.update_collection_aliases([move]))
