"""Care for what is stored, without a run: verify and repair collections, go back to an earlier build, drop superseded ones.

A repair writes the journal's rows of the documents that something is wrong with as begun and not done, and then ingests just these
documents again, with the settings that their collection was made with. So everything that a run guarantees holds for a repair, too.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from qdrant_client import QdrantClient

from chunkers import STRATEGIES, ModelError, SettingError
from chunkers.redaction import in_words
from flows.corpora import restrict
from flows.ingestion import Ingestion
from flows.observer import Observer
from flows.places import open_store
from flows.request import Request
from flows.running import PlainRunner, run
from flows.settings import Settings, SettingsError
from flows.sources import SourceError
from stores import (
    Contents,
    Finding,
    Inventory,
    Leases,
    Rollback,
    StoreError,
    check_corpus,
    compare,
    drop,
    read_contents,
    read_inventory,
    repair_of,
    rollback,
)
from stores.inventory import StoredCollection
from stores.journal import DONE
from stores.names import alias_name
from stores.points import Points

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Verified:
    """What a verification found in one collection.

    Attributes:
        corpus, strategy, collection: which; no collection where it is gone.
        documents, chunks, parents: points that were read.
        unfinished: documents that are not done, parked ones included; the next run goes on with them.
        findings: what differs.
        repaired: what differed before it was put right; None if no repair was asked for.
        error: why it could not be verified or repaired.
    """

    corpus: str
    strategy: str
    collection: str | None
    documents: int = 0
    chunks: int = 0
    parents: int = 0
    unfinished: int = 0
    findings: tuple[Finding, ...] = ()
    repaired: int | None = None
    error: str | None = None

    @property
    def sound(self) -> bool:
        return not self.findings and self.error is None

    def as_json(self) -> dict[str, Any]:
        """What `verify --json` prints for a collection."""
        told = {**dataclasses.asdict(self), "sound": self.sound}
        told["findings"] = [{"kind": one.kind, "document": one.document, "detail": one.detail} for one in self.findings]
        return told


def verify_corpora(
    settings: Settings, corpus: str | None, strategies: Sequence[str], *, repair: bool, say: Say
) -> list[Verified]:
    """Compares the journal of each live collection with its points.

    Args:
        settings: where the store is; for a repair, also keys.
        corpus: whose collections; every corpus's when None.
        strategies: which; all that are stored when none is named.
        repair: put right what differs.
        say: hears what is being done.

    Raises:
        SettingError: a name cannot be used.
        StoreError: nothing is stored, or the store cannot be reached.
    """
    for strategy in strategies:
        _check_strategy(strategy)
    with open_store(settings, create=False) as client:
        inventory = read_inventory(client)
        corpora = [check_corpus(corpus)] if corpus is not None else inventory.corpora()
        told = []
        for name in corpora:
            stored, lost = inventory.strategies(name), inventory.lost(name)
            if not stored and not lost:
                raise StoreError(f"nothing of a corpus {name!r} is stored; `quarry status` lists what is")
            for strategy in strategies or [one for one in STRATEGIES if one in stored or one in lost]:
                say(f"verifying {alias_name(name, strategy)}")
                told.append(_verify(client, inventory, name, strategy, settings if repair else None))
        if not corpora:
            raise StoreError("nothing is stored yet; `quarry ingest FOLDER` makes the first collections")
        return told


def _verify(
    client: QdrantClient, inventory: Inventory, corpus: str, strategy: str, settings: Settings | None
) -> Verified:
    """Verifies one collection, and repairs it if there are settings to do it with."""
    alias = alias_name(corpus, strategy)
    try:
        live = inventory.live(corpus, strategy)
        if live is None:
            gone = f"there is no alias {alias}" + (
                ", though a build is stored"
                if inventory.builds(corpus, strategy)
                else ", and no collection: it was stored once and somebody dropped it"
                if strategy in inventory.lost(corpus)
                else ""
            )
            root = inventory.roots().get(corpus, "FOLDER")
            return Verified(
                corpus, strategy, None, error=f"{gone}; `quarry ingest {root} --strategy {strategy}` brings it back"
            )
        lease = Leases(client, str(uuid.uuid4()))
        lease.check(alias, live.name)
        contents = read_contents(client, live.name)
        # What another run has written meanwhile would look like a fault.
        lease.check(alias, live.name)
        findings = compare(contents)
        if not findings or settings is None:
            return _told(live, contents, findings)
        error = _repair(client, live, settings)
        contents = read_contents(client, live.name)
        return dataclasses.replace(_told(live, contents, compare(contents)), repaired=len(findings), error=error)
    except (StoreError, SettingError, SettingsError, ModelError, SourceError) as error:
        return Verified(corpus, strategy, None, error=in_words(error))


def _told(live: StoredCollection, contents: Contents, findings: Sequence[Finding]) -> Verified:
    kinds = [point.kind for point in contents.points.values()]
    return Verified(
        live.corpus,
        live.strategy,
        live.name,
        documents=len(contents.rows),
        chunks=kinds.count("chunk"),
        parents=kinds.count("parent"),
        unfinished=sum(row.status != DONE for row in contents.rows.values()),
        findings=tuple(findings),
    )


def _repair(client: QdrantClient, live: StoredCollection, settings: Settings) -> str | None:
    """Puts right what differs; why it could not be done for all, or None."""
    request = Request(live.root, live.corpus, (live.strategy,), retry_parked=True)
    try:
        opened = Ingestion(request, settings.as_stored(live.recipe), Observer())
    except (StoreError, SettingError, SettingsError, ModelError, SourceError) as error:
        return f"nothing was repaired: {in_words(error)}"
    with opened as ingestion, PlainRunner(1) as runner:
        # Only now, when all is checked and no other run is at work: what is marked here must be made again.
        contents = read_contents(client, live.name)
        listed = frozenset(entry.uri for entry in ingestion.listing.entries)
        repair = repair_of(contents, compare(contents), corpus=live.corpus, listed=listed)
        points = Points(client, live.name)
        points.upsert(row.as_point() for row in repair.rows)
        points.delete(repair.delete)
        ingestion.listing = restrict(ingestion.listing, {row.uri for row in repair.rows})
        failures = run(ingestion, runner).failures()
    if repair.kept:
        named = ", ".join(sorted(repair.kept)[:3]) + _more(repair.kept)
        failures.append(
            f"no longer in {live.root}, so they cannot be made again; they are left for the next run to delete: {named}"
        )
    return "; ".join(failures) or None


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - 3} more" if len(names) > 3 else ""


def roll_back(settings: Settings, corpus: str | None, strategies: Sequence[str]) -> list[Rollback]:
    """Points aliases at the builds that readers used before.

    Raises:
        SettingError, SettingsError: a name cannot be used, or the choice between several corpora is not made.
        StoreError: there is nothing to go back to, or a run is at work.
    """
    for strategy in strategies:
        _check_strategy(strategy)
    with open_store(settings, create=False) as client:
        corpus = only_corpus(read_inventory(client), corpus)
        with Leases(client, str(uuid.uuid4())) as leases:
            return rollback(client, corpus, strategies, leases)


def drop_collections(settings: Settings, names: Sequence[str]) -> list[str]:
    """Drops superseded collections; their names.

    Raises:
        StoreError: one is none of ours, or in use.
    """
    with open_store(settings, create=False) as client:
        return drop(client, names, Leases(client, str(uuid.uuid4())))


def only_corpus(inventory: Inventory, corpus: str | None) -> str:
    """`corpus`, or the only one that is stored.

    Raises:
        SettingError: the name cannot be used.
        SettingsError: there are several.
        StoreError: there is none.
    """
    if corpus is not None:
        return check_corpus(corpus)
    corpora = inventory.corpora()
    if len(corpora) > 1:
        raise SettingsError(f"there are several corpora ({', '.join(corpora)}); choose one with --corpus")
    if not corpora:
        raise StoreError("nothing is stored yet; `quarry ingest FOLDER` makes the first collections")
    return corpora[0]


def _check_strategy(strategy: str) -> None:
    if strategy not in STRATEGIES:
        raise SettingError("strategy", strategy, f"one of {', '.join(STRATEGIES)}")
