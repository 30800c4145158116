"""One strategy's part of a run: its journal and plan, what it writes and deletes, and how it ends. It touches no other strategy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from qdrant_client import QdrantClient

from chunkers import Document
from flows.models import Tools
from flows.report import StrategyReport
from stores import JournalRow, Outcome, Plan, Target, Writer, finish_target, read_journal

Planner = Callable[[Mapping[str, JournalRow]], Plan]


class StrategyRun:
    """A strategy with its models, its collection and its counts.

    Attributes:
        tools, target: what it works with, and where to.
        report: its counts.
        plan: what is to be done; empty before `make_plan`.
        missed: documents of the live collection that a rebuild does not find in the source, and may not let go.
        wanted: uris of the documents that are to be written.
    """

    def __init__(self, client: QdrantClient, tools: Tools, target: Target, run_id: str) -> None:
        self._client = client
        self.tools = tools
        self.target = target
        self.journal: dict[str, JournalRow] = {}
        self._writer = Writer(client, target, tools.chunker, tools.embedder, run_id, self.journal)
        self.plan = Plan()
        self.missed = 0
        self.wanted: frozenset[str] = frozenset()
        self.report = StrategyReport(
            collection=target.collection,
            alias=target.alias,
            embedding_model=tools.recipe.embedding_model,
            context_model=tools.recipe.context_model,
        )

    def make_plan(self, planner: Planner, live: str | None, *, dry_run: bool) -> None:
        """Reads the journal and decides what is to be done.

        Args:
            planner: compares the source with a journal.
            live: the collection that a rebuild is to replace, or None. A rebuild starts from an empty journal, so what has vanished is
                seen in the journal of that one.
            dry_run: name the documents in the report.

        Raises:
            StoreError: a journal cannot be read.
        """
        if self.target.exists:
            self.journal.update(read_journal(self._client, self.target.collection))
        self.plan = plan = planner(self.journal)
        self.wanted = frozenset([*plan.new, *plan.changed, *plan.unfinished])
        if live is not None:
            self.missed = len(planner(read_journal(self._client, live)).withheld)
        unchanged = set(plan.unchanged)
        self.report.documents = self.report.unchanged = len(unchanged)
        self.report.chunks = sum(len(row.chunk_ids) for row in self.journal.values() if row.uri in unchanged)
        if dry_run:
            self.report.documents += len(self.wanted)
            self.report.planned = {
                "new": list(plan.new),
                "changed": list(plan.changed),
                "unfinished": list(plan.unfinished),
                "unchanged": list(plan.unchanged),
                "vanished": [row.uri for row in plan.vanished],
                "withheld": [row.uri for row in plan.withheld],
            }

    def blank(self) -> list[str]:
        """Uris of unchanged documents that hold nothing to chunk."""
        unchanged = set(self.plan.unchanged)
        return [row.uri for row in self.journal.values() if row.uri in unchanged and not row.chunk_ids]

    def write(self, documents: Sequence[Document], stop: threading.Event, progress: Callable[[int], None]) -> None:
        """Brings the collection up to date with those of `documents` that it needs, and counts what was done.

        Raises:
            StoreError, ModelError: nothing more can be done for this strategy.
        """
        wanted = [document for document in documents if document.uri in self.wanted]
        outcome = Outcome()
        report, embedder = self.report, self.tools.embedder
        sent, cached = embedder.sent, embedder.cached
        with self._timed():
            try:
                self._writer.write(wanted, stop=stop, progress=progress, outcome=outcome)
            finally:
                report.embedded += embedder.sent - sent
                report.cached += embedder.cached - cached
                if self.tools.context_writer:
                    report.fallbacks = self.tools.context_writer.fallbacks
                report.documents += outcome.attempted
                report.chunks += outcome.chunks
                report.upserted += outcome.upserted
                report.deleted += outcome.deleted
                report.failed += outcome.failed

    def finish(self, lacking: str | None) -> None:
        """Deletes what vanished, verifies the collection and points the alias at it.

        Args:
            lacking: why the collection may hold less than the corpus, or None.

        Raises:
            StoreError: the store failed, or holds something else than the journal says, or the alias may not move.
        """
        with self._timed():
            if self.plan.vanished:
                self.report.deleted += self._writer.delete(self.plan.vanished).deleted
            finish_target(self._client, self.target, journal=self.journal, lacking=lacking)

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.report.seconds += time.perf_counter() - began
