"""`quarry cache`: what models have answered and was kept, how much of it there is, and taking some or all of it away.

What goes has to be asked for again when it is needed, and paid for where the model costs money; nothing else is lost. Only rows go. A file
that was set aside, because it was damaged or no cache, is named and left: somebody may want to look at it. All of it works while a run
is using the file.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flows.console import FAILED, INTERRUPTED, USAGE, clear_errors, fail, load_settings, print_json, say
from flows.options import JsonOption

if TYPE_CHECKING:
    from chunkers.models.cache_care import Removed, Survey

cache = typer.Typer(help="See, prune or clear what models have answered.")

_DAY = 86_400.0


@cache.callback(invoke_without_command=True)
def default(context: typer.Context, as_json: JsonOption = False) -> None:
    """See, prune or clear what models have answered: vectors and contexts. Alone, it shows."""
    # So that the option counts wherever it stands.
    context.obj = as_json
    if context.invoked_subcommand is None:
        _show(as_json)


@cache.command()
def show(context: typer.Context, as_json: JsonOption = False) -> None:
    """Show how large the cache is, and what it holds by kind and model. Changes nothing."""
    _show(as_json or bool(context.obj))


@cache.command()
def prune(
    context: typer.Context,
    max_mb: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Remove the least recently used until N megabytes are left.")
    ] = None,
    older_than: Annotated[
        int | None, typer.Option(min=0, metavar="DAYS", help="Remove what was not used for so many days.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Remove only answers of this model; '' for those from before names were kept."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Remove answers that were not used for long, or are of some model, and make the file smaller."""
    as_json = as_json or bool(context.obj)
    with _errors(as_json):
        path, megabyte = _place()
        if max_mb is None and older_than is None and model is None:
            fail(
                "prune what? Name --max-mb N, --older-than DAYS or --model NAME; `quarry cache clear` removes everything",
                USAGE,
                as_json,
            )
        from chunkers.models import cache_care

        removed = cache_care.prune(
            path,
            max_bytes=None if max_mb is None else max_mb * megabyte,
            before=None if older_than is None else time.time() - older_than * _DAY,
            model=model,
        )
    _tell(path, removed, as_json)


@cache.command()
def clear(
    context: typer.Context,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove all answers, and make the file smaller. Asks first, and says what would have to be paid for again."""
    as_json = as_json or bool(context.obj)
    with _errors(as_json):
        path, _ = _place()
        from chunkers.models import cache_care

        found = cache_care.survey(path)
        if found and found.held and not yes:
            cost = f"{_counted(found.number('vectors'), found.number('contexts'))} would have to be paid for again"
            if not _is_asked_at_a_terminal():
                fail(f"{cost}; say --yes to clear {path}", USAGE, as_json)
            if not _confirmed(f"Clear {path}? {cost}.", as_json):
                fail("nothing was removed", FAILED, as_json)
        removed = cache_care.clear(path)
    _tell(path, removed, as_json)


def _show(as_json: bool) -> None:
    with _errors(as_json):
        path, megabyte = _place()
        from chunkers.models import cache_care

        bound = load_settings(None).cache_max_mb
        found = cache_care.survey(path)
    told: dict[str, Any] = {
        "path": str(path),
        "exists": found is not None,
        "bytes": found.bytes if found else 0,
        "bytes_in_use": found.bytes_in_use if found else 0,
        "max_bytes": bound * megabyte,
        "held": [own.as_json() for own in found.held] if found else [],
        "set_aside": _set_aside(path),
    }
    if as_json:
        print_json(told)
        return
    if found is None:
        print(f"No cache yet at {path}. A run makes it, of {bound:,} MB at most.")
    else:
        print(f"{path}: {_size(found.bytes)} on disk, {_size(found.bytes_in_use)} in use, at most {bound:,} MB")
        if found.held:
            Console().print(_table(found))
        else:
            print("It holds nothing.")
    _name_set_aside(path)


def _table(found: Survey) -> Table:
    """One row for each kind of answer and model."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold underline")
    table.add_column("kind", no_wrap=True)
    table.add_column("model", overflow="fold")
    for column in ("number", "MB"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("oldest use (UTC)", "newest use (UTC)"):
        table.add_column(column, no_wrap=True)
    for own in found.held:
        times = [str(own.as_json()[name] or "not known")[:16].replace("T", " ") for name in ("oldest", "newest")]
        # As it is: brackets in a name are no markup.
        name = Text(own.model or "not known")
        table.add_row(own.kind, name, f"{own.number:,}", f"{own.bytes / 1024**2:,.1f}", *times)
    return table


def _tell(path: Path, removed: Removed | None, as_json: bool) -> None:
    """What was removed, and what was not."""
    if as_json:
        print_json(
            {
                "path": str(path),
                "exists": removed is not None,
                "vectors": removed.vectors if removed else 0,
                "contexts": removed.contexts if removed else 0,
                "bytes_before": removed.bytes_before if removed else 0,
                "bytes": removed.bytes if removed else 0,
                "note": _note(removed),
                "set_aside": _set_aside(path),
            }
        )
        return
    if removed is None:
        print(f"No cache yet at {path}: nothing to remove.")
    else:
        gone = _counted(removed.vectors, removed.contexts)
        print(f"Removed {gone}. {path}: {_size(removed.bytes_before)} before, {_size(removed.bytes)} now")
    if note := _note(removed):
        say(note)
    _name_set_aside(path)


def _note(removed: Removed | None) -> str | None:
    """Why the file is not smaller yet."""
    if removed is None or removed.later is None:
        return None
    return f"The space is used again, but not given back to the disk yet: {removed.later}. `quarry cache prune` tries it again."


def _name_set_aside(path: Path) -> None:
    for one in _set_aside(path):
        print(f"Set aside, and left alone: {one['path']} ({_size(one['bytes'])})")


def _set_aside(path: Path) -> list[dict[str, Any]]:
    from chunkers.models.cache_schema import files_set_aside

    return [{"path": str(file), "bytes": file.stat().st_size} for file in files_set_aside(path)]


def _is_asked_at_a_terminal() -> bool:
    return sys.stdin is not None and sys.stdin.isatty()


def _confirmed(question: str, as_json: bool) -> bool:
    try:
        # Standard output is for what was done.
        return typer.confirm(question, err=True)
    except typer.Abort:
        fail("interrupted", INTERRUPTED, as_json)


def _place() -> tuple[Path, int]:
    """The file that settings name, and the bytes of a megabyte."""
    from flows.places import MEGABYTE, cache_path

    return cache_path(load_settings(None)), MEGABYTE


def _counted(vectors: int, contexts: int) -> str:
    return f"{vectors:,} vector{'' if vectors == 1 else 's'} and {contexts:,} context{'' if contexts == 1 else 's'}"


def _size(size: int) -> str:
    return f"{size / 1024**2:,.1f} MB"


@contextmanager
def _errors(as_json: bool) -> Iterator[None]:
    """As `clear_errors`, with those of the cache."""
    from chunkers.models.cache_care import CacheError

    with clear_errors(as_json):
        try:
            yield
        except CacheError as error:
            fail(str(error), FAILED, as_json)
