"""The far side of a run: what a worker process does with a `Part`.

Everything is opened here, with the settings and keys of this process: the client of the store, the models, the cache of their answers. It
is kept for the next part of the same run, and so are the last batches that were read, because the six strategies' parts of a batch
mostly follow each other. What belongs to another run is closed when a new one comes and nobody works for it any more.

The run holds the leases, not the worker. While parts are in hand a thread looks at their leases every second: a run that stops says so
there, and one that died lets them expire or has them taken. Then the work ends with the documents in hand.
"""

from __future__ import annotations

import math
import socket
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from chunkers import ModelError, SettingError
from flows import logs
from flows.loading import Loaded, load_batch
from flows.models import Shared, open_tools
from flows.parts import Part
from flows.places import open_cache, open_store
from flows.report import SUMS, StrategyReport
from flows.retries import again, wait_before
from flows.settings import Settings, SettingsError
from flows.strategy_run import StrategyRun
from stores import StoreError, Target
from stores.inventory import stored_collection
from stores.lease import Standing, read_lease, standing

# Seconds between looks at the leases; so long, about, a worker goes on after its run has stopped.
POLL = 1.0
# Batches that are kept after they were read, and runs that are kept open.
BATCHES = 2
RUNS = 2
# Characters of an error that are passed on.
LONGEST_ERROR = 500

# What a person can do something about is told in one line.
EXPECTED = (StoreError, ModelError, SettingError, SettingsError, OSError)

_runs: OrderedDict[str, Opened] = OrderedDict()
_lock = threading.RLock()
_leaving = threading.Event()


class _Batch:
    """A batch that the first who needs it reads."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loaded: Loaded | None = None


@dataclass
class _Kept:
    """A part between its first try and its end."""

    own: StrategyRun
    loaded: Loaded = field(default_factory=Loaded)


class Opened:
    """What this process has opened for a run.

    Attributes:
        stop: set when the run stops or has lost a lease.
        lost: why, in the second case.
    """

    def __init__(self, part: Part) -> None:
        self.run_id = part.run_id
        self.stop = threading.Event()
        self.lost: str | None = None
        self.users = 0
        self._batches: OrderedDict[int, _Batch] = OrderedDict()
        self._kept: dict[tuple[str, int], _Kept] = {}
        self._locks: dict[tuple[str, int], threading.Lock] = {}
        self._leases: Counter[tuple[str, str]] = Counter()
        self._until: dict[str, float] = {}
        self._closing = threading.Event()
        self._open = ExitStack()
        self.settings = Settings.load(part.given)
        if not self.settings.qdrant_url:
            raise SettingsError(
                f"the worker on {socket.gethostname()} has no QDRANT_URL in its environment; set it there to the server of the run"
            )
        try:
            self._client = self._open.enter_context(open_store(self.settings, create=False))
            cache = self._open.enter_context(open_cache(self.settings))
        except BaseException:
            self._open.close()
            raise
        self._shared = Shared(cache, self.stop)
        threading.Thread(target=self._watch, name="watch leases", daemon=True).start()

    def close(self) -> None:
        self._closing.set()
        self._open.close()

    def do(self, part: Part, tries: int) -> dict[str, Any]:
        """The work of a part; its counts. It may be asked again after an error; what is done is left out then."""
        key = (part.strategy, part.number)
        with _lock:
            lock = self._locks.setdefault(key, threading.Lock())
        # A second copy of a task may come to the same process.
        with lock, self._watched(part):
            try:
                if tries > 1:
                    self.stop.wait(wait_before(tries - 1))
                self._look(part.alias, part.lease, attempts=5)
                if not self.stop.is_set():
                    if key not in self._kept:
                        self._kept[key] = _Kept(self._begin(part))
                    self._write(self._kept[key], part)
            except EXPECTED as error:
                if self.lost or not self.stop.is_set():
                    if not again(error, tries):
                        error.counts = self._told(part)  # type: ignore[union-attr]
                    raise
                # What ends because the run was stopped has not failed.
            if self.lost:
                lost = StoreError(self.lost, fatal=True)
                lost.counts = self._told(part)  # type: ignore[attr-defined]
                raise lost
            return self._told(part)

    def _begin(self, part: Part) -> StrategyRun:
        stored = stored_collection(self._client, part.collection)
        if stored is None:
            raise StoreError(
                f"the worker on {socket.gethostname()} does not find {part.collection} in its store; is its QDRANT_URL that of the run?",
                fatal=True,
            )
        tools = open_tools(part.strategy, self.settings.as_stored(stored.recipe), stored.recipe, self._shared)
        if not stored.recipe.fingerprint() == tools.recipe.fingerprint() == part.fingerprint:
            differences = ", ".join(stored.recipe.differences(tools.recipe)) or "the collection was made anew"
            raise StoreError(
                f"the worker on {socket.gethostname()} would write other chunks than {part.collection} holds ({differences}); "
                "give it the run's version of quarry and its settings",
                fatal=True,
            )
        target = Target(part.corpus, stored.recipe, part.collection, part.alias, live=part.live, exists=True)
        own = StrategyRun(self._client, tools, target, part.run_id, dry_run=False)
        own.take(part.pending, part.moved)
        return own

    def _write(self, kept: _Kept, part: Part) -> None:
        own = kept.own
        if not own.wanted:
            return
        try:
            own.begin(part.pending)
            kept.loaded = self._load(part, own.wanted)
            for uri, reason, counted in kept.loaded.unreadable:
                if counted:
                    own.fail(uri, reason)
            own.write(kept.loaded.documents, self.stop, lambda done: None)
        finally:
            own.give_back()

    def _load(self, part: Part, wanted: frozenset[str]) -> Loaded:
        """The documents of a part's batch: all that this strategy needs, from what was read last where that has them."""
        with _lock:
            batch = self._batches.setdefault(part.number, _Batch())
            self._batches.move_to_end(part.number)
            while len(self._batches) > BATCHES:
                self._batches.popitem(last=False)
        with batch.lock:
            if batch.loaded is None:
                batch.loaded = Loaded()
            known = {document.uri for document in batch.loaded.documents}
            known |= {uri for uri, _, _ in batch.loaded.unreadable}
            # Another strategy may have needed fewer of them.
            more = load_batch([entry for entry in part.entries if entry.uri not in known], part.corpus)
            batch.loaded.documents += more.documents
            batch.loaded.unreadable += more.unreadable
            batch.loaded.notes += more.notes
            return Loaded(
                [document for document in batch.loaded.documents if document.uri in wanted],
                [row for row in batch.loaded.unreadable if row[0] in wanted],
                [row for row in batch.loaded.notes if row[0] in wanted],
            )

    def _told(self, part: Part) -> dict[str, Any]:
        """What a part counted, small; nothing is kept of it any more."""
        kept = self._kept.pop((part.strategy, part.number), None)
        report = kept.own.report if kept else StrategyReport()
        loaded = kept.loaded if kept else Loaded()
        return {name: getattr(report, name) for name in SUMS} | {
            "seconds": report.seconds,
            "uncounted": report.uncounted,
            "failed": [(uri, error[:LONGEST_ERROR]) for uri, error in report.failed],
            "unreadable": [(uri, reason[:LONGEST_ERROR]) for uri, reason, _ in loaded.unreadable],
            "notes": loaded.notes,
            "blank": loaded.blank,
        }

    # Leases

    @contextmanager
    def _watched(self, part: Part) -> Iterator[None]:
        """The lease of a part's alias is looked at while the block lasts."""
        lease = (part.alias, part.lease)
        with _lock:
            self._leases[lease] += 1
        try:
            yield
        finally:
            with _lock:
                self._leases[lease] -= 1

    def _watch(self) -> None:
        while not self._closing.wait(POLL):
            if _leaving.is_set():
                self.stop.set()
            with _lock:
                leases = [lease for lease, users in self._leases.items() if users]
            for lease in leases:
                # A store that does not answer is for the work itself to meet, until the lease has expired as far as is known.
                with suppress(StoreError):
                    self._look(*lease, attempts=1)
                if self._until.get(lease[0], math.inf) < time.time():
                    self._lose(lease[0])

    def _look(self, alias: str, collection: str, *, attempts: int) -> None:
        found = read_lease(self._client, alias, collection, attempts=attempts)
        now = standing(found, self.run_id, time.time())
        if now is Standing.LOST:
            self._lose(alias)
            return
        self._until[alias] = float(found["expires_at"])
        if now is Standing.STOPPING:
            self.stop.set()

    def _lose(self, alias: str) -> None:
        host = socket.gethostname()
        self.lost = (
            self.lost or f"the lease of {alias} is not the run's any more, so the worker on {host} leaves it alone"
        )
        self.stop.set()


