"""What a run over an unchanged corpus costs, beside its first run and beside its limit."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from chunkers import STRATEGIES
from tests.benchmarks.runs import Trial


def measure(trials: Iterable[Trial], rounds: int, console: Console) -> None:
    """Print one table."""
    columns = (
        "documents",
        "strategies",
        "first run, s",
        "unchanged, s",
        "limit, s",
        "times its limit",
        "embedded",
        "points changed",
        "stored",
    )
    table = Table(title=f"a run over an unchanged corpus (median of {rounds})", title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column == "strategies" else "right")
    for trial in trials:
        unchanged, limit = trial.unchanged(rounds), trial.limit(rounds)
        table.add_row(
            f"{trial.documents:,}",
            "all six" if trial.strategies == STRATEGIES else ", ".join(trial.strategies),
            f"{trial.first.seconds:.1f}",
            f"{unchanged.seconds:.2f}",
            f"{limit.seconds:.2f}",
            f"{unchanged.seconds / limit.seconds:.2f}",
            f"{unchanged.embedded:g}",
            f"{unchanged.written:g}",
            f"{trial.stored_bytes() / 1e6:.0f} MB",
        )
    console.print(table)
