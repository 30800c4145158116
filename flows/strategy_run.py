"""One strategy's part of a run: its journal and plan, what it writes and deletes, and how it ends. It touches no other strategy."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from qdrant_client import QdrantClient

from chunkers import Document
from chunkers.ids import document_id
from flows.models import Tools
from flows.report import SUMS, StrategyReport
from flows.spending import count_usage, put_price
from stores import DocumentState, Outcome, Pending, Plan, Target, Writer, finish_target, read_states, with_chunks
from stores.journal import DONE
from stores.journal_io import read_rows

log = logging.getLogger(__name__)

# Where more documents than these failed and none was stored, it is hardly the documents.
MOST_FAILED_ALONE = 10

Planner = Callable[[Mapping[str, DocumentState]], Plan]


class StrategyRun:
    """A strategy with its models, its collection and its counts.

    Attributes:
        tools, target: what it works with, and where to.
        report: its counts.
        plan: what is to be done; empty before `make_plan`.
        missed: documents of the live collection that a rebuild does not find in the source, and may not let go.
        left_behind: parked documents, which a rebuild leaves out, of which readers have text in the live collection.
        wanted: uris of the documents that are to be written.
        journal: states of the stored documents by id.
        elsewhere: other processes write the collection, so `journal` is what it was when the run was planned.
    """

    def __init__(self, client: QdrantClient, tools: Tools, target: Target, run_id: str, *, dry_run: bool) -> None:
        self._client = client
        self._dry_run = dry_run
        self._run_id = run_id
        self.tools = tools
        self.target = target
        self.elsewhere = False
        self._ended: set[str] = set()
        self.journal: dict[str, DocumentState] = {}
        self._writer = Writer(client, target, tools.chunker, tools.embedder, run_id, self.journal)
        self.plan = Plan()
        self.missed = self.left_behind = 0
        self._stored = 0
        self.wanted: frozenset[str] = frozenset()
        self.report = StrategyReport(
            collection=target.collection,
            alias=target.alias,
            embedding_model=tools.recipe.embedding_model,
            context_model=tools.recipe.context_model,
        )

    def make_plan(self, planner: Planner, live: str | None) -> None:
        """Reads the journal and decides what is to be done.

        Args:
            planner: compares the source with a journal.
            live: the collection that a rebuild is to replace, or None. A rebuild starts from an empty journal, so what has vanished is
                seen in the journal of that one.

        Raises:
            StoreError: a journal cannot be read.
        """
        if self.target.exists:
            self.journal.update(read_states(self._client, self.target.collection))
        self.plan = planner(self.journal)
        if live is not None:
            self._heed(live, planner)
        plan = self.plan
        self.wanted = frozenset(plan.wanted())
        self._writer.moves = {document_id(self.target.corpus, move.uri): move.state for move in plan.moved}
        unchanged = set(plan.unchanged)
        self.report.documents = self.report.unchanged = len(unchanged)
        self.report.chunks = sum(state.chunks for state in self.journal.values() if state.uri in unchanged)
        self.report.parked = [(state.uri, state.reason) for state in plan.parked]
        if self._dry_run:
            self.report.planned = plan.as_names()
        log.info(
            "%s: %d documents to be written, %d unchanged, %d vanished, %d parked, %d deletions withheld",
            self.tools.recipe.strategy,
            len(self.wanted),
            len(plan.unchanged),
            len(plan.vanished),
            len(plan.parked),
            len(plan.withheld),
        )

    def _heed(self, live: str, planner: Planner) -> None:
        """Lets the guards of a rebuild be those of the live collection: what that one no longer holds was let go of before."""
        states = read_states(self._client, live)
        self.missed = len(planner(states).withheld)
        kept: list[DocumentState] = []
        gone: list[DocumentState] = []
        for state in self.plan.withheld:
            (kept if self.missed and state.doc_id in states else gone).append(state)
        self.plan = replace(self.plan, withheld=kept, vanished=[*self.plan.vanished, *gone])
        parked = [state.doc_id for state in self.plan.parked if state.doc_id in states]
        self.left_behind = len(with_chunks(self._client, live, parked))

    def take(self, documents: Sequence[Pending], moved: Mapping[str, str]) -> None:
        """Instead of `make_plan`: takes a part of a run that was planned in another process.

        Documents that another copy of this part has stored already are counted and left alone.

        Args:
            documents: those of the part.
            moved: the ids that documents had where they were stored before, by their ids now.

        Raises:
            StoreError: the journal cannot be read.
        """
        ids = [document.doc_id for document in documents]
        rows = read_rows(self._client, self.target.collection, [*ids, *moved.values()])
        self.journal.update({doc_id: row.state for doc_id, row in rows.items()})
        stored = [
            rows[id_] for id_ in ids if id_ in rows and (rows[id_].status, rows[id_].run_id) == (DONE, self._run_id)
        ]
        self.wanted = frozenset(document.uri for document in documents) - {row.uri for row in stored}
        olds = {doc_id: rows[old] for doc_id, old in moved.items() if old in rows}
        self._writer.moves = {doc_id: old.state for doc_id, old in olds.items()}
        self._writer.leave([olds[row.doc_id] for row in stored if row.doc_id in olds])
        self.report.documents += len(stored)
        self.report.chunks += sum(len(row.chunk_ids) for row in stored)

    def blank(self) -> list[str]:
        """Uris of unchanged documents that hold nothing to chunk."""
        unchanged = set(self.plan.unchanged)
        return [state.uri for state in self.journal.values() if state.uri in unchanged and not state.chunks]

    def begin(self, documents: Iterable[Pending]) -> None:
        """Journals an attempt at those of `documents` that this strategy needs, before they are read.

        Raises:
            StoreError: the store failed.
        """
        if not self._dry_run:
            with self._timed():
                self._writer.begin([document for document in documents if document.uri in self.wanted - self._ended])

    def fail(self, uri: str, told: str) -> None:
        """Journals that a document that was begun could not be read."""
        if not self._dry_run and uri in self.wanted:
            self._writer.fail(document_id(self.target.corpus, uri), told)

    def give_back(self) -> None:
        """Makes the journal's rows of documents that were begun and not tried what they were."""
        if not self._dry_run:
            self._writer.give_back()

    def forgive(self) -> None:
        """Counts failures against no document where so many failed and none was stored: then it is a model, or the store, that fails."""
        failed = self.report.failed
        if not self._dry_run and not self._stored and len(failed) > MOST_FAILED_ALONE:
            self._writer.forgive([document_id(self.target.corpus, uri) for uri, _ in failed])

    def write(self, documents: Sequence[Document], stop: threading.Event, progress: Callable[[int], None]) -> None:
        """Brings the collection up to date with those of `documents` that it needs, and counts what was done; a dry run only counts.

        It may be asked again after an error, for the same documents: those that were stored or that failed are left out.

        Raises:
            StoreError, ModelError: nothing more can be done for this strategy.
        """
        wanted = [document for document in documents if document.uri in self.wanted - self._ended]
        outcome = Outcome()
        with self._timed():
            try:
                if self._dry_run:
                    outcome.add(self._writer.rehearse(wanted, stop=stop, progress=progress))
                else:
                    self._writer.write(wanted, stop=stop, progress=progress, outcome=outcome)
            finally:
                self._count(outcome)
                self._ended |= {uri for uri, _ in outcome.failed}
                self._ended |= {document.uri for document in wanted if self._is_stored(document)}
                self.give_back()
                if wanted:
                    self._log(outcome)

    def _log(self, outcome: Outcome) -> None:
        name = self.tools.recipe.strategy
        for uri, error in outcome.failed:
            log.info("%s: %s failed: %s", name, uri, error)
        log.info(
            "%s: %d documents done: %d chunks, %d points written, %d deleted; so far %d texts embedded, %d cached",
            name,
            outcome.attempted - len(outcome.failed),
            outcome.chunks,
            outcome.upserted,
            outcome.deleted,
            self.report.embedded,
            self.report.cached,
        )

    def _is_stored(self, document: Document) -> bool:
        state = self.journal.get(document.id)
        return state is not None and (state.status, state.content_hash) == (DONE, document.content_hash)

    def add(self, counts: Mapping[str, Any]) -> None:
        """Adds what a part of the run that another process did has counted."""
        self.elsewhere = True
        for name in (*SUMS, "seconds"):
            setattr(self.report, name, getattr(self.report, name) + counts[name])
        self.report.uncounted |= counts["uncounted"]
        put_price(self.report, self.tools)
        self.report.failed += [(uri, error) for uri, error in counts["failed"]]
        self._stored += counts["documents"] - len(counts["failed"])

    def _count(self, outcome: Outcome) -> None:
        report = self.report
        count_usage(report, self.tools)
        report.documents += outcome.attempted
        report.chunks += outcome.chunks
        report.upserted += outcome.upserted
        report.deleted += outcome.deleted
        report.moved += outcome.moved
        report.window_contexts += outcome.window_contexts
        report.shortened_contexts += outcome.shortened_contexts
        report.failed += outcome.failed
        self._stored += outcome.attempted - len(outcome.failed)

    def count_left(self, unreadable: Iterable[str]) -> None:
        """Counts the documents that were to be written and were not tried; those that could not be read were."""
        tried = self.report.documents - self.report.unchanged + len(self.wanted.intersection(unreadable))
        self.report.not_attempted = max(0, len(self.wanted) - tried)

    def count_vanished(self) -> None:
        """Counts the points that a real run would delete with the vanished documents."""
        self.report.deleted += sum(state.chunks + state.parents for state in self.plan.vanished)

    def lacking(self, *, complete: bool, unreadable: int, allow_deletes: int, max_failed: int) -> str | None:
        """Why the collection may hold less than the corpus, or than readers have now; None if it does not.

        Args:
            complete: the listing of the source saw everything.
            unreadable: files that could not be read.
            allow_deletes: how many documents readers may lose.
            max_failed: how many documents may have failed.
        """
        if not complete:
            return "the listing of the source is incomplete"
        if self.missed:
            return (
                f"{self.missed} documents of the live collection are gone from the source; --allow-deletes {self.missed} "
                "lets them go"
            )
        if self.left_behind > allow_deletes:
            return (
                f"{self.left_behind} parked documents have text in the live collection that it lacks; mend them, or "
                f"--allow-deletes {self.left_behind} lets that text go"
            )
        failed = len(self.report.failed) + unreadable
        return f"{failed} documents failed" if failed > max_failed else None

    def finish(
        self, lacking: str | None, siblings: Sequence[str], confirm: Callable[[], None], *, max_failed: int
    ) -> None:
        """Deletes what vanished, verifies the collection and points the alias at it.

        Args:
            lacking: why the collection may hold less than the corpus, or None.
            siblings: strategies of the corpus that are stored.
            confirm: raises if another run has taken over, just before the alias moves.
            max_failed: how many documents may have failed.

        Raises:
            StoreError: the store failed, or holds something else than the journal says, or the alias may not move.
        """
        with self._timed():
            if self.plan.vanished:
                self.report.deleted += self._writer.delete(self.plan.vanished).deleted
            if self.elsewhere:
                self.journal.clear()
                self.journal.update(read_states(self._client, self.target.collection))
            finish_target(
                self._client,
                self.target,
                journal=self.journal,
                lacking=lacking,
                allowed=max_failed,
                siblings=siblings,
                confirm=confirm,
            )

    @contextmanager
    def _timed(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            self.report.seconds += time.perf_counter() - began
