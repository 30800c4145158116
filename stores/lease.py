"""One run at a time for each alias: a `lease` point, without a vector, that says who works there and until when.

It is taken by an upsert with a condition (it has expired, or is mine), read back to see who has it, and renewed while the run lasts. A
run that died leaves it behind, and it is taken over when it has expired. An embedded store is open in one process only, so there a
lease of another process is known to be a dead run's and is taken over at once. The lease of an alias lies in the collection that the
alias points at, also for a rebuild; before there is an alias, in the alias's first build.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import Enum
from types import TracebackType
from typing import Any, Self

from qdrant_client import QdrantClient, models

from chunkers import ids
from stores.client import EmbeddedClient
from stores.errors import StoreError
from stores.inventory import alias_targets
from stores.transport import confirm, send

log = logging.getLogger(__name__)

# How long a lease holds, and how often it is renewed. Several renewals may fail before anybody takes it over, and the clocks of two
# machines may differ by some of it.
SECONDS = 120.0
RENEWED_EVERY = 20.0

KIND = "lease"
INDEXED = {"holder": models.PayloadSchemaType.KEYWORD, "expires_at": models.PayloadSchemaType.FLOAT}

# Tells this process from every other one, together with its number: also from a later one with the same number.
_BORN = uuid.uuid4().hex
# Runs of this process that ended and could not let go of their leases, because the store failed.
_ended_runs: set[str] = set()


class LeaseHeld(StoreError):
    """Another run works on the alias."""


@dataclass
class Leases:
    """The leases of one run; a context manager that renews them in a thread and lets go of them at the end.

    Args:
        client: of the store.
        run_id: of this run.
        lost: called once if another run has taken a lease over, which only happens when this one could not renew it for too long.
        clock: seconds since the epoch.
        every: seconds between renewals; 0 renews only when `renew` is called.
    """

    client: QdrantClient
    run_id: str
    lost: Callable[[str], None] = lambda alias: None
    clock: Callable[[], float] = time.time
    every: float = RENEWED_EVERY
    _held: dict[str, str] = field(default_factory=dict, init=False)
    _ended: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)
    _stopping: bool = field(default=False, init=False)
    # A renewal that was under way when the run began to stop must not be the last to write.
    _writing: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def acquire(self, alias: str, collection: str, live: str | None) -> None:
        """Takes the lease of `alias`.

        Args:
            alias: of a corpus and strategy.
            collection: where its lease lies.
            live: the collection that the alias pointed at when the run was planned, or None.

        Raises:
            LeaseHeld: another run has it, or has moved the alias meanwhile.
            StoreError: the store failed.
        """
        for name, schema in INDEXED.items():
            send(
                f"index {collection}",
                lambda name=name, schema=schema: confirm(  # type: ignore[misc]
                    self.client.create_payload_index(collection, name, field_schema=schema, wait=True)
                ),
            )
        # Noted first: where the answer is lost the lease may be taken all the same, and is to be let go of.
        self._held[alias] = collection
        found = self._write(alias, collection)
        if found.get("holder") != self.run_id:
            del self._held[alias]
            raise LeaseHeld(_told(alias, found), fatal=True)
        if alias_targets(self.client).get(alias) != live:
            raise LeaseHeld(f"{alias} was moved by another run just now; run again", fatal=True)
        if self._thread is None and self.every:
            self._thread = threading.Thread(target=self._keep, name="leases", daemon=True)
            self._thread.start()

    def check(self, alias: str, collection: str) -> None:
        """Finds out whether a run is at work on `alias`, without taking its lease.

        Raises:
            LeaseHeld: one is.
            StoreError: the store failed.
        """
        found = self._read(alias, collection)
        free = not found or found["expires_at"] < self.clock() or found["holder"] == self.run_id
        left = found and (found["holder"] in _ended_runs or (self._embedded and found["process"] != _process()))
        if not free and not left:
            raise LeaseHeld(_told(alias, found), fatal=True)

    def confirm(self, alias: str) -> None:
        """Renews the lease of one alias now.

        Raises:
            LeaseHeld: it is not this run's any more.
            StoreError: the store failed.
        """
        collection = self._held.get(alias)
        found = self._write(alias, collection) if collection else {}
        if found.get("holder") != self.run_id:
            raise LeaseHeld(f"the lease of {alias} was lost to another run, so this one leaves it alone", fatal=True)

    def home(self, alias: str) -> str:
        """The collection that the lease of an alias lies in, for processes that do a part of the run."""
        return self._held[alias]

    def stopping(self) -> None:
        """Tells the processes that do parts of the run, by a mark in every lease, to stop. Raises nothing: they also stop when leases
        expire."""
        self._stopping = True
        self.renew()

    def renew(self) -> None:
        """Renews every lease; tells `lost` of one that another run has now. A store that fails is asked again next time."""
        for alias, collection in list(self._held.items()):
            try:
                found = self._write(alias, collection)
            except StoreError as error:
                log.warning("the lease of %s could not be renewed: %s", alias, error)
                continue
            if found.get("holder") != self.run_id:
                self._held.pop(alias, None)
                self.lost(f"{_told(alias, found)}; this run could not renew its lease in time and stops")

    def release(self) -> None:
        """Lets go of every lease that is still this run's. Raises nothing: what is left expires."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        for alias, collection in self._held.items():
            mine = models.Filter(must=[models.HasIdCondition(has_id=[lease_id(alias)]), self._mine()])
            try:
                send(
                    f"end the lease of {alias}",
                    lambda collection=collection, mine=mine: confirm(  # type: ignore[misc]
                        self.client.delete(collection, models.FilterSelector(filter=mine), wait=True)
                    ),
                )
            except StoreError as error:
                _ended_runs.add(self.run_id)
                log.warning("%s; other processes can take it in %d seconds", error, SECONDS)
        self._held.clear()

    def _keep(self) -> None:
        while not self._ended.wait(self.every):
            self.renew()

    def _write(self, alias: str, collection: str) -> Mapping[str, Any]:
        """Writes the lease if it is free or this run's; what it says afterwards."""
        with self._writing:
            return self._write_alone(alias, collection)

    def _write_alone(self, alias: str, collection: str) -> Mapping[str, Any]:
        now = self.clock()
        payload = {
            "kind": KIND,
            "alias": alias,
            "holder": self.run_id,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "process": _process(),
            "expires_at": now + SECONDS,
            "stopping": self._stopping,
        }
        free: list[Any] = [models.FieldCondition(key="expires_at", range=models.Range(lt=now)), self._mine()]
        if _ended_runs:
            free.append(models.FieldCondition(key="holder", match=models.MatchAny(any=sorted(_ended_runs))))
        if self._embedded:
            here = models.FieldCondition(key="process", match=models.MatchValue(value=_process()))
            free.append(models.Filter(must_not=[here]))
        point = models.PointStruct(id=lease_id(alias), vector={}, payload=payload)
        send(
            f"take the lease of {alias}",
            lambda: confirm(
                self.client.upsert(collection, points=[point], update_filter=models.Filter(should=free), wait=True)
            ),
        )
        return self._read(alias, collection)

    def _read(self, alias: str, collection: str) -> Mapping[str, Any]:
        return read_lease(self.client, alias, collection)

    @property
    def _embedded(self) -> bool:
        return isinstance(self.client, EmbeddedClient)

    def _mine(self) -> models.FieldCondition:
        return models.FieldCondition(key="holder", match=models.MatchValue(value=self.run_id))


