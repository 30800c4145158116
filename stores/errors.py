"""What can go wrong with a store, as one error with a message that a person can act on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class StoreError(RuntimeError):
    """The store could not do what was asked. The message says what, where and what to do, in one line.

    Args:
        message: for a person.
        fatal: nothing else in this store would work either, so the strategy should stop.
        passing: the store was away or too busy, so all of it may work later.
    """

    def __init__(self, message: str, *, fatal: bool = False, passing: bool = False) -> None:
        super().__init__(" ".join(message.split()))
        self.fatal = fatal
        self.passing = passing


class RequestTooLarge(StoreError):
    """The server takes no request of this size; in parts it may be taken."""


class SettingsChanged(StoreError):
    """Collections exist and were made with other settings than those asked for.

    Args:
        differences: what differs, by alias, one phrase each, such as `chunk_size: 512 stored, 256 asked`.
        outdated: an older version of this program made them, so that no settings can be asked for that are the stored ones.
    """

    def __init__(self, differences: Mapping[str, Sequence[str]], *, outdated: bool = False) -> None:
        self.outdated = outdated
        self.differences = dict(differences)
        aliases: dict[str, list[str]] = {}
        for alias, phrases in differences.items():
            aliases.setdefault(", ".join(phrases), []).append(alias)
        told = "; ".join(f"{what} (in {', '.join(names)})" for what, names in aliases.items())
        if outdated:
            super().__init__(
                f"stored collections were made by another version of quarry: {told}. Use --rebuild to build new collections beside the "
                "live ones; what is in the cache is not embedded again"
            )
            return
        super().__init__(
            f"stored collections were made with other settings: {told}. Ask for the stored settings again (by variable or "
            "--set, and with --strategy where they are not the same for all), or use --rebuild to build new collections beside the "
            "live ones"
        )
