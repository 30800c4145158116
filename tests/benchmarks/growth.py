"""How time and memory grow with one document, and what a megabyte of one thing costs. Run from the checkout:

    python -m tests.benchmarks.growth

Each figure comes from a process of its own, since the peak of a process's memory only ever rises. Growth is linear where seconds a
megabyte stay what they were.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path
from tempfile import NamedTemporaryFile

from rich.console import Console
from rich.table import Table

from chunkers import STRATEGIES, Document, build_chunker
from chunkers.encoding import encode
from tests.benchmarks.nothing import NoModel, NoWriter
from tests.benchmarks.texts import markdown, prose

TIKTOKEN = "tiktoken"
MEGABYTES = (0.1, 1.0, 5.0, 20.0)
ODD = {
    "letters": "a",
    "backticks": "`",
    "spaces": " ",
    "newlines": "\n",
    "emoji": "🚀",
    "flags": "🇩🇪",
    "combining marks": "\u0301",
    "words in one line": "some words go on ",
    "Chinese in one line": "今天天气很好我们去公园",
    "Chinese sentences": "今天天气很好。",
    "records": "('alpha', 'beta'),\n",
    "quotes": "> ",
    "list items": "- one two three four five six\n",
    "table rows": "| a | b |\n",
    "headings": "## A heading\n\nText.\n\n",
}


def text_of(kind: str, megabytes: float) -> str:
    """A text of that size in UTF-8: of a real kind, or one thing over and over."""
    unit = {"prose": prose, "markdown": markdown}[kind]() + "\n\n" if kind not in ODD else ODD[kind]
    text = unit * (int(megabytes * 1e6 / len(unit.encode())) + 1)
    # A table needs its header; what is cut off in the middle of a character is left out.
    start = "| x | y |\n|---|---|\n" if kind == "table rows" else ""
    return start + text.encode()[: int(megabytes * 1e6)].decode(errors="ignore")


def measured(kind: str, megabytes: float, strategy: str) -> tuple[float, float]:
    """Seconds, and the rise of the peak of memory in times the size of the text, in a new process."""
    # Made here and not there: room that making the text has left free would hide what chunking it takes.
    with NamedTemporaryFile("w", encoding="utf-8", newline="") as file:
        file.write(text_of(kind, megabytes))
        file.flush()
        command = [sys.executable, "-m", __spec__.name, file.name, strategy]
        seconds, times = subprocess.check_output(command, text=True).split()
    return float(seconds), float(times)


def measure(path: Path, strategy: str) -> None:
    """Print the figures of one run in this process."""
    chunker = None if strategy == TIKTOKEN else build_chunker(strategy, embedder=NoModel(), context_writer=NoWriter())
    text = path.read_bytes().decode()

    def run(text: str) -> None:
        encode(text) if chunker is None else chunker.chunk([Document(text=text)])

    # Tables and weights that are loaded once are not what is measured.
    run("# A\n\nOne. Two.\n\n- a\n\n" * 30)
    before = peak_bytes()
    began = time.perf_counter()
    run(text)
    seconds = time.perf_counter() - began
    print(seconds, (peak_bytes() - before) / len(text.encode()))


def peak_bytes() -> int:
    """The peak of this program's memory so far (Linux; `ru_maxrss` would count what started it too)."""
    (peak,) = re.findall(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return int(peak) * 1024


def show(title: str, rows: dict[str, tuple[str, float]], console: Console) -> None:
    """One table: seconds a megabyte and memory in times the text, for each text and strategy."""
    table = Table(title=f"{title}: seconds a MB / memory in times the text", title_justify="left")
    for column in ("", TIKTOKEN, *STRATEGIES):
        table.add_column(column, justify="right" if column else "left")
    for label, (kind, megabytes) in rows.items():
        found = [measured(kind, megabytes, strategy) for strategy in (TIKTOKEN, *STRATEGIES)]
        table.add_row(label, *(f"{seconds / megabytes:.2f} / {times:.0f}" for seconds, times in found))
    console.print(table)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        measure(Path(sys.argv[1]), sys.argv[2])
    else:
        console = Console(width=160)
        for kind in ("prose", "markdown"):
            show(kind, {f"{megabytes:g} MB": (kind, megabytes) for megabytes in MEGABYTES}, console)
        show("1 MB of", {kind: (kind, 1.0) for kind in ODD}, console)
