"""Memory of a run at its peak, apart from what the embedded store holds in memory by itself.

A run that changes nothing still takes and returns its lease, and at the first point that it is given after it was opened, embedded
Qdrant makes room for as many vectors again. So the store's own share is measured with one point written, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from chunkers import STRATEGIES
from tests.benchmarks.runs import Trial


def measure(trials: Iterable[Trial], console: Console) -> None:
    """Print one table."""
    table = Table(title="MB of memory at the peak, each in a process of its own", title_justify="left")
    for column in (
        "documents",
        "strategies",
        "store opened",
        "and a point written",
        "first run",
        "above opened",
        "unchanged run",
        "above written",
    ):
        table.add_column(column, justify="left" if column == "strategies" else "right")
    for trial in trials:
        steps = (trial.opened(), trial.touched(), trial.first, trial.unchanged(1))
        opened, touched, first, unchanged = (measured.peak / 1e6 for measured in steps)
        table.add_row(
            f"{trial.documents:,}",
            "all six" if trial.strategies == STRATEGIES else ", ".join(trial.strategies),
            f"{opened:.0f}",
            f"{touched:.0f}",
            f"{first:.0f}",
            f"{first - opened:.0f}",
            f"{unchanged:.0f}",
            f"{unchanged - touched:.0f}",
        )
    console.print(table)
