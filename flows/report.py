"""What a run did, as plain numbers: filled in while it works, printed at its end, and the source of its final state.

The rule from counts to outcome is here and nowhere else: a run has failed when a strategy stopped, a document failed or could not be
read, the listing was incomplete, or a deletion was withheld. What did succeed is stored all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

# What the parts of a strategy's work add up to, wherever they are done.
SUMS = (
    "documents",
    "chunks",
    "upserted",
    "deleted",
    "moved",
    "embedded",
    "cached",
    "contexts",
    "fallbacks",
    "window_contexts",
    "shortened_contexts",
    "requests",
    "embedding_tokens",
    "prompt_tokens",
    "cached_prompt_tokens",
    "answer_tokens",
)
_COUNTS = (*SUMS, "unchanged", "not_attempted")


@dataclass
class StrategyReport:
    """One strategy's counts.

    Attributes:
        documents: documents of this run, unchanged ones included.
        unchanged: documents of which nothing was written, since their content is stored.
        chunks: chunks that these documents have in the collection after the run.
        upserted: chunk and parent points written, payloads of kept chunks included.
        deleted: chunk and parent points deleted.
        moved: documents that were stored under another uri and took their vectors along.
        embedded: texts sent to the embedding model, units that only decide boundaries included.
        cached: texts whose vector came from the cache.
        contexts: chunks that the context model was asked about.
        fallbacks: contexts that the language model should have written and the outline wrote instead.
        window_contexts: chunks with a context from a window, since their document is too long to be shown whole.
        shortened_contexts: chunks whose context is not whole, or not there, since the embedding model has no room for it beside the text.
        requests: requests that endpoints answered, or in a dry run would get.
        embedding_tokens: that an endpoint counted in texts it embedded, or in a dry run would.
        prompt_tokens, cached_prompt_tokens, answer_tokens: the same of context requests; of the prompts, those in the endpoint's own cache.
        spared_tokens: of a dry run: tokens of texts and prompts whose answer is in the cache.
        cost: US dollars for these tokens; None where the price of a model is not known.
        uncounted: an endpoint did not say how many tokens it counted, so they were counted here.
        not_attempted: documents that were to be written and were not tried, since the strategy or the run stopped before.
        failed: (document, error) for each document that could not be stored.
        parked: (document, error) for each that failed so often that it is not tried until its content changes.
        seconds: time spent in this strategy's tasks.
        error: why the whole strategy stopped, or None.
        collection, alias: where the points are.
        embedding_model, context_model: which models the collection is made with.
        planned: of a dry run: names of documents by what would be done with them. The counts are then what would be done.
        guessed: of a dry run: chunks or contexts hang on answers that are not known yet, so the counts are an estimate.
    """

    documents: int = 0
    unchanged: int = 0
    chunks: int = 0
    upserted: int = 0
    deleted: int = 0
    moved: int = 0
    embedded: int = 0
    cached: int = 0
    contexts: int = 0
    fallbacks: int = 0
    window_contexts: int = 0
    shortened_contexts: int = 0
    requests: int = 0
    embedding_tokens: int = 0
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    answer_tokens: int = 0
    cost: float | None = 0.0
    uncounted: bool = False
    not_attempted: int = 0
    failed: list[tuple[str, str]] = field(default_factory=list)
    parked: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    error: str | None = None
    collection: str = ""
    alias: str = ""
    embedding_model: str = ""
    context_model: str | None = None
    planned: dict[str, list[str]] | None = None
    spared_tokens: int = 0
    guessed: bool = False

    def as_json(self) -> dict[str, Any]:
        """The fields that `ingest --json` prints for a strategy."""
        counts = {name: getattr(self, name) for name in _COUNTS}
        told: dict[str, Any] = {
            **counts,
            "estimated": self.guessed or self.uncounted,
            "cost_usd": None if self.cost is None else round(self.cost, 6),
            "failed": [{"document": document, "error": error} for document, error in self.failed],
            "parked": [{"document": document, "error": error} for document, error in self.parked],
            "seconds": round(self.seconds, 3),
            "error": self.error,
            "collection": self.collection,
            "alias": self.alias,
            "embedding_model": self.embedding_model,
            "context_model": self.context_model,
        }
        if self.planned is None:
            return told
        return {**told, "planned": self.planned, "spared_tokens": self.spared_tokens}


@dataclass
class Report:
    """A run's counts by strategy, and what concerns all of them.

    Attributes:
        corpus, root: what was ingested.
        strategies: one report per strategy, in the order asked.
        skipped: (document, reason) for each file that is no document for us: another type, blank.
        unreadable: (document, reason) for each file that should have been one but could not be read.
        notes: remarks on documents that were read (another encoding than UTF-8, characters replaced).
        withheld: documents that vanished from the source but were not deleted.
        complete: whether the listing of the source was complete.
        interrupted: the run was stopped before its end.
        error: what ended the run as a whole, or None.
        dry_run: nothing was written; the counts are what would be.
        max_failed: so many documents may fail in a strategy before it counts as failed.
    """

    corpus: str
    root: str = ""
    strategies: dict[str, StrategyReport] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)
    withheld: int = 0
    complete: bool = True
    interrupted: bool = False
    error: str | None = None
    dry_run: bool = False
    max_failed: int = 0

    def models(self) -> str:
        """Which models the run works with, in one line."""
        embedding = sorted({own.embedding_model for own in self.strategies.values()})
        contexts = sorted({own.context_model for own in self.strategies.values() if own.context_model})
        told = f"corpus {self.corpus}: embeddings by {', '.join(embedding)}"
        return told + (f", contexts by {', '.join(contexts)}" if contexts else "")

    def failures(self) -> list[str]:
        """One phrase for each thing that failed; empty when all is done."""
        told = [self.error] if self.error else []
        stopped = {name: own.error for name, own in self.strategies.items() if own.error}
        if stopped:
            reasons = "; ".join(f"{name} ({error})" for name, error in stopped.items())
            told.append(f"{len(stopped)} of {len(self.strategies)} strategies failed: {reasons}")
        failed = {name: len(own.failed) for name, own in self.strategies.items() if own.failed and self._over(own)}
        if failed:
            counts = ", ".join(f"{count} in {name}" for name, count in failed.items())
            rows = [row for name in failed for row in self.strategies[name].failed]
            told.append(f"documents failed: {counts}: {_examples(rows)}")
        if self.unreadable and any(self._over(own) for own in self.strategies.values()):
            files = "1 file" if len(self.unreadable) == 1 else f"{len(self.unreadable)} files"
            told.append(f"{files} could not be read: {_examples(self.unreadable)}")
        if not self.complete:
            told.append("the listing of the source is incomplete")
        if self.withheld:
            told.append(
                f"{self.withheld} deletions withheld: so many documents are gone from the source that it may not be whole; "
                f"--allow-deletes {self.withheld} lets them go"
            )
        waiting = {name: own.not_attempted for name, own in self.strategies.items() if own.not_attempted and own.error}
        if waiting:
            counts = ", ".join(f"{count} in {name}" for name, count in waiting.items())
            told.append(f"documents not attempted: {counts}")
        if self.interrupted:
            told.append("stopped before the end; the next run goes on")
        return told

    def _over(self, own: StrategyReport) -> bool:
        """Whether more documents failed in a strategy than may; a file that cannot be read fails in all of them."""
        return len(own.failed) + len(self.unreadable) > self.max_failed

    @property
    def tolerated(self) -> int:
        """Documents that failed in some strategy, or could not be read, without anything counting as failed for it."""
        rows = {document for own in self.strategies.values() if not self._over(own) for document, _ in own.failed}
        within = self.strategies and not all(self._over(own) for own in self.strategies.values())
        return len(rows | ({document for document, _ in self.unreadable} if within else set()))

    @property
    def exit_status(self) -> int:
        """0 when all is done, 1 when something failed."""
        return 1 if self.failures() else 0

    def summary(self) -> str:
        """One line for a state message."""
        documents = max((own.documents for own in self.strategies.values()), default=0)
        strategies = "1 strategy" if len(self.strategies) == 1 else f"{len(self.strategies)} strategies"
        done = f"{strategies}, {documents} documents"
        if self.tolerated:
            done += f"; {self.tolerated} failed, which --max-failed {self.max_failed} allows"
        return "; ".join(self.failures()) or done

    def as_json(self) -> dict[str, Any]:
        """What `ingest --json` prints."""
        skipped = [*self.skipped, *self.unreadable]
        return {
            "corpus": self.corpus,
            "root": self.root,
            "dry_run": self.dry_run,
            "strategies": {name: own.as_json() for name, own in self.strategies.items()},
            "skipped": [{"document": document, "reason": reason} for document, reason in skipped],
            "notes": [{"document": document, "note": note} for document, note in self.notes],
            "withheld": self.withheld,
            "failures": self.failures(),
        }


def _examples(rows: list[tuple[str, str]], most: int = 3) -> str:
    """The first few documents with their reasons."""
    named = [f"{document} ({reason})" for document, reason in dict(rows).items()]
    return ", ".join(named[:most]) + (f" and {len(named) - most} more" if len(named) > most else "")
