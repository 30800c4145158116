"""What the subcommands of `quarry` share: where they print, how they end, and what they take for settings."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console

from chunkers.redaction import redacted

if TYPE_CHECKING:
    from flows.settings import Settings

FAILED, USAGE, INTERRUPTED = 1, 2, 130

_err = Console(stderr=True)


def print_json(told: dict[str, Any]) -> None:
    """One object on standard output, whatever that can encode."""
    print(json.dumps(told, ensure_ascii=(sys.stdout.encoding or "").lower() not in ("utf-8", "utf8")))


def say(message: str) -> None:
    """A line on standard error."""
    _err.print(redacted(message), style="dim", markup=False, highlight=False, soft_wrap=True)


def fail(message: str, status: int, as_json: bool) -> NoReturn:
    """Ends the command with a status and one line on standard error, which is JSON on standard output, too, if that is asked for."""
    line = " ".join(redacted(message).split())
    _err.print(f"quarry: {line}", style="red", markup=False, highlight=False, soft_wrap=True)
    if as_json:
        print_json({"error": line})
    raise typer.Exit(status)


@contextmanager
def clear_errors(as_json: bool) -> Iterator[None]:
    """Turns the errors that a user can cause or meet into one line and an exit status."""
    try:
        yield
    except typer.Exit:
        raise
    except KeyboardInterrupt:
        fail("interrupted", INTERRUPTED, as_json)
    except Exception as error:
        status = _status_of(error)
        if status is None:
            raise
        fail(str(error), status, as_json)


def _status_of(error: Exception) -> int | None:
    """The exit status for an error; None for one that is a fault of ours."""
    # Only now: the store's client alone takes longer to load than some subcommands to do their work.
    from chunkers import ModelError, SettingError
    from flows.loading import LoadError
    from flows.server import ServerError
    from flows.settings import SettingsError
    from flows.sources import SourceError
    from stores import SettingsChanged, StoreError

    if isinstance(error, SourceError | SettingError | SettingsError | SettingsChanged | LoadError):
        return USAGE
    return FAILED if isinstance(error, StoreError | ModelError | ServerError | OSError) else None


def load_settings(assignments: list[str] | None) -> Settings:
    """The settings of the environment, those of `--set` put over them.

    Raises:
        SettingsError: as `Settings.load`.
    """
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
