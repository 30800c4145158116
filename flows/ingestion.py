"""One run over one source, step by step: what the Prefect flow and the plain command both do.

Opening an `Ingestion` checks everything that can be checked before any work or money is spent: the source, every parameter, every
model's name and key, the store, and that stored collections were made with the same settings. Then `plan()` compares the source with
each collection's journal, `batches()` gives the documents that some strategy needs, `load()` reads a batch, `write()` brings one
strategy's collection up to date with it, and `finish()` deletes what vanished and moves the alias. What one strategy does touches
nothing of another; what they did is added up in `report`.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from chunkers import STRATEGIES, Document, SettingError
from chunkers.models import Embedder
from flows import batches
from flows.corpora import choose_corpus, rebase
from flows.loading import LoadError, hash_file, load_document
from flows.models import Tools, open_cache, open_tools
from flows.observer import Observer, current
from flows.report import Report, StrategyReport
from flows.settings import Settings
from flows.sources import Entry, list_source
from stores import (
    JournalRow,
    Outcome,
    Plan,
    SettingsChanged,
    Target,
    Writer,
    connect,
    corpus_roots,
    finish_target,
    live_recipe,
    open_target,
    plan_documents,
    read_journal,
)


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked: small, and the same for the command line, a schedule and the Prefect UI.

    Attributes:
        source: a file, a folder or a glob.
        corpus: the corpus's name; chosen from the root folder when None.
        strategies: names from `chunkers.STRATEGIES`.
        rebuild: build a new collection beside the live one.
        dry_run: plan and report, write nothing.
        allow_deletes: how many vanished documents may be deleted although the guards would hold them back.

    Raises:
        SettingError: a strategy is unknown, or none is named, or the number is negative.
    """

    source: str
    corpus: str | None = None
    strategies: tuple[str, ...] = STRATEGIES
    rebuild: bool = False
    dry_run: bool = False
    allow_deletes: int = 0

    def __post_init__(self) -> None:
        for strategy in self.strategies or (None,):
            if strategy not in STRATEGIES:
                raise SettingError("strategy", strategy, f"one of {', '.join(STRATEGIES)}")
        if self.allow_deletes < 0:
            raise SettingError("allow_deletes", self.allow_deletes, "a whole number of at least 0")


@dataclass
class _Strategy:
    """One strategy's part of a run."""

    tools: Tools
    target: Target
    writer: Writer
    report: StrategyReport
    journal: dict[str, JournalRow] = field(default_factory=dict)
    plan: Plan | None = None
    wanted: frozenset[str] = frozenset()


