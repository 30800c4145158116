"""Older builds: readers moved back to one, and superseded ones dropped, by exact name only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from qdrant_client import QdrantClient

from stores.collections import move_alias
from stores.errors import StoreError
from stores.inventory import Inventory, alias_targets, read_inventory
from stores.lease import Leases
from stores.names import alias_name
from stores.transport import agreed, send


@dataclass(frozen=True, slots=True)
class Rollback:
    """An alias that was moved back."""

    strategy: str
    alias: str
    left: str
    collection: str


def rollback(client: QdrantClient, corpus: str, strategies: Sequence[str], leases: Leases) -> list[Rollback]:
    """Points the alias of each strategy at the build that readers used before the live one. All are checked before any is moved.

    Args:
        client: of the store.
        corpus: whose aliases.
        strategies: which; every strategy that has an earlier build when none is named.
        leases: of this operation; they are taken, and held until the caller releases them.

    Raises:
        StoreError: there is nothing to go back to, a run is at work there, or the store failed.
    """
    inventory = read_inventory(client)
    named = list(strategies) or [name for name in inventory.strategies(corpus) if inventory.previous(corpus, name)]
    if not named:
        raise StoreError(_nothing(inventory, corpus))
    steps = []
    for strategy in named:
        live, previous = inventory.live(corpus, strategy), inventory.previous(corpus, strategy)
        alias = alias_name(corpus, strategy)
        if live is None:
            raise StoreError(f"there is no alias {alias}; `quarry status` lists those that there are")
        if previous is None:
            raise StoreError(
                f"{alias} points at {live.name}, and no earlier build of it is stored; `quarry status` lists all"
            )
        steps.append(Rollback(strategy, alias, live.name, previous.name))
    for step in steps:
        leases.acquire(step.alias, step.left, step.left)
    for step in steps:
        move_alias(client, step.alias, step.collection)
    return steps


def _nothing(inventory: Inventory, corpus: str) -> str:
    if not inventory.strategies(corpus):
        return f"nothing of a corpus {corpus!r} is stored; `quarry status` lists what is"
    return f"no earlier build of corpus {corpus!r} is stored, so there is nothing to go back to"


def drop(client: QdrantClient, names: Iterable[str], leases: Leases) -> list[str]:
    """Drops collections of ours that no alias points at. All are checked before any is dropped.

    Args:
        client: of the store.
        names: exact names of physical collections.
        leases: of this operation; only asked whether a run is at work.

    Returns:
        The names, each once.

    Raises:
        StoreError: a name is not that of a collection of ours, an alias points at it, or a run is at work on its alias.
    """
    inventory = read_inventory(client)
    ours = {found.name: found for found in inventory.collections}
    wanted = list(dict.fromkeys(names))
    for name in wanted:
        found = ours.get(name)
        aliases = sorted(alias for alias, target in inventory.aliases.items() if target == name)
        if name in inventory.aliases:
            raise StoreError(
                f"{name} is an alias; a collection is dropped by its own name, and not while an alias points at it"
            )
        if found is None:
            told = "is none that quarry made" if name in inventory.names else "does not exist"
            raise StoreError(f"collection {name} {told}; `quarry status` lists those that can be dropped")
        if aliases:
            raise StoreError(f"{name} is in use: {', '.join(aliases)} points at it; it is not dropped")
        home = inventory.lease_home(found.corpus, found.strategy)
        if home is not None:
            leases.check(alias_name(found.corpus, found.strategy), home)
    for name in wanted:
        # Read again just before: another run may have moved an alias to it.
        if name in alias_targets(client).values():
            raise StoreError(f"{name} is in use: an alias points at it now; it is not dropped")
        send(f"drop collection {name}", lambda name=name: agreed(client.delete_collection(name)))  # type: ignore[misc]
    return wanted
