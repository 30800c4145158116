"""What a run says of itself on its page in Prefect's UI: its name, the rows of its table, its report in markdown. Pure.

Names of files and messages of errors are anybody's text, so they are escaped before they become markdown. Lists are bounded, so that a
page opens whatever a run met; `quarry ingest --json` and the log have all of it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from chunkers import STRATEGIES
from chunkers.redaction import shown_address
from flows.report import Report
from flows.request import Request

LONGEST_NAME = 100
# Rows of a list, and characters of a message.
ROWS, LONGEST_MESSAGE = 50, 300
COLUMNS = ("documents", "unchanged", "chunks", "embedded", "cached", "deleted", "failed", "seconds")
# The page of a report is narrow.
_SHORT = {"documents": "docs", "seconds": "sec"}

_SPECIAL = re.compile(r"([\\`*_{}\[\]()#+\-.!|~>])")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def run_name(flow: str, parameters: Mapping[str, Any]) -> str:
    """A flow run's name: what runs over what, and how it differs from the usual, in at most `LONGEST_NAME` characters.

    Args:
        flow: name of the flow.
        parameters: of the run.
    """
    source = str(parameters.get("source") or "").rstrip("/")
    what = parameters.get("corpus") or source.rsplit("/", 1)[-1] or source or "nothing"
    documents, strategies = parameters.get("documents") or [], parameters.get("strategies") or []
    told = []
    if documents:
        told.append(str(documents[0]) if len(documents) == 1 else f"{len(documents)} globs")
    if strategies and set(strategies) != set(STRATEGIES):
        told.append(", ".join(strategies) if len(strategies) <= 2 else f"{len(strategies)} strategies")
    told += [name.replace("_", " ") for name in ("rebuild", "dry_run", "retry_parked") if parameters.get(name)]
    name = _CONTROL.sub(" ", f"{flow} {what}" + (f": {', '.join(told)}" if told else ""))
    return name if len(name) <= LONGEST_NAME else name[: LONGEST_NAME - 1] + "…"


def tags(flow: str, report: Report, request: Request) -> list[str]:
    """What a run can be filtered by."""
    kinds = {"dry-run": report.dry_run, "rebuild": request.rebuild}
    return [f"corpus:{report.corpus}", flow, *(kind for kind, is_so in kinds.items() if is_so)]


def artifact_key(kind: str, report: Report) -> str:
    """The key of an artifact, under which Prefect keeps the history of a corpus: lower-case letters, digits and dashes.

    A corpus's name holds single `-` and `_`, so two dashes can only stand for the latter.
    """
    return f"{'dry-run-' if report.dry_run else ''}{kind}-{report.corpus.replace('_', '--')}"


def table(report: Report) -> list[dict[str, Any]]:
    """One row for each strategy."""
    rows = []
    for name, own in report.strategies.items():
        told = own.as_json()
        row = {column: told[column] for column in COLUMNS}
        row |= {"failed": len(own.failed) + len(report.unreadable), "seconds": round(own.seconds, 1)}
        rows.append({"strategy": name, **row, "error": own.error or ""})
    return rows


@dataclass(frozen=True, slots=True)
class Ran:
    """What a report is about.

    Attributes:
        request: what was asked for.
        settings: values that were set, by name, of those that decide chunks and vectors.
        qdrant_url: of a Qdrant server, or None.
        home: folder of the embedded store.
    """

    request: Request
    settings: Mapping[str, Any] = field(default_factory=dict)
    qdrant_url: str | None = None
    home: str = ""


def markdown(report: Report, ran: Ran) -> str:
    """The report of a run."""
    parts = [
        f"# {'Dry run of' if report.dry_run else 'Run over'} corpus {_code(report.corpus)}",
        _outcome(report),
        _table(report),
        _spent(report),
        *_stopped(report),
        *_lists(report),
        *_again(report, ran),
        _where(report, ran),
    ]
    return "\n\n".join(part for part in parts if part)


def _outcome(report: Report) -> str:
    failures = report.failures()
    if not failures:
        done = escape(report.summary())
        return f"**Dry run:** nothing was written. {done}" if report.dry_run else f"**All done:** {done}."
    return "**Not all done; what succeeded is stored.**\n\n" + "\n".join(f"- {escape(one)}" for one in failures)


def _table(report: Report) -> str:
    headings = " | ".join(_SHORT.get(column, column) for column in COLUMNS)
    lines = [f"| strategy | {headings} |", "|---|" + "---:|" * len(COLUMNS)]
    for row in table(report):
        counts = (f"{row[column]:,}" for column in COLUMNS)
        lines.append(f"| {escape(row['strategy'])} | " + " | ".join(counts) + " |")
    return "\n".join(lines)


def _spent(report: Report) -> str:
    """The tokens that endpoints counted, and what they cost; nothing where none was asked."""
    asked = {name: own for name, own in report.strategies.items() if own.requests}
    if not asked:
        return ""
    lines = ["| strategy | requests | embedding tokens | prompt tokens | answer tokens | USD |", "|---|" + "---:|" * 5]
    for name, own in asked.items():
        counts = (own.requests, own.embedding_tokens, own.prompt_tokens, own.answer_tokens)
        told = " | ".join(f"{count:,}" for count in counts)
        lines.append(f"| {escape(name)} | {told} | {'unknown' if own.cost is None else f'{own.cost:.4f}'} |")
    return "\n".join(lines)


def _stopped(report: Report) -> list[str]:
    stopped = [f"- {_code(name)}: {escape(own.error)}" for name, own in report.strategies.items() if own.error]
    return ["## Strategies that stopped", "\n".join(stopped)] if stopped else []


def _lists(report: Report) -> list[str]:
    own = report.strategies
    failed = _by_row({name: strategy.failed for name, strategy in own.items()})
    parked = _by_row({name: strategy.parked for name, strategy in own.items()})
    parts = []
    for title, told, rows in (
        ("Documents that failed", "They are tried again by the next run.", failed),
        ("Files that could not be read", "They stay as they are stored.", [(*row, "") for row in report.unreadable]),
        (
            "Parked documents",
            "They failed three times, and are tried again when their content changes, or when a run says so.",
            parked,
        ),
        ("Notes", "", [(*row, "") for row in report.notes]),
    ):
        if rows:
            parts += [f"## {title}", told, _rows(rows)]
    reasons: dict[str, int] = {}
    for _, reason in report.skipped:
        reasons[reason] = reasons.get(reason, 0) + 1
    if reasons:
        lines = [f"- {count:,}: {escape(reason)}" for reason, count in list(reasons.items())[:ROWS]]
        parts += ["## Skipped files", "\n".join(lines)]
    return parts


def _by_row(rows: Mapping[str, Sequence[tuple[str, str]]]) -> list[tuple[str, str, str]]:
    """(document, message, strategies): each document once for each message."""
    named: dict[tuple[str, str], list[str]] = {}
    for name, own in rows.items():
        for row in own:
            named.setdefault(row, []).append(name)
    return [(*row, "every strategy" if len(names) == len(rows) else ", ".join(names)) for row, names in named.items()]


def _rows(rows: Sequence[tuple[str, str, str]]) -> str:
    lines = []
    for document, message, strategies in rows[:ROWS]:
        lines.append(f"- {_code(document)}: {escape(message)}" + (f" ({_plain(strategies)})" if strategies else ""))
    if len(rows) > ROWS:
        lines.append(f"- and {len(rows) - ROWS:,} more; the run's log names all")
    return "\n".join(lines)


def _again(report: Report, ran: Ran) -> list[str]:
    """The commands that try again what was not done."""
    own = report.strategies
    everywhere = bool(report.unreadable or report.error or report.interrupted or not report.complete)
    failed = [name for name, strategy in own.items() if everywhere or strategy.failed or strategy.error]
    parked = [name for name, strategy in own.items() if strategy.parked]
    commands = []
    if failed:
        commands.append(command(report, ran, failed))
    if parked:
        commands.append(command(report, ran, parked, "--retry-parked"))
    if report.withheld:
        commands.append(command(report, ran, list(own), "--allow-deletes", str(report.withheld)))
    if not commands or report.dry_run:
        return []
    fence = "`" * max(3, *(len(run) + 1 for text in commands for run in re.findall("`+", text) or [""]))
    return [
        "## Try again",
        f"{fence}sh\n" + "\n".join(commands) + f"\n{fence}",
        "Or start a run of the deployment with the same parameters.",
    ]


def command(report: Report, ran: Ran, strategies: Sequence[str], *options: str) -> str:
    """A command line that takes up these strategies of a run again, quoted for a shell."""
    words = ["quarry", "ingest", ran.request.source, "--corpus", report.corpus]
    if set(strategies) != set(STRATEGIES):
        words += [word for name in strategies for word in ("--strategy", name)]
    if ran.request.rebuild:
        words.append("--rebuild")
    words += options
    words += [word for name, value in ran.settings.items() for word in ("--set", f"{name}={value}")]
    return shlex.join(words)


def _where(report: Report, ran: Ran) -> str:
    lines = [f"Source {_code(ran.request.source)}; {escape(report.models())}."]
    if ran.settings:
        given = ", ".join(f"{name}={value}" for name, value in ran.settings.items())
        lines.append(f"Settings: {_code(given)}.")
    if ran.qdrant_url:
        address = dashboard(ran.qdrant_url)
        links = [
            f"- [{escape(own.collection)}]({address}/{quote(own.collection)})" for own in report.strategies.values()
        ]
        return "## Where it is stored\n\n" + " ".join(lines) + "\n\n" + "\n".join(links)
    names = ", ".join(_code(own.collection) for own in report.strategies.values())
    return "## Where it is stored\n\n" + " ".join(lines) + f"\n\nEmbedded, in {_code(ran.home)}: {names}"


def dashboard(url: str) -> str:
    """Where Qdrant's dashboard shows its collections, without the user's name and password that the address may hold."""
    address = shown_address(url if "//" in url else f"http://{url}")
    return f"{address.rstrip('/')}/dashboard#/collections"


def escape(text: str | None) -> str:
    """Any text as markdown that shows it and nothing else, in one line, cut after `LONGEST_MESSAGE` characters."""
    return _SPECIAL.sub(r"\\\1", _plain(text)).replace("&", "&amp;").replace("<", "&lt;")


def _plain(text: str | None) -> str:
    told = _CONTROL.sub(" ", text or "")
    return told if len(told) <= LONGEST_MESSAGE else told[: LONGEST_MESSAGE - 1] + "…"


def _code(text: str) -> str:
    """Any text as a code span."""
    told = _plain(text) or " "
    ticks = "`" * (max((len(run) for run in re.findall("`+", told)), default=0) + 1)
    space = " " if told.startswith("`") or told.endswith("`") else ""
    return f"{ticks}{space}{told}{space}{ticks}"
