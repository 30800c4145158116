"""What collections a store holds, read once, and the pure rule for which of them a run writes to.

Readers use the alias only. A run whose recipe is the live collection's writes to it; any other is refused, or, asked to rebuild, writes
to a new collection beside it. A build that was interrupted is taken up again when the recipe is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qdrant_client import QdrantClient

from chunkers import STRATEGIES
from stores.errors import SettingsChanged, StoreError
from stores.languages import languages_in
from stores.names import alias_name, collection_name, parse_collection
from stores.recipe import Recipe
from stores.transport import send


@dataclass(frozen=True, slots=True)
class StoredCollection:
    """A physical collection of ours and what its metadata says.

    Attributes:
        name, corpus, strategy, build: its name and the parts of that.
        root: folder of the corpus.
        recipe: what it is made with.
        finished_at: when a run last ended here, ISO 8601; None before the first did.
        live_at: when the alias was last pointed at it; None if it never was.
        siblings: strategies of the corpus that were stored when a run last ended here.
        languages: of its documents, ISO 639-1 codes.
    """

    name: str
    corpus: str
    strategy: str
    build: int
    root: str
    recipe: Recipe
    finished_at: str | None
    live_at: str | None = None
    siblings: tuple[str, ...] = ()
    languages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Inventory:
    """All that a store holds, by name.

    Attributes:
        names: of all collections, foreign ones included.
        collections: those of ours, by corpus, strategy and build.
        aliases: the collection that each alias points at, foreign ones included.
    """

    names: tuple[str, ...]
    collections: tuple[StoredCollection, ...]
    aliases: Mapping[str, str]

    def roots(self) -> dict[str, str]:
        """The root folder of each corpus, by its name."""
        return {found.corpus: found.root for found in self.collections}

    def corpora(self) -> list[str]:
        """Corpora that readers can use, or could once; not those of which only a first build was begun."""
        return [corpus for corpus in sorted(self.roots()) if self.strategies(corpus) or self.lost(corpus)]

    def builds(self, corpus: str, strategy: str) -> list[StoredCollection]:
        """The builds of one corpus and strategy, oldest first."""
        return [found for found in self.collections if (found.corpus, found.strategy) == (corpus, strategy)]

    def live(self, corpus: str, strategy: str) -> StoredCollection | None:
        """The collection behind the alias of a corpus and strategy; None without one.

        Raises:
            StoreError: the alias points at a collection that is not of this corpus and strategy.
        """
        alias = alias_name(corpus, strategy)
        target = self.aliases.get(alias)
        for found in self.builds(corpus, strategy):
            if found.name == target:
                return found
        if target is not None:
            raise StoreError(
                f"alias {alias} points at {target}, which is not a collection of this corpus and strategy; it is left alone"
            )
        return None

    def previous(self, corpus: str, strategy: str) -> StoredCollection | None:
        """Of the builds before the live one, that which readers used last; None without one."""
        live = self.live(corpus, strategy)
        older = [
            found for found in self.builds(corpus, strategy) if live and found.build < live.build and found.live_at
        ]
        return max(older, key=lambda found: (found.live_at or "", found.build), default=None)

    def strategies(self, corpus: str) -> list[str]:
        """Strategies of a corpus that have an alias."""
        return [name for name in STRATEGIES if alias_name(corpus, name) in self.aliases]

    def lost(self, corpus: str) -> list[str]:
        """Strategies of a corpus that were stored once and have no alias any more: somebody dropped their collection."""
        known = {name for found in self.collections if found.corpus == corpus for name in found.siblings}
        return [name for name in STRATEGIES if name in known and alias_name(corpus, name) not in self.aliases]

    def lease_home(self, corpus: str, strategy: str) -> str | None:
        """The collection that the lease of an alias lies in: the live one, before there is one the first build; None without any."""
        builds = self.builds(corpus, strategy)
        found = self.live(corpus, strategy) or (builds[0] if builds else None)
        return found.name if found else None

    def recipe(self, corpus: str, strategy: str) -> Recipe | None:
        """What the live collection is made with, or else the newest that is being built; None where there is neither."""
        builds = self.builds(corpus, strategy)
        found = self.live(corpus, strategy) or (builds[-1] if builds else None)
        return found.recipe if found else None


@dataclass(frozen=True, slots=True)
class Target:
    """Where a run writes one strategy.

    Attributes:
        corpus, recipe: what is written.
        collection, alias: the physical collection, and the alias of its strategy.
        live: the alias points at the collection already.
        exists: the collection is there.
    """

    corpus: str
    recipe: Recipe
    collection: str
    alias: str
    live: bool
    exists: bool


def read_inventory(client: QdrantClient) -> Inventory:
    """Reads the names, metadata and aliases of a store.

    Raises:
        StoreError: they cannot be read.
    """
    names = tuple(sorted(item.name for item in send("list collections", client.get_collections).collections))
    stored = (found for name in names if (found := stored_collection(client, name)))
    by_build = tuple(sorted(stored, key=lambda found: (found.corpus, found.strategy, found.build)))
    return Inventory(names, by_build, alias_targets(client))


def alias_targets(client: QdrantClient) -> dict[str, str]:
    """The collection that each alias points at, foreign ones included."""
    aliases = send("list aliases", client.get_aliases).aliases
    return {item.alias_name: item.collection_name for item in aliases}


def stored_collection(client: QdrantClient, name: str) -> StoredCollection | None:
    """What is known of a collection; None if it is none of ours or its metadata is not what we write."""
    parsed = parse_collection(name)
    if parsed is None:
        return None
    info = send(f"read collection {name}", lambda: client.get_collection(name))
    metadata: dict[str, Any] = info.config.metadata or {}
    try:
        recipe = Recipe.from_metadata(metadata["recipe"])
        return StoredCollection(
            name,
            *parsed,
            root=metadata["root"],
            recipe=recipe,
            finished_at=metadata.get("finished_at"),
            live_at=metadata.get("live_at"),
            siblings=tuple(metadata.get("siblings") or ()),
            languages=languages_in(metadata),
        )
    except (KeyError, TypeError):
        return None


def choose_target(inventory: Inventory, corpus: str, root: str, recipe: Recipe, *, rebuild: bool = False) -> Target:
    """The collection that a run of `recipe` over the documents below `root` writes to. Pure; it may not exist yet.

    Args:
        inventory: of the store.
        corpus: a legal corpus name.
        root: absolute folder of the corpus.
        recipe: what the run would store.
        rebuild: write to a new collection beside the live one.

    Raises:
        SettingsChanged: the live collection was made with another recipe and `rebuild` was not asked for.
        StoreError: the corpus has another root, or the alias is taken by something that is not ours.
    """
    alias = alias_name(corpus, recipe.strategy)
    if alias in inventory.names:
        raise StoreError(f"a collection {alias} is in the way: it has the name of the alias; rename or drop it")
    stored_root = inventory.roots().get(corpus, root)
    if stored_root != root:
        raise StoreError(
            f"corpus {corpus!r} holds the documents below {stored_root}, not those below {root}; "
            "give this one another name with --corpus"
        )
    live = inventory.live(corpus, recipe.strategy)
    fingerprint = recipe.fingerprint()
    if live and not rebuild:
        if live.recipe.fingerprint() != fingerprint:
            outdated = live.recipe.schema_version != recipe.schema_version
            raise SettingsChanged({alias: live.recipe.differences(recipe)}, outdated=outdated)
        return Target(corpus, recipe, live.name, alias, live=True, exists=True)
    # A build newer than the live one was never finished, or was left by a rollback; an older one is kept for a way back and is not touched.
    for found in reversed(inventory.builds(corpus, recipe.strategy)):
        newer = live is None or found.build > live.build
        if newer and found.recipe.fingerprint() == fingerprint:
            return Target(corpus, recipe, found.name, alias, live=False, exists=True)
    # Above every number that is taken, by collections of others too.
    taken = [parsed for name in inventory.names if (parsed := parse_collection(name))]
    build = max((name.build for name in taken if name[:2] == (corpus, recipe.strategy)), default=0) + 1
    return Target(corpus, recipe, collection_name(corpus, recipe.strategy, build), alias, live=False, exists=False)