def work(packed: bytes, tries: int = 1) -> dict[str, Any]:
    """Does a part; its counts.

    Args:
        packed: the part.
        tries: how often it was tried, this time included.

    Raises:
        One of `EXPECTED`; if it is not to be tried again, what was done before is in its attribute `counts`.
    """
    part = Part.unpacked(packed)
    if tries > 1 and part.run_id not in _runs:
        # The store could not even be reached.
        _leaving.wait(wait_before(tries - 1))
    with logs.about(run=part.run_id, corpus=part.corpus, strategy=part.strategy), _opened(part) as opened:
        return opened.do(part, tries)


@contextmanager
def _opened(part: Part) -> Iterator[Opened]:
    with _lock:
        opened = _runs.get(part.run_id)
        if opened is None:
            opened = _runs[part.run_id] = Opened(part)
        opened.users += 1
        _runs.move_to_end(part.run_id)
        _close_idle(RUNS)
    try:
        yield opened
    finally:
        with _lock:
            opened.users -= 1
            _close_idle(RUNS)


def _close_idle(most: int) -> None:
    """Closes the runs that were used longest ago, as far as nobody works for them."""
    for run_id, opened in list(_runs.items()):
        if len(_runs) > most and not opened.users:
            del _runs[run_id]
            opened.close()


def close() -> None:
    """Closes what is open and not in use."""
    with _lock:
        _close_idle(0)


def leave(seconds: float) -> None:
    """Stops all work of this process after the documents in hand, and waits so long at most until it has ended."""
    _leaving.set()
    until = time.monotonic() + seconds
    while time.monotonic() < until and any(opened.users for opened in list(_runs.values())):
        time.sleep(0.05)
