"""The command `quarry`. Each subcommand imports what it needs when it runs, so that none pays for Prefect but `ingest`.

Exit status: 0 all done, 1 something failed and the rest is stored, 2 bad usage or settings, 130 interrupted. With `--json` one JSON
object goes to standard output and everything else to standard error.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

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

if TYPE_CHECKING:
    from flows.settings import Settings

FAILED, USAGE, INTERRUPTED = 1, 2, 130

app = typer.Typer(
    help="Keeps a vector database in step with a corpus, under every chunking strategy.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
_err = Console(stderr=True)


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal or a log file with a narrow encoding shows `?` for what it has no place for, and stops nothing.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    app()


def _print_json(told: dict[str, Any]) -> None:
    """One object on standard output, whatever that can encode."""
    print(json.dumps(told, ensure_ascii=(sys.stdout.encoding or "").lower() not in ("utf-8", "utf8")))


def _say(message: str) -> None:
    _err.print(message, style="dim", markup=False, highlight=False, soft_wrap=True)


def _fail(message: str, status: int, as_json: bool) -> NoReturn:
    line = " ".join(message.split())
    _err.print(f"quarry: {line}", style="red", markup=False, highlight=False, soft_wrap=True)
    if as_json:
        _print_json({"error": line})
    raise typer.Exit(status)


@contextmanager
def _clear_errors(as_json: bool) -> Iterator[None]:
    """Turns the errors that a user can cause or meet into one line and an exit status."""
    from chunkers import ModelError, SettingError
    from flows.loading import LoadError
    from flows.server import ServerError
    from flows.settings import SettingsError
    from flows.sources import SourceError
    from stores import SettingsChanged, StoreError

    try:
        yield
    except (SourceError, SettingError, SettingsError, SettingsChanged, LoadError) as error:
        _fail(str(error), USAGE, as_json)
    except (StoreError, ModelError, ServerError, OSError) as error:
        _fail(str(error), FAILED, as_json)
    except KeyboardInterrupt:
        _fail("interrupted", INTERRUPTED, as_json)


def _settings(assignments: list[str] | None) -> Settings:
    from flows.settings import Settings

    return Settings.load(_overrides(assignments))


def _overrides(assignments: list[str] | None) -> dict[str, str]:
    from flows.settings import SettingsError

    overrides = {}
    for assignment in assignments or []:
        name, found, value = assignment.partition("=")
        if not found:
            raise SettingsError(f"--set {assignment}: it must be NAME=VALUE, such as chunk_size=256")
        overrides[name.strip()] = value.strip()
    return overrides


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
    with _clear_errors(as_json), one_interruption():
        settings = _settings(assignments)
        from chunkers import STRATEGIES
        from flows.request import Request

        chosen = tuple(strategy or STRATEGIES)
        request = Request(
            source, corpus, chosen, rebuild, dry_run, allow_deletes, retry_parked, max_failed, max_cost=max_cost
        )
        report = run_ingest(request, settings, plain=plain or dry_run, say=_say, quiet=as_json)
    if as_json:
        _print_json(report.as_json())
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

    with _clear_errors(as_json):
        settings = _settings(assignments)
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
            say=_say,
        )
    if as_json:
        _print_json({"hits": [hit.as_json() for hit in found]})
    else:
        hits(Console(), found, max_tokens)


@app.command()
def status(as_json: JsonOption = False) -> None:
    """Show the collections: aliases, models, counts, last run."""
    from flows.render import collections

    with _clear_errors(as_json):
        from flows.places import open_store
        from stores import list_collections

        with open_store(_settings(None), create=False) as client:
            found = list_collections(client)
    if as_json:
        _print_json({"collections": [info.as_json() for info in found]})
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
    with _clear_errors(as_json=False), one_interruption():
        settings = _settings(assignments)
        from chunkers import STRATEGIES
        from flows.request import Request
        from flows.serve import serve as serve_forever

        serve_forever(Request(source, corpus, tuple(strategy or STRATEGIES)), settings, say=_say)


@app.command()
def verify(
    corpus: CorpusOption = None,
    strategy: Annotated[list[str] | None, typer.Option(help=STORED_HELP)] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Put right what differs.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Compare the journal of each live collection with its points."""
    from flows.render import verified

    with _clear_errors(as_json):
        from flows.upkeep import verify_corpora

        found = verify_corpora(_settings(None), corpus, strategy or [], repair=repair, say=_say)
    sound = all(own.sound for own in found)
    if as_json:
        _print_json({"sound": sound, "collections": [own.as_json() for own in found]})
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
    with _clear_errors(as_json):
        from flows.upkeep import roll_back

        steps = roll_back(_settings(None), corpus, strategy or [])
    if as_json:
        _print_json({"rolled_back": [asdict(step) for step in steps]})
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
    with _clear_errors(as_json):
        from flows.upkeep import drop_collections

        dropped = drop_collections(_settings(None), collections)
    if as_json:
        _print_json({"dropped": dropped})
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

    with _clear_errors(as_json):
        settings = _settings(assignments)
        from chunkers import STRATEGIES
        from flows.queries import chunk_file

        found = chunk_file(settings, file, tuple(strategy or STRATEGIES))
    if as_json:
        _print_json({"strategies": {name: [_chunk_json(one) for one in own] for name, own in found.items()}})
        return
    console = Console()
    for name, own in found.items():
        chunks(console, name, own)


def _chunk_json(chunk: Any) -> dict[str, Any]:
    names = ("index", "start_char", "end_char", "token_count", "headings", "context", "text", "parent_id")
    return {name: list(value) if isinstance(value := getattr(chunk, name), tuple) else value for name in names}


if __name__ == "__main__":
    main()
