"""Memory of a run at its peak, apart from what the embedded store holds in memory by itself."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from chunkers import STRATEGIES
from tests.benchmarks.runs import Trial


def measure(trials: Iterable[Trial], console: Console) -> None:
    """Print one table. What is above the peak of a process that only opens the stored collections is the run's own."""
    table = Table(title="MB of memory at the peak, each in a process of its own", title_justify="left")
    for column in (
        "documents",
        "strategies",
        "opening the store",
        "first run",
        "above it",
        "unchanged run",
        "above opening",
    ):
        table.add_column(column, justify="left" if column == "strategies" else "right")
    for trial in trials:
        opened, first, unchanged = (
            measured.peak / 1e6 for measured in (trial.opened(), trial.first, trial.unchanged(1))
        )
        table.add_row(
            f"{trial.documents:,}",
            "all six" if trial.strategies == STRATEGIES else ", ".join(trial.strategies),
            f"{opened:.0f}",
            f"{first:.0f}",
            f"{first - opened:.0f}",
            f"{unchanged:.0f}",
            f"{unchanged - opened:.0f}",
        )
    console.print(table)
