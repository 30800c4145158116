"""What a run is asked to do: small, and the same for the command line, a schedule and the Prefect UI."""

from __future__ import annotations

import math
from dataclasses import dataclass

from chunkers import STRATEGIES, SettingError


@dataclass(frozen=True, slots=True)
class Request:
    """A run.

    Attributes:
        source: a file, a folder or a glob.
        documents: globs below the source's root that name a part of it; all of it when empty.
        corpus: the corpus's name; chosen from the root folder when None.
        strategies: names from `chunkers.STRATEGIES`.
        rebuild: build a new collection beside the live one.
        dry_run: plan and report, write nothing.
        allow_deletes: how many vanished documents may be deleted although the guards would hold them back.
        retry_parked: try documents again that failed so often that they were parked.
        max_failed: how many documents may fail in a strategy before it counts as failed.
        max_cost: US dollars that the run may cost; None for any.

    Raises:
        SettingError: a strategy is unknown, or none is named, or a number is negative.
    """

    source: str
    corpus: str | None = None
    strategies: tuple[str, ...] = STRATEGIES
    rebuild: bool = False
    dry_run: bool = False
    allow_deletes: int = 0
    retry_parked: bool = False
    max_failed: int = 0
    documents: tuple[str, ...] = ()
    max_cost: float | None = None

    def __post_init__(self) -> None:
        for strategy in self.strategies or (None,):
            if strategy not in STRATEGIES:
                raise SettingError("strategy", strategy, f"one of {', '.join(STRATEGIES)}")
        for name in ("allow_deletes", "max_failed"):
            if getattr(self, name) < 0:
                raise SettingError(name, getattr(self, name), "a whole number of at least 0")
        if self.max_cost is not None and not 0 <= self.max_cost < math.inf:
            raise SettingError("max_cost", self.max_cost, "a number of US dollars, at least 0")
