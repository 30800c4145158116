"""The collection that each strategy of a run writes to: chosen for all before any is made, then made and leased one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from qdrant_client import QdrantClient

from flows.models import Tools
from stores import Inventory, Leases, SettingsChanged, Target, choose_target, make_target


def choose_targets(
    inventory: Inventory, corpus: str, root: str, tools: Mapping[str, Tools], *, rebuild: bool
) -> dict[str, Target]:
    """The target of each strategy.

    Raises:
        SettingsChanged: it names what differs for every strategy that is refused.
        StoreError: the corpus is stored under another root.
    """
    refused: dict[str, Sequence[str]] = {}
    outdated = False
    targets = {}
    for name, own in tools.items():
        try:
            targets[name] = choose_target(inventory, corpus, root, own.recipe, rebuild=rebuild)
        except SettingsChanged as changed:
            refused |= changed.differences
            outdated |= changed.outdated
    if refused:
        raise SettingsChanged(refused, outdated=outdated)
    return targets


def take_target(client: QdrantClient, leases: Leases, inventory: Inventory, target: Target, root: str) -> Target:
    """`target` with its collection made, and the lease of its alias taken, so that no other run writes there.

    Raises:
        LeaseHeld: another run is at work there.
        StoreError: the store failed.
    """
    home = inventory.lease_home(target.corpus, target.recipe.strategy)
    live = inventory.aliases.get(target.alias)
    if home is not None:
        leases.acquire(target.alias, home, live)
    target = make_target(client, target, root)
    if home is None:
        leases.acquire(target.alias, target.collection, live)
    return target
