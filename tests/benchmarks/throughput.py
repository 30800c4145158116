"""How fast the strategies are, model calls apart, beside other libraries and beside their limit. Run from the checkout:

    python -m tests.benchmarks.throughput [FILE...]

Everything is timed in one process, in turns, and the ratios are what counts. We encode in a thread beside the rest, so with a second
processor less time passes than is worked; "processor time" is that of all threads in times the limit, for a machine without one.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

from chunkers import STRATEGIES, Document, build_chunker
from tests.benchmarks.limits import limits, passes
from tests.benchmarks.nothing import NoModel, NoWriter
from tests.benchmarks.peers import peers
from tests.benchmarks.texts import named_texts
from tests.benchmarks.timing import Run, best_seconds

CAP = 512
ROUNDS = 5
ALL = "all six"


def measure(name: str, text: str, console: Console) -> None:
    """Print the table of one text."""
    ours = {
        strategy: build_chunker(strategy, embedder=NoModel(), context_writer=NoWriter(), chunk_size=CAP)
        for strategy in STRATEGIES
    }

    def chunked(names: tuple[str, ...]) -> object:
        document = Document(text=text)
        return [ours[strategy].chunk([document]) for strategy in names]

    libraries, others = passes(text), peers(CAP)
    runs: dict[str, Callable[[], Run]] = {name: lambda run=run: run for name, run in libraries.items()}
    runs |= {strategy: lambda strategy=strategy: partial(chunked, (strategy,)) for strategy in STRATEGIES}
    runs[ALL] = lambda: partial(chunked, STRATEGIES)
    runs |= {peer: lambda make=make: partial(make(), text) for peer, make in others.items()}
    seconds = best_seconds(runs, ROUNDS)
    limit = limits(text, {library: seconds[library].wall for library in libraries})
    limit[ALL] = max(limit.values())
    megabytes = len(text.encode()) / 1e6

    table = Table(title=f"{name}: {megabytes:.2f} MB, cap {CAP} tokens", title_justify="left")
    for column in ("", "MB/s", "times its limit", "processor time", "times as fast as"):
        table.add_column(column, justify="left" if column in ("", "times as fast as") else "right")
    for library in libraries:
        table.add_row(library, f"{megabytes / seconds[library].wall:.1f}")
    for strategy in (*STRATEGIES, ALL):
        alike = [
            f"{seconds[peer].wall / seconds[strategy].wall:.1f} {peer.split(' ', 1)[1]}"
            for peer in others
            if peer.startswith(f"{strategy} ")
        ]
        table.add_row(
            strategy,
            f"{megabytes / seconds[strategy].wall:.1f}",
            f"{seconds[strategy].wall / limit[strategy]:.2f}",
            f"{seconds[strategy].processor / limit[strategy]:.2f}",
            ", ".join(alike),
        )
    for peer in others:
        table.add_row(peer.split(" ", 1)[1], f"{megabytes / seconds[peer].wall:.1f}")
    console.print(table)


def import_seconds() -> float:
    """The shortest time that a new interpreter takes for `import chunkers`, less what it takes to start."""
    timed = "import time; t = time.perf_counter(); import chunkers; print(time.perf_counter() - t)"
    return min(float(subprocess.check_output([sys.executable, "-c", timed])) for _ in range(5))


if __name__ == "__main__":
    console = Console(width=160)
    for name, text in named_texts([Path(argument) for argument in sys.argv[1:]]).items():
        measure(name, text, console)
    console.print(f"import chunkers: {import_seconds():.2f} s")