class Standing(Enum):
    """What a lease tells a process that does a part of a run."""

    HELD = "held"
    STOPPING = "stopping"
    LOST = "lost"


def read_lease(client: QdrantClient, alias: str, collection: str, *, attempts: int = 5) -> Mapping[str, Any]:
    """What the lease of an alias says; nothing if there is none.

    Raises:
        StoreError: the store failed.
    """
    records = send(
        f"read the lease of {alias}",
        lambda: client.retrieve(collection, ids=[lease_id(alias)], with_payload=True),
        attempts=attempts,
    )
    return (records[0].payload or {}) if records else {}


def standing(found: Mapping[str, Any], run_id: str, now: float) -> Standing:
    """Whether a process that does a part of the run `run_id` may go on, by what the lease says at `now`. Pure."""
    if found.get("holder") != run_id or float(found["expires_at"]) < now:
        return Standing.LOST
    return Standing.STOPPING if found.get("stopping") else Standing.HELD


def _process() -> str:
    # A forked child has its parent's memory, but a number of its own.
    return f"{_BORN}-{os.getpid()}"


def lease_id(alias: str) -> str:
    """The id of the lease point of an alias."""
    return ids.lease_id(alias)


def _told(alias: str, found: Mapping[str, Any]) -> str:
    if not found:
        return f"the lease of {alias} is gone as soon as it is taken; another run works there, run again"
    until = datetime.fromtimestamp(float(found["expires_at"]), UTC).strftime("%H:%M:%S")
    return (
        f"{alias} is being written by another run, {found['holder']} on {found['host']} (process {found['pid']}); wait until it "
        f"ends. If it is dead, its lease is free after {until} UTC"
    )
