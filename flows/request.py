"""What a run is asked to do: small, and the same for the command line, a schedule and the Prefect UI."""

from __future__ import annotations

from dataclasses import dataclass

from chunkers import STRATEGIES, SettingError


@dataclass(frozen=True, slots=True)
class Request:
    """A run.

    Attributes:
        source: a file, a folder or a glob.
        corpus: the corpus's name; chosen from the root folder when None.
        strategies: names from `chunkers.STRATEGIES`.
        rebuild: build a new collection beside the live one.
        dry_run: plan and report, write nothing.
        allow_deletes: how many vanished documents may be deleted although the guards would hold them back.
        retry_parked: try documents again that failed so often that they were parked.

    Raises:
        SettingError: a strategy is unknown, or none is named, or the number is negative.
    """

    source: str
    corpus: str | None = None
    strategies: tuple[str, ...] = STRATEGIES
    rebuild: bool = False
    dry_run: bool = False
    allow_deletes: int = 0
    retry_parked: bool = False

    def __post_init__(self) -> None:
        for strategy in self.strategies or (None,):
            if strategy not in STRATEGIES:
                raise SettingError("strategy", strategy, f"one of {', '.join(STRATEGIES)}")
        if self.allow_deletes < 0:
            raise SettingError("allow_deletes", self.allow_deletes, "a whole number of at least 0")
