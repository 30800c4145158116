"""What Prefect adds to a run: the flow on a server that is up, against the same work without Prefect, in turns.

Start-up apart, of both: each is the second run of its process.

python -m tests.benchmarks.overhead [DOCUMENTS] [ROUNDS]
"""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from chunkers import STRATEGIES
from flows.server import prefect_environment, private_server
from tests.benchmarks.runs import FLOW, PLAIN, Measured, measure, write_corpus
from tests.benchmarks.texts import named_texts, paragraphs


def main(documents: int, rounds: int) -> None:
    table = Table(title=f"first runs over {documents:,} documents (median of {rounds})", title_justify="left")
    for column in ("strategies", "plain, s", "flow, s", "flow / plain", "plain, MB", "flow, MB"):
        table.add_column(column, justify="left" if column == "strategies" else "right")
    with TemporaryDirectory() as name, private_server(Path(name)) as url:
        folder = Path(name)
        write_corpus(folder / "source", paragraphs(named_texts([])), documents)
        environment = prefect_environment(url, home=folder)
        for strategies in (("recursive",), STRATEGIES):
            found: dict[str, list[Measured]] = {PLAIN: [], FLOW: []}
            for number in range(rounds):
                for step, own in found.items():
                    home = folder / f"{step}-{len(strategies)}-{number}"
                    own.append(measure(step, folder / "source", home, strategies, environment))
            seconds = {step: median(one.seconds for one in own) for step, own in found.items()}
            peak = {step: median(one.peak for one in own) / 1e6 for step, own in found.items()}
            table.add_row(
                "all six" if strategies == STRATEGIES else ", ".join(strategies),
                f"{seconds[PLAIN]:.1f}",
                f"{seconds[FLOW]:.1f}",
                f"{seconds[FLOW] / seconds[PLAIN]:.2f}",
                f"{peak[PLAIN]:.0f}",
                f"{peak[FLOW]:.0f}",
            )
    Console().print(table)


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    main(*(given + [1000, 3][len(given) :]))
