"""One run over one source, step by step: what the Prefect flow and the plain command both do.

Opening an `Ingestion` checks everything that can be checked before any work or money is spent: the source, every parameter, every
model's name and key, the store, that stored collections were made with the same settings, and that no other run is at work on them.
Then `plan()` compares the source with each collection's journal, `batches()` gives the documents that some strategy needs, `load()`
journals an attempt at a batch and reads it, `write()` brings one strategy's collection up to date with it, and `finish()` deletes what
vanished and moves the alias. A dry run takes the same steps with models that only count, and writes nothing. What one strategy does
touches nothing of another; what they did is added up in `report`.
"""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from chunkers import Document, SettingError
from chunkers.ids import document_id
from chunkers.models import Asked, Meter
from chunkers.redaction import in_words
from flows import batches, logs
from flows.corpora import choose_corpus, rebase, select
from flows.loading import hash_files, load_batch
from flows.models import Shared, Tools, open_tools
from flows.observer import Observer, current
from flows.places import open_cache, open_store
from flows.report import Report
from flows.request import Request
from flows.retries import may_pass
from flows.settings import Settings
from flows.sources import Entry, SourceError, list_source
from flows.spending import check_budget
from flows.stopping import undisturbed
from flows.strategy_run import StrategyRun
from flows.targets import choose_targets, take_target
from stores import (
    DocumentState,
    LeaseHeld,
    Leases,
    Pending,
    Plan,
    StoreError,
    plan_documents,
    read_inventory,
)

log = logging.getLogger(__name__)


