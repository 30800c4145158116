"""Reports, hits and chunks as tables that people read. Everything here prints; nothing decides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flows.report import Report

if TYPE_CHECKING:
    from chunkers import Chunk
    from flows.upkeep import Verified
    from stores import CollectionInfo, Hit

# Reasons listed, and documents named for each, before the rest is only counted; `--json` has them all.
LISTED, NAMED = 10, 3
# Documents named for each thing that a dry run would do.
PLANNED = 50
# Strategies whose chunks are windows of a number of tokens.
WINDOWS = ("fixed_size", "contextual_retrieval")


def ingest_report(console: Console, report: Report) -> None:
    """The table of a run, what was skipped or failed below it, and one closing line."""
    if report.dry_run:
        _plan(console, report)
    else:
        _counts(console, report)
        _spending(console, report)
    _rows(console, "skipped", report.skipped)
    _rows(console, "not read", report.unreadable, style="red")
    _rows(console, "note", report.notes)
    _rows_by_strategy(console, "parked", {name: own.parked for name, own in report.strategies.items()})
    if any(own.parked for own in report.strategies.values()):
        console.print("Parked documents are tried again when their content changes, or with --retry-parked.")
    for name, own in report.strategies.items():
        _rows(console, f"failed in {name}", own.failed, style="red")
        if own.fallbacks:
            console.print(
                f"[yellow]note:[/yellow] {name}: {own.fallbacks} contexts by the outline, not by {own.context_model}"
            )
        if own.window_contexts:
            console.print(
                f"[yellow]note:[/yellow] {name}: {own.window_contexts} contexts from a window, since their documents are too long "
                "to be shown whole",
                soft_wrap=True,
            )
        if own.shortened_contexts:
            console.print(
                f"[yellow]note:[/yellow] {name}: {own.shortened_contexts} contexts shortened or left out, since {own.embedding_model} has "
                "no room for them beside their chunks: lower chunk_size",
                soft_wrap=True,
            )
    moved = max((own.moved for own in report.strategies.values()), default=0)
    if moved and not report.dry_run:
        console.print(f"{moved} document{'s' if moved > 1 else ''} moved.")
    failures = report.failures()
    if failures:
        console.print(f"[bold red]Failed:[/bold red] {escape('; '.join(failures))}", soft_wrap=True)
    elif report.dry_run:
        console.print("Dry run: nothing was written.")


def _counts(console: Console, report: Report) -> None:
    table = _table(f"corpus {report.corpus}")
    table.add_column("strategy", no_wrap=True)
    # Short headings: the table fits a terminal of 80 columns.
    for column in ("docs", "unchanged", "chunks", "embedded", "cached", "deleted", "failed", "sec"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, own in report.strategies.items():
        stopped = own.error is not None
        failed = Text("all" if stopped else str(len(own.failed)), style="red" if own.failed or stopped else "")
        counts = (own.documents, own.unchanged, own.chunks, own.embedded, own.cached, own.deleted)
        table.add_row(name, *(f"{count:,}" for count in counts), failed, f"{own.seconds:.1f}")
    console.print(table)


def _table(title: str | None = None) -> Table:
    return Table(
        title=title, title_justify="left", box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold underline"
    )


def _plan(console: Console, report: Report) -> None:
    """What a dry run found: documents by what would be done with them, what that would cost, and the documents by name."""
    planned = {name: own.planned or {} for name, own in report.strategies.items()}
    # Columns of what does not occur are left out, so that the table fits a terminal of 80 columns.
    kinds = [
        kind
        for kind in ("new", "changed", "moved", "unfinished", "parked", "unchanged", "vanished", "withheld")
        if kind in ("new", "changed", "unchanged", "vanished") or any(own.get(kind) for own in planned.values())
    ]
    table = _table(f"corpus {report.corpus}: documents, by what would be done")
    table.add_column("strategy", no_wrap=True)
    for kind in kinds:
        table.add_column(kind, justify="right")
    for name, own in planned.items():
        table.add_row(name, *(f"{len(own.get(kind, [])):,}" for kind in kinds))
    console.print(table)
    console.print(_costs(report))
    _spending(console, report)
    if any(own.guessed for own in report.strategies.values()):
        console.print("~ an estimate: boundaries or contexts hang on answers of a model that were not asked for.")
    windows = [name for name in WINDOWS if planned.get(name, {}).get("changed")]
    if windows:
        console.print(
            f"[yellow]note:[/yellow] {', '.join(windows)}: an edit shifts every window after it, so the rest of a changed document is "
            "embedded anew",
            soft_wrap=True,
        )
    for kind in ("new", "changed", "moved", "unfinished", "vanished", "withheld"):
        named: dict[str, list[str]] = {}
        for name, own in planned.items():
            for document in own.get(kind, []):
                named.setdefault(document, []).append(name)
        _named(console, kind, named, len(planned))


def _costs(report: Report) -> Table:
    table = _table("what it would cost")
    table.add_column("strategy", no_wrap=True)
    for column in ("texts to embed", "cached", "contexts", "points", "deleted"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, own in report.strategies.items():
        counts = (own.embedded, own.cached, own.contexts, own.upserted, own.deleted)
        table.add_row(name, *(f"{'~' if own.guessed else ''}{count:,}" for count in counts))
    return table


def _spending(console: Console, report: Report) -> None:
    """What endpoints are asked, or were, in tokens and US dollars; nothing where none is."""
    if not any(own.requests or own.spared_tokens for own in report.strategies.values()):
        return
    table = _table("what endpoints would be asked" if report.dry_run else "what endpoints counted")
    table.add_column("strategy", no_wrap=True)
    last = ("in cache",) if report.dry_run else ()
    for column in ("requests", "embedding", "prompts", "answers", *last, "USD"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, own in report.strategies.items():
        about = "~" if own.guessed or own.uncounted else ""
        tokens = (own.requests, own.embedding_tokens, own.prompt_tokens, own.answer_tokens)
        counts = (*tokens, own.spared_tokens) if report.dry_run else tokens
        table.add_row(name, *(f"{about}{count:,}" for count in counts), _dollars(own.cost, about))
    if len(report.strategies) > 1:
        costs = [own.cost for own in report.strategies.values()]
        about = "~" if any(own.guessed or own.uncounted for own in report.strategies.values()) else ""
        whole = None if None in costs else sum(cost for cost in costs if cost is not None)
        table.add_row("all", *[""] * (len(table.columns) - 2), _dollars(whole, about))
    console.print(table)
    if any(own.cost is None for own in report.strategies.values()):
        console.print("Columns are tokens. The price of a model is not known: QUARRY_PRICES tells it.")


def _dollars(cost: float | None, about: str) -> str:
    return "?" if cost is None else f"{about}{cost:.4f}"


def _rows_by_strategy(console: Console, label: str, rows: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """As `_rows`, each document once, with the strategies where it is so."""
    named: dict[tuple[str, str], list[str]] = {}
    for name, own in rows.items():
        for row in own:
            named.setdefault(row, []).append(name)
    told = [(document, f"{reason} ({_which(names, len(rows))})") for (document, reason), names in named.items()]
    _rows(console, label, told, named=PLANNED)


def _named(console: Console, label: str, named: Mapping[str, list[str]], strategies: int) -> None:
    _rows(console, label, [(document, _which(names, strategies)) for document, names in named.items()], named=PLANNED)


def _which(names: Sequence[str], strategies: int) -> str:
    return "every strategy" if len(names) == strategies else ", ".join(names)


def _rows(
    console: Console, label: str, rows: Sequence[tuple[str, str]], style: str = "yellow", named: int = NAMED
) -> None:
    """A line for each reason with the documents that have it."""
    by_reason: dict[str, list[str]] = {}
    for document, reason in rows:
        by_reason.setdefault(reason, []).append(document)
    for reason, documents in list(by_reason.items())[:LISTED]:
        more = f" and {len(documents) - named:,} more" if len(documents) > named else ""
        told = escape(", ".join(documents[:named]) + more)
        console.print(f"[{style}]{label}:[/{style}] {told}: {escape(reason)}", soft_wrap=True, highlight=False)
    if len(by_reason) > LISTED:
        console.print(f"[{style}]{label}:[/{style}] and {len(by_reason) - LISTED} other reasons (--json lists all)")


def hits(console: Console, found: Sequence[Hit], max_tokens: int | None = None) -> None:
    """Each hit with its score, where it stands, its text and, if it has one, the parent around it."""
    if not found:
        console.print(f"Nothing found that fits into {max_tokens} tokens." if max_tokens else "Nothing found.")
    for rank, hit in enumerate(found, start=1):
        place = " > ".join(hit.headings)
        console.print(
            f"[bold]{rank}. {escape(hit.source)}[/bold] [{hit.start_char}:{hit.end_char}]  score {hit.score:.3f}"
            + (f"  [cyan]{escape(place)}[/cyan]" if place else ""),
            soft_wrap=True,
            highlight=False,
        )
        if hit.context:
            console.print(Text(hit.context, style="italic dim"), soft_wrap=True)
        console.print(Text(hit.text), soft_wrap=True)
        if hit.parent:
            console.print(f"[magenta]parent [{hit.parent.start_char}:{hit.parent.end_char}][/magenta]", highlight=False)
            console.print(Text(hit.parent.text, style="dim"), soft_wrap=True)
        console.print()


def collections(console: Console, found: Sequence[CollectionInfo]) -> None:
    """One row for each physical collection."""
    if not found:
        console.print("No collections yet. `quarry ingest FOLDER` makes them.")
        return
    table = _table()
    table.add_column("corpus", overflow="fold")
    table.add_column("strategy", no_wrap=True)
    table.add_column("build", justify="right", no_wrap=True)
    table.add_column("state")
    for column in ("docs", "chunks", "parents"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("last run (UTC)", no_wrap=True)
    made_with: dict[tuple[str, str | None], list[str]] = {}
    for info in found:
        counts = (info.documents, info.chunks, info.parents)
        last_run = (info.last_run or "never")[:16].replace("T", " ")
        table.add_row(
            info.corpus, info.strategy, str(info.build), info.state, *(f"{count:,}" for count in counts), last_run
        )
        made_with.setdefault((info.embedding_model, info.context_model), []).append(info.collection)
    console.print(table)
    for (embedding, context), names in made_with.items():
        models = f"embeddings by {embedding}" + (f", contexts by {context}" if context else "")
        console.print(f"{models}: {escape(', '.join(names))}", soft_wrap=True, highlight=False)
    for info in found:
        if info.error:
            console.print(f"[red]{escape(info.error)}[/red]", soft_wrap=True, highlight=False)
        if info.unfinished_documents:
            console.print(f"[yellow]{info.collection}: {info.unfinished_documents} documents are not done[/yellow]")
    parked = {info.collection: [(row["document"], row["error"]) for row in info.parked] for info in found}
    _rows_by_strategy(console, "parked", parked)
    if any(parked.values()):
        console.print(
            "Parked documents are tried again when their content changes, or by `quarry ingest --retry-parked`."
        )


def verified(console: Console, found: Sequence[Verified]) -> None:
    """One row for each collection, and below it what differs."""
    table = _table()
    table.add_column("collection", overflow="fold")
    for column in ("docs", "chunks", "parents", "not done", "differences"):
        table.add_column(column, justify="right", no_wrap=True)
    for own in found:
        differing = Text(
            "none" if own.sound else str(len(own.findings)) if own.findings else "-", style="" if own.sound else "red"
        )
        counts = (own.documents, own.chunks, own.parents, own.unfinished)
        name = own.collection or f"{own.corpus}__{own.strategy}"
        table.add_row(name, *(f"{count:,}" for count in counts), differing)
    console.print(table)
    for own in found:
        # What could not be repaired at all says so in its error.
        if own.repaired and len(own.findings) < own.repaired:
            console.print(
                f"{own.collection}: {own.repaired} differences were put right"
                if own.sound
                else f"{own.collection}: repaired in part"
            )
        _rows(
            console,
            own.collection or own.strategy,
            [(one.document, f"{one.kind}: {one.detail}") for one in own.findings],
            style="red",
        )
        if own.error:
            console.print(
                f"[red]{own.corpus}__{own.strategy}:[/red] {escape(own.error)}", soft_wrap=True, highlight=False
            )
    if any(own.findings and own.repaired is None for own in found):
        console.print("`quarry verify --repair` puts right what differs.")


def chunks(console: Console, strategy: str, found: Sequence[Chunk]) -> None:
    """The chunks of one file under one strategy."""
    console.rule(f"{strategy}: {len(found)} chunk{'s' if len(found) != 1 else ''}")
    for chunk in found:
        place = " > ".join(chunk.headings)
        console.print(
            f"[bold]#{chunk.index}[/bold] [{chunk.start_char}:{chunk.end_char}] {chunk.token_count} tokens"
            + (f"  [cyan]{escape(place)}[/cyan]" if place else "")
            + (f"  parent {chunk.parent_id[:8]}" if chunk.parent_id else ""),
            soft_wrap=True,
            highlight=False,
        )
        if chunk.context:
            console.print(Text(chunk.context, style="italic dim"), soft_wrap=True)
        console.print(Text(chunk.text), soft_wrap=True)
        console.print()