class Ingestion:
    """A run. Use it as a context manager, so that the store and the cache are closed.

    Args:
        request: what to do.
        settings: parameters, models, places.
        observer: hears of progress; whoever listens in this context by default.

    Raises:
        SourceError: the source cannot be listed.
        SettingError: a parameter or a model cannot be used.
        StoreError: the store cannot be reached, or a collection was made with other settings or another root.
        ModelError: an endpoint had to be asked for a model's dimensions, and did not answer.
    """

    def __init__(self, request: Request, settings: Settings, observer: Observer | None = None) -> None:
        self.request = request
        self.settings = settings
        self.observer = observer or current()
        self.run_id = str(uuid.uuid4())
        self.stop = threading.Event()
        self._open = ExitStack()
        try:
            self._prepare()
        except BaseException:
            self._open.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    def _prepare(self) -> None:
        request, settings = self.request, self.settings
        listing = list_source(request.source, home=settings.home)
        key = settings.qdrant_api_key.get_secret_value() if settings.qdrant_api_key else None
        self._client = connect(url=settings.qdrant_url, path=settings.home / "qdrant", api_key=key)
        self._open.callback(self._client.close)
        roots = corpus_roots(self._client)
        self.corpus = choose_corpus(listing, request.corpus, roots)
        self.listing = rebase(listing, roots.get(self.corpus))
        if request.rebuild and self.listing.partial:
            raise SettingError("rebuild", True, "left out for a part of a corpus: a rebuild needs the whole of it")
        self.report = Report(
            self.corpus, str(self.listing.root), complete=self.listing.complete, dry_run=request.dry_run
        )
        self.report.skipped = [(row.document, row.reason) for row in self.listing.skipped]
        self._cache = open_cache(settings)
        self._open.callback(self._cache.close)
        self._embedders: dict[str, Embedder] = {}
        tools = {name: self._tools(name) for name in dict.fromkeys(request.strategies)}
        self._check_recipes(tools)
        self._strategies = {name: self._strategy(own) for name, own in tools.items()}
        self._tell_models()

    def _tools(self, name: str) -> Tools:
        stored = None if self.request.rebuild else live_recipe(self._client, self.corpus, name)
        return open_tools(name, self.settings, self._cache, stored, self._embedders)

    def _check_recipes(self, tools: dict[str, Tools]) -> None:
        """Opens every target without creating any, so that a refused one leaves no trace of the others."""
        refused: dict[str, Sequence[str]] = {}
        for own in tools.values():
            try:
                self._target(own, create=False)
            except SettingsChanged as changed:
                refused |= changed.differences
        if refused:
            raise SettingsChanged(refused)

    def _target(self, tools: Tools, *, create: bool) -> Target:
        return open_target(
            self._client, self.corpus, str(self.listing.root), tools.recipe, rebuild=self.request.rebuild, create=create
        )

    def _strategy(self, tools: Tools) -> _Strategy:
        target = self._target(tools, create=not self.request.dry_run)
        recipe = tools.recipe
        report = StrategyReport(
            collection=target.collection,
            alias=target.alias,
            embedding_model=recipe.embedding_model,
            context_model=recipe.context_model,
        )
        self.report.strategies[recipe.strategy] = report
        return _Strategy(
            tools, target, Writer(self._client, target, tools.chunker, tools.embedder, self.run_id), report
        )

    def _tell_models(self) -> None:
        embedding = ", ".join(sorted({own.report.embedding_model for own in self._strategies.values()}))
        contexts = ", ".join(
            sorted({own.report.context_model for own in self._strategies.values() if own.report.context_model})
        )
        self.observer.noted(
            f"corpus {self.corpus}: embeddings by {embedding}" + (f", contexts by {contexts}" if contexts else "")
        )

    def plan(self) -> None:
        """Hashes the source's files and decides, for each strategy, which documents are to be written and deleted."""
        hashes: dict[str, str | None] = {}
        for entry in self.listing.entries:
            try:
                hashes[entry.uri] = hash_file(entry.path)
            except OSError as error:
                hashes[entry.uri] = None
                self.report.unreadable.append((entry.uri, error.strerror or str(error)))
        for own in self._strategies.values():
            own.journal = read_journal(self._client, own.target.collection) if own.target.exists else {}
            own.writer.journal = own.journal
            own.plan = plan_documents(
                hashes,
                own.journal,
                corpus=self.corpus,
                complete=self.listing.complete,
                partial=self.listing.partial,
                allow_deletes=self.request.allow_deletes,
            )
            self._count_plan(own)
        self.observer.planned({name: len(own.wanted) for name, own in self._strategies.items()})

    def _count_plan(self, own: _Strategy) -> None:
        assert own.plan is not None
        plan = own.plan
        own.wanted = frozenset([*plan.new, *plan.changed, *plan.unfinished])
        own.report.documents = own.report.unchanged = len(plan.unchanged)
        unchanged = set(plan.unchanged)
        for row in own.journal.values():
            if row.uri in unchanged:
                own.report.chunks += len(row.chunk_ids)
                if not row.chunk_ids:
                    self._skip_blank(row.uri)
        self.report.withheld = max(self.report.withheld, len(plan.withheld))
        if self.request.dry_run:
            own.report.documents += len(own.wanted)
            own.report.planned = {
                "new": list(plan.new),
                "changed": list(plan.changed),
                "unfinished": list(plan.unfinished),
                "unchanged": list(plan.unchanged),
                "vanished": [row.uri for row in plan.vanished],
                "withheld": [row.uri for row in plan.withheld],
            }

    def _skip_blank(self, uri: str) -> None:
        row = (uri, "blank: nothing but white space")
        if row not in self.report.skipped:
            self.report.skipped.append(row)

    def batches(self) -> Iterator[list[Entry]]:
        """The documents that some strategy needs, in batches."""
        wanted = frozenset[str]().union(*(own.wanted for own in self._strategies.values()))
        entries = [entry for entry in self.listing.entries if entry.uri in wanted]
        yield from batches.batches(entries, batches.batch_size(len(entries), len(self._strategies)))

    def load(self, batch: Sequence[Entry]) -> list[Document]:
        """The documents of a batch. One that cannot be read is reported and left as it is stored."""
        documents = []
        for entry in batch:
            try:
                document = load_document(entry, self.corpus)
            except LoadError as error:
                self.report.unreadable.append((error.document, error.reason))
                continue
            documents.append(document)
            self._note(document)
        return documents

    def _note(self, document: Document) -> None:
        metadata = document.metadata
        if document.text.isspace() or not document.text:
            self._skip_blank(document.uri)
        if metadata.get("encoding", "utf-8") != "utf-8":
            self.report.notes.append((document.uri, f"read as {metadata['encoding']}"))
        if metadata.get("replaced_characters"):
            self.report.notes.append((document.uri, f"{metadata['replaced_characters']} characters replaced by U+FFFD"))
        if metadata.get("front_matter_error"):
            self.report.notes.append((document.uri, f"front matter left in the text: {metadata['front_matter_error']}"))

    def active(self) -> list[str]:
        """Strategies that have not stopped."""
        return [name for name, own in self._strategies.items() if own.report.error is None]

    def write(self, name: str, documents: Sequence[Document]) -> None:
        """Brings one strategy's collection up to date with those of `documents` that it needs, and counts what was done.

        Raises:
            StoreError, ModelError: nothing more can be done for this strategy; `failed` says so to the report.
        """
        own = self._strategies[name]
        wanted = [document for document in documents if document.uri in own.wanted]
        began, sent, cached = time.perf_counter(), own.tools.embedder.sent, own.tools.embedder.cached
        outcome = Outcome()
        try:
            own.writer.write(
                wanted,
                stop=self.stop,
                progress=lambda done: self.observer.advanced(name, done),
                outcome=outcome,
            )
        finally:
            own.report.seconds += time.perf_counter() - began
            own.report.embedded += own.tools.embedder.sent - sent
            own.report.cached += own.tools.embedder.cached - cached
            if own.tools.context_writer:
                own.report.fallbacks = own.tools.context_writer.fallbacks
            own.report.documents += outcome.attempted
            own.report.chunks += outcome.chunks
            own.report.upserted += outcome.upserted
            own.report.deleted += outcome.deleted
            own.report.failed += outcome.failed

    def failed(self, name: str, error: BaseException) -> None:
        """Marks a strategy as stopped by `error`; the others go on."""
        self._strategies[name].report.error = " ".join(str(error).split()) or type(error).__name__

    def finish(self, name: str) -> None:
        """Deletes what vanished, then verifies the collection and points the alias at it.

        Raises:
            StoreError: the store failed, or what it holds is not what the journal says.
        """
        own = self._strategies[name]
        assert own.plan is not None
        began = time.perf_counter()
        try:
            if own.plan.vanished:
                own.report.deleted += own.writer.delete(own.plan.vanished).deleted
            finish_target(self._client, own.target, failed=len(own.report.failed) + len(self.report.unreadable))
        finally:
            own.report.seconds += time.perf_counter() - began