class Ingestion:
    """A run. Use it as a context manager, so that the store and the cache are closed.

    Args:
        request: what to do.
        settings: parameters, models, places.
        observer: hears of progress; whoever listens in this context by default.

    Raises:
        SourceError: the source cannot be listed.
        SettingError: a parameter or a model cannot be used.
        StoreError: the store cannot be reached, another run is at work, or a collection was made with other settings or another root.
        ModelError: an endpoint had to be asked for a model's dimensions, and did not answer.
        OSError: the disk is full.
    """

    def __init__(self, request: Request, settings: Settings, observer: Observer | None = None) -> None:
        self.request = request
        self.settings = settings
        self.observer = observer or current()
        self.run_id = str(uuid.uuid4())
        self.stop = threading.Event()
        self._runs: dict[str, StrategyRun] = {}
        self._hashes: dict[str, str | None] = {}
        self._open = ExitStack()
        try:
            self._prepare()
        except BaseException:
            self._close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        with undisturbed():
            for own in self._runs.values():
                own.give_back()
                own.forgive()
            self._open.close()

    def _prepare(self) -> None:
        request, settings = self.request, self.settings
        listing = list_source(request.source, home=settings.home)
        self._client = self._open.enter_context(open_store(settings, create=not request.dry_run))
        self._inventory = read_inventory(self._client)
        roots = self._inventory.roots()
        self.corpus = choose_corpus(listing, request.corpus, roots)
        self.listing = rebase(listing, roots.get(self.corpus))
        if request.documents:
            self.listing = select(self.listing, request.documents)
        if request.rebuild and self.listing.partial:
            raise SettingError("rebuild", True, "left out for a part of a corpus: a rebuild needs the whole of it")
        self.report = Report(
            self.corpus,
            str(self.listing.root),
            complete=self.listing.complete,
            dry_run=request.dry_run,
            max_failed=request.max_failed,
        )
        self.report.skipped = [(row.document, row.reason) for row in self.listing.skipped]
        if not listing.entries and self.corpus not in roots:
            raise SourceError(
                f"{request.source}: it holds no markdown or text files, so there is nothing to make a corpus of"
            )
        cache = self._open.enter_context(open_cache(settings, read_only=request.dry_run))
        meter = Meter(settings.price_of, request.max_cost)
        self._shared = Shared(cache, self.stop, Asked() if request.dry_run else None, meter)
        root = str(self.listing.root)
        tools = {name: self._tools(name) for name in dict.fromkeys(request.strategies)}
        check_budget(request, settings, tools)
        targets = choose_targets(self._inventory, self.corpus, root, tools, rebuild=request.rebuild)
        self._leases = leases = self._open.enter_context(Leases(self._client, self.run_id, self._lost))
        failures: dict[str, StoreError] = {}
        for name, target in targets.items():
            try:
                taken = target if request.dry_run else take_target(self._client, leases, self._inventory, target, root)
            except LeaseHeld:
                raise
            except StoreError as error:
                taken, failures[name] = target, error
            self._runs[name] = run = StrategyRun(self._client, tools[name], taken, self.run_id, dry_run=request.dry_run)
            self.report.strategies[name] = run.report
            if name in failures:
                self.failed(name, failures[name])
        if len(failures) == len(targets):
            # It is the store that fails, not one collection of it.
            raise next(iter(failures.values()))
        for name in self._runs.keys() & self._inventory.lost(self.corpus):
            self.observer.noted(f"the collection of {name} was stored once and is gone; it is built anew")
        self.observer.noted(self.report.models())

    def _lost(self, told: str) -> None:
        """Ends the run, since another one has taken over a lease of it."""
        self.report.error = told
        self.stop.set()

    def _tools(self, name: str) -> Tools:
        stored = self._inventory.recipe(self.corpus, name)
        return open_tools(name, self.settings, stored, self._shared)

    def plan(self) -> None:
        """Hashes the source's files and decides, for each strategy, which documents are to be written and deleted."""
        self._hashes, self.report.unreadable = hash_files(self.listing.entries)

        def planner(journal: Mapping[str, DocumentState]) -> Plan:
            return plan_documents(
                self._hashes,
                journal,
                corpus=self.corpus,
                complete=self.listing.complete,
                partial=self.listing.partial,
                allow_deletes=self.request.allow_deletes,
                retry_parked=self.request.retry_parked,
            )

        for name in self.active():
            own = self._runs[name]
            live = None if own.target.live else self._inventory.live(self.corpus, name)
            try:
                own.make_plan(planner, live.name if live else None)
            except StoreError as error:
                self.failed(name, error)
                continue
            self.report.withheld = max(self.report.withheld, len(own.plan.withheld), own.missed)
            for uri in own.blank():
                self._skip_blank(uri)
        self.observer.planned({name: len(own.wanted) for name, own in self._runs.items()})

    def _skip_blank(self, uri: str) -> None:
        row = (uri, "blank: nothing but white space")
        if row not in self.report.skipped:
            self.report.skipped.append(row)

    def batches(self) -> Iterator[list[Entry]]:
        """The documents that some strategy needs, in batches; those that ended a run badly come last, since they may end this one, too."""

        wanted = frozenset[str]().union(*(own.wanted for own in self._runs.values()))
        entries = [entry for entry in self.listing.entries if entry.uri in wanted]
        yield from batches.careful_batches(entries, batches.batch_size(len(entries), len(self._runs)), self._states)

    def killed(self, batch: Sequence[Entry]) -> bool:
        """Whether a document of a batch was in hand when a run was killed, so that nothing else should be in hand beside it."""
        return any(state.kills for entry in batch for state in self._states(entry))

    def _states(self, entry: Entry) -> list[DocumentState]:
        doc_id = document_id(self.corpus, entry.uri)
        return [state for own in self._runs.values() if (state := own.journal.get(doc_id))]

    def load(self, batch: Sequence[Entry]) -> list[Document]:
        """The documents of a batch, after an attempt at each is journalled. One that cannot be read is reported, and stays as stored.

        Raises:
            ModelError: the language detector cannot be used.
        """
        pending = self.pending(batch)
        for name in self.active():
            try:
                self._runs[name].begin(pending)
            except StoreError as error:
                if not may_pass(error):
                    self.failed(name, error)
                # Else it is begun where it is written, which is tried more than once.
        loaded = load_batch(batch, self.corpus)
        for uri, reason, counted in loaded.unreadable:
            for name in self.active() if counted else ():
                self._runs[name].fail(uri, reason)
        self.noted(loaded.notes, loaded.blank, [(uri, reason) for uri, reason, _ in loaded.unreadable])
        return loaded.documents

    def pending(self, batch: Sequence[Entry]) -> list[Pending]:
        """A batch's documents with the content that they were listed with."""
        return [
            Pending(document_id(self.corpus, entry.uri), entry.uri, self._hashes[entry.uri] or "") for entry in batch
        ]

    def noted(
        self, notes: Sequence[tuple[str, str]], blank: Sequence[str], unreadable: Sequence[tuple[str, str]]
    ) -> None:
        """Takes into the report how documents were read, once for each, whoever read them."""
        for rows, new in ((self.report.notes, notes), (self.report.unreadable, unreadable)):
            known = set(rows)
            rows += [row for row in new if row not in known]
        for uri, reason in unreadable:
            log.info("%s could not be read: %s", uri, reason)
        for uri in blank:
            self._skip_blank(uri)

    def own(self, name: str) -> StrategyRun:
        """One strategy's part of the run."""
        return self._runs[name]

    @property
    def leases(self) -> Leases:
        """Those of the run."""
        return self._leases

    def active(self) -> list[str]:
        """Strategies that have not stopped."""
        return [name for name, own in self._runs.items() if own.report.error is None]

    def write(self, name: str, documents: Sequence[Document]) -> None:
        """Brings one strategy's collection up to date with those of `documents` that it needs.

        Raises:
            StoreError, ModelError: nothing more can be done for this strategy; `failed` says so to the report.
        """
        with logs.about(run=self.run_id, corpus=self.corpus, strategy=name):
            self._runs[name].write(documents, self.stop, lambda done: self.observer.advanced(name, done))

    def failed(self, name: str, error: BaseException) -> None:
        """Marks a strategy as stopped by `error`; the others go on."""
        self._runs[name].report.error = told = in_words(error)
        log.info("%s stops: %s", name, told)

    def count_left(self) -> None:
        """Tells the report of documents that no strategy, or not every one, has tried."""
        for own in self._runs.values():
            own.count_left(uri for uri, _ in self.report.unreadable)

    def finish(self, name: str) -> None:
        """Deletes what vanished, then verifies the collection and points the alias at it.

        Raises:
            StoreError: the store failed, or what it holds is not what the journal says.
        """
        own = self._runs[name]
        if self.request.dry_run:
            own.count_vanished()
            return
        # Deletions and the alias are what another run would suffer from most.
        if own.plan.vanished:
            self._leases.confirm(own.target.alias)
        stored = {*self._inventory.strategies(self.corpus), *self.active()}
        lacking = own.lacking(
            complete=self.listing.complete,
            unreadable=len(self.report.unreadable),
            allow_deletes=self.request.allow_deletes,
            max_failed=self.request.max_failed,
        )
        own.finish(
            lacking,
            sorted(stored),
            lambda: self._leases.confirm(own.target.alias),
            max_failed=self.request.max_failed,
        )
