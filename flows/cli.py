"""The command `quarry`. Each subcommand imports what it needs when it runs, so that none pays for Prefect but `ingest`.

Exit status: 0 all done, 1 something failed and the rest is stored, 2 bad usage or settings, 130 interrupted. With `--json` one JSON
object goes to standard output and everything else to standard error.
"""

from __future__ import annotations

import io
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from flows.cache_command import cache
from flows.console import FAILED, INTERRUPTED, clear_errors, load_settings, print_json, say
from flows.options import (
    STORED_HELP,
    STRATEGY_HELP,
    CorpusOption,
    FilterOption,
    JsonOption,
    LimitOption,
    MaxCostOption,
    MaxTokensOption,
    ModeOption,
    SetOption,
)
from flows.stopping import one_interruption

app = typer.Typer(
    help="Keeps a vector database in step with a corpus, under every chunking strategy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(cache, name="cache")


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal or a log file with a narrow encoding shows `?` for what it has no place for, and stops nothing.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app()


@app.command()
def ingest(
    source: Annotated[str, typer.Argument(help="A folder, a file or a quoted glob of markdown and text files.")],
    corpus: CorpusOption = None,
    strategy: Annotated[list[str] | None, typer.Option(help=STRATEGY_HELP)] = None,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Build new collections beside the live ones and switch at the end.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done and write nothing.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Do the same work without Prefect.")] = False,
    allow_deletes: Annotated[
        int, typer.Option(min=0, metavar="N", help="Delete up to N vanished documents although the guards would not.")
    ] = 0,
    retry_parked: Annotated[
        bool, typer.Option("--retry-parked", help="Try documents again that failed so often that they were parked.")
    ] = False,
    max_failed: Annotated[
        int,
        typer.Option(min=0, metavar="N", help="Let up to N documents of a strategy fail before it counts as failed."),
    ] = 0,
    max_cost: MaxCostOption = None,
    assignments: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring the collections of a corpus up to date with its source."""
    from flows.command import run_ingest
    from flows.render import ingest_report

    # SIGTERM ends a run as Ctrl-C does: the documents in hand are finished, and the report says what is stored.
    with clear_errors(as_json), one_interruption():
        settings = load_settings(assignments)
        from chunkers import STRATEGIES
        from flows.request import Request

        chosen = tuple(strategy or STRATEGIES)
        request = Request(
            source, corpus, chosen, rebuild, dry_run, allow_deletes, retry_parked, max_failed, max_cost=max_cost
        )
        report = run_ingest(request, settings, plain=plain or dry_run, say=say, quiet=as_json)
    if as_json:
        print_json(report.as_json())
    else:
        ingest_report(Console(), report)
    raise typer.Exit(INTERRUPTED if report.interrupted else report.exit_status)


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    corpus: CorpusOption = None,
    strategy: Annotated[
        str | None, typer.Option(help="The strategy whose collection is searched; recursive where it is stored.")
    ] = None,
    limit: LimitOption = None,
    filters: FilterOption = None,
    mode: ModeOption = None,
    max_tokens: MaxTokensOption = None,
    assignments: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask a question and get passages with their source."""
    from flows.render import hits

    with clear_errors(as_json):
        settings = load_settings(assignments)
        from flows.queries import find

        found = find(
            settings,
            query,
            corpus=corpus,
            strategy=strategy,
            limit=limit,
            filters=filters or [],
            mode=mode,
            max_tokens=max_tokens,
            say=say,
        )
    if as_json:
        print_json({"hits": [hit.as_json() for hit in found]})
    else:
        hits(Console(), found, max_tokens)


@app.command()
def status(as_json: JsonOption = False) -> None:
    """Show the collections: aliases, models, counts, last run."""
    from flows.render import collections

    with clear_errors(as_json):
        from flows.places import open_store
        from stores import list_collections

        with open_store(load_settings(None), create=False) as client:
            found = list_collections(client)
    if as_json:
        print_json({"collections": [info.as_json() for info in found]})
    else:
        collections(Console(), found)


@app.command()
def serve(
    source: Annotated[str, typer.Argument(help="A folder, a file or a quoted glob of markdown and text files.")],
    corpus: CorpusOption = None,
    strategy: Annotated[list[str] | None, typer.Option(help=STRATEGY_HELP)] = None,
    assignments: SetOption = None,
) -> None:
    """Ingest on a schedule, and backfill when somebody asks for it in the Prefect UI, until stopped."""
    with clear_errors(as_json=False), one_interruption():
        settings = load_settings(assignments)
        from chunkers import STRATEGIES
        from flows.request import Request
        from flows.serve import serve as serve_forever

        serve_forever(Request(source, corpus, tuple(strategy or STRATEGIES)), settings, say=say)


@app.command()
def verify(
    corpus: CorpusOption = None,
    strategy: Annotated[list[str] | None, typer.Option(help=STORED_HELP)] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Put right what differs.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare the journal of each live collection with its points."""
    from flows.render import verified

    with clear_errors(as_json):
        from flows.upkeep import verify_corpora

        found = verify_corpora(load_settings(None), corpus, strategy or [], repair=repair, say=say)
    sound = all(own.sound for own in found)
    if as_json:
        print_json({"sound": sound, "collections": [own.as_json() for own in found]})
    else:
        verified(Console(), found)
    raise typer.Exit(0 if sound else FAILED)


@app.command()
def rollback(
    corpus: CorpusOption = None,
    strategy: Annotated[list[str] | None, typer.Option(help=STORED_HELP)] = None,
    as_json: JsonOption = False,
) -> None:
    """Point readers at the collections that they used before the last rebuild."""
    with clear_errors(as_json):
        from flows.upkeep import roll_back

        steps = roll_back(load_settings(None), corpus, strategy or [])
    if as_json:
        print_json({"rolled_back": [asdict(step) for step in steps]})
        return
    for step in steps:
        print(f"{step.alias}: from {step.left} back to {step.collection}")


@app.command()
def drop(
    collections: Annotated[
        list[str], typer.Argument(metavar="COLLECTION...", help="Exact names, as `quarry status --json` shows.")
    ],
    as_json: JsonOption = False,
) -> None:
    """Drop superseded or unfinished collections by their exact names; never one that an alias points at."""
    with clear_errors(as_json):
        from flows.upkeep import drop_collections

        dropped = drop_collections(load_settings(None), collections)
    if as_json:
        print_json({"dropped": dropped})
        return
    for name in dropped:
        print(f"dropped {name}")


@app.command()
def chunk(
    file: Annotated[Path, typer.Argument(help="A markdown or text file.")],
    strategy: Annotated[list[str] | None, typer.Option(help=STRATEGY_HELP)] = None,
    assignments: SetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show the chunks of one file. Nothing is stored."""
    from flows.render import chunks

    with clear_errors(as_json):
        settings = load_settings(assignments)
        from chunkers import STRATEGIES
        from flows.queries import chunk_file

        found = chunk_file(settings, file, tuple(strategy or STRATEGIES))
    if as_json:
        print_json({"strategies": {name: [_chunk_json(one) for one in own] for name, own in found.items()}})
        return
    console = Console()
    for name, own in found.items():
        chunks(console, name, own)


def _chunk_json(chunk: Any) -> dict[str, Any]:
    names = ("index", "start_char", "end_char", "token_count", "headings", "context", "text", "parent_id")
    return {name: list(value) if isinstance(value := getattr(chunk, name), tuple) else value for name in names}


if __name__ == "__main__":
    main()
