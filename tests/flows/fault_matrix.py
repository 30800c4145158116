"""What whole runs do when an endpoint misbehaves: fault by fault, the requests that were made and what became of the documents.

    python -m tests.flows.fault_matrix

prints the table; `test_fault_matrix.py` holds each run to its row. A run ingests three small documents by one strategy, with one request
under way at a time, over real HTTP; waits are counted and take no time. Then the endpoint is well again, and a second run must end with
what a run without any fault stores.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from unittest.mock import patch

from tests.flows.conftest import ingest
from tests.flows.stored import Points, chunks_by_source, read
from tests.openai_server import (
    Fault,
    OpenAIServer,
    Request,
    changed,
    disconnect,
    dropped_vector,
    number,
    quota_spent,
    repeated_index,
    reply,
    shuffled_order,
    slow,
    status,
    wrong_dimension,
)

EMBED, WRITE = "recursive", "contextual_retrieval"
POISON = "poison"
DOCUMENTS = {
    "one.md": "# Pumps\n\nThe pump starts at dawn and stops at dusk.\n",
    "two.md": f"# Wells\n\nThe water of the well is {POISON} after a flood.\n",
    "three.md": "# Gates\n\nThe gate is mended with wire.\n",
}
ATTEMPTS = 3
# Seconds that a silent endpoint is given, and that one is silent which does not answer in time.
TIMEOUT, SILENT = 0.3, 0.8


class Outcome(NamedTuple):
    """What a run did.

    Attributes:
        requests: that reached the endpoint.
        waited: whole seconds that the endpoint asked for and got.
        stored, failed, untried: documents.
        fallbacks: contexts by the outline where the model should have written them.
        status: the run's exit status.
        next: requests of the run after it, with the endpoint well again.
    """

    requests: int
    stored: int = 3
    failed: int = 0
    untried: int = 0
    fallbacks: int = 0
    waited: int = 0
    status: int = 0
    next: int = 0


def stopped(requests: int, next_run: int = 3) -> Outcome:
    """The run ends, no document is to blame, and the next run has all of them to do."""
    return Outcome(requests, stored=0, untried=3, status=1, next=next_run)


def one_failed(requests: int) -> Outcome:
    """The one document fails, the others are stored, and the next run asks about that one alone."""
    return Outcome(requests, stored=2, failed=1, status=1, next=1)


@dataclass(frozen=True)
class Row:
    """A fault, and what is to come of it.

    Attributes:
        name: of the fault, for the table.
        faults: one for each of the first requests.
        always: for every request after those.
        strategy: which models are asked.
        settings: of the run, over the table's own.
    """

    name: str
    outcome: Outcome
    faults: tuple[Fault | None, ...] = ()
    always: Fault | Callable[[Request], Fault | None] | None = None
    strategy: str = EMBED
    settings: dict[str, str] = field(default_factory=dict)


def poisoned(fault: Fault) -> Callable[[Request], Fault | None]:
    """`fault` for each request that holds the one document's text."""
    return lambda request: fault if POISON in json.dumps(request.body) else None


def crowded(fault: Fault) -> Callable[[Request], Fault | None]:
    """`fault` for each request of more than one input."""
    return lambda request: fault if len(request.body.get("input", ())) > 1 else None


def of_chat(fault: Fault) -> Callable[[Request], Fault | None]:
    return lambda request: fault if request.path.endswith("/chat/completions") else None


def unknown_base64(request: Request) -> Fault | None:
    wanted = request.body.get("encoding_format")
    return status(400, message="encoding_format is not supported") if wanted == "base64" else None


def _embedding_rows() -> Iterator[Row]:
    yield Row("none", Outcome(1))
    for code in (408, 409, 429, 500, 502, 503, 504):
        yield Row(f"{code}, once", Outcome(2), (status(code),))
    for name, fault in {
        "connection dropped before the answer": disconnect(),
        "connection dropped in the answer": disconnect("inside"),
        "silence": slow(SILENT),
    }.items():
        yield Row(f"{name}, once", Outcome(2), (fault,))
        # Three tries of the run, each with three attempts at a request and three at a short text.
        yield Row(f"{name}, always", stopped(18), always=fault)
    yield Row("429 with Retry-After: 7, twice", Outcome(3, waited=14), (status(429, {"Retry-After": "7"}),) * 2)
    yield Row("429 with Retry-After: 200", Outcome(2, waited=200), (status(429, {"Retry-After": "200"}),))
    yield Row("429 with retry-after-ms: 3000", Outcome(2, waited=3), (status(429, {"retry-after-ms": "3000"}),))
    yield Row("429 with Retry-After: a day", stopped(1), (status(429, {"Retry-After": "86400"}),))
    yield Row("429, always", stopped(9), always=status(429))
    for code in (500, 503):
        yield Row(f"{code}, always", stopped(18), always=status(code))
    yield Row("a quota that is spent", stopped(1), always=quota_spent())
    for code, reason in ((401, "a wrong key"), (403, "a forbidden model"), (404, "an unknown model")):
        yield Row(f"{code}, {reason}", stopped(1), always=status(code))
    yield Row("400 for a wrong setting", stopped(1), always=status(400, param="model"))
    # All together, a short text, then each alone.
    yield Row("400 for one document", one_failed(5), always=poisoned(status(400)))
    yield Row("422 for one document", one_failed(5), always=poisoned(status(422)))
    yield Row("500 for one document", one_failed(9), always=poisoned(status(500)))
    yield Row("connection dropped for one document", one_failed(9), always=poisoned(disconnect()))
    yield Row("413 for several inputs", Outcome(5), always=crowded(status(413)))
    yield Row(
        "400 for too many tokens in a request",
        Outcome(5),
        always=crowded(status(400, code="max_tokens_per_request")),
    )
    yield Row(
        "taken at first, then too many tokens",
        Outcome(3),
        (None, status(429, message="Request too large for gpt on tokens per min")),
        settings={"QUARRY_EMBEDDING_MAX_INPUTS": "2"},
    )
    yield Row("no base64", Outcome(2), always=unknown_base64)
    yield Row("vectors in another order", Outcome(1), (shuffled_order(),))
    for name, fault in {
        "a vector missing": dropped_vector(),
        "a NaN": number(float("nan")),
        "an infinity": number(float("inf")),
        "a null": number(None),
        "200 with a page of HTML": Fault(body=b"<html>Welcome</html>"),
        "200 with nothing": Fault(body=b""),
        "200 with an error": Fault(body={"error": {"message": "overloaded"}}),
    }.items():
        yield Row(name, stopped(2), always=fault)
    yield Row("an index twice", Outcome(5), always=repeated_index())  # not where there is one text
    ragged = changed(lambda answer: answer["data"][0]["embedding"].pop())
    yield Row("a vector short of a number", stopped(3), always=ragged)
    yield Row("other dimensions than the model has", stopped(1), always=wrong_dimension())


def _context_rows() -> Iterator[Row]:
    def row(name: str, outcome: Outcome, *faults: Fault, always: Fault | None = None) -> Row:
        return Row(f"context: {name}", outcome, faults, of_chat(always) if always else None, WRITE)

    yield row("none", Outcome(4))
    yield row("429 with Retry-After: 7, twice", Outcome(6, waited=14), *[status(429, {"Retry-After": "7"})] * 2)
    for name, fault in {
        "empty": reply(""),
        "null": reply(None),
        "a refusal": reply(None, refusal="I cannot help with that."),
        "cut off by a filter": reply("This section", finish_reason="content_filter"),
        "cut off at the bound": reply("This section", finish_reason="length"),
        "an essay": reply("This section is about pumps. " * 40),
        "the prompt again": reply("<section-0123456789ab> The pump"),
        "400 by a content filter": status(400, code="content_filter"),
    }.items():
        yield row(name, Outcome(4, fallbacks=1), fault)
    yield row("no chat completion, once", Outcome(8), Fault(body={"choices": []}))
    yield row("500, always", stopped(18, 6), always=status(500))
    yield row("a quota that is spent", stopped(1, 6), always=quota_spent())
    yield row("a wrong key", stopped(1, 6), always=status(401))
    yield row("max_tokens not known", Outcome(5), status(400, code="unsupported_parameter", param="max_tokens"))


ROWS = (*_embedding_rows(), *_context_rows())


def play(row: Row, folder: Path) -> tuple[Outcome, Points]:
    """The outcome of a row's runs below an empty folder, and what is stored after the second."""
    source = folder / "source"
    source.mkdir(parents=True)
    for name, text in DOCUMENTS.items():
        (source / name).write_text(text, encoding="utf-8")
    with OpenAIServer() as server, _settings(server, folder / "home", row) as waits:
        server.faults = deque(row.faults)
        server.always = row.always
        report = ingest(source, row.strategy)
        own = report.strategies[row.strategy]
        outcome = Outcome(
            len(server.requests),
            len(chunks_by_source(read(folder / "home").live(row.strategy) or {})),
            len(own.failed),
            own.not_attempted,
            own.fallbacks,
            # What it thinks up itself is no whole number of seconds.
            round(sum(seconds for seconds in waits if seconds == round(seconds))),
            report.exit_status,
        )
        server.faults.clear()
        server.always = None
        ingest(source, row.strategy, retry_parked=True)
        after = read(folder / "home").live(row.strategy) or {}
        return outcome._replace(next=len(server.requests) - outcome.requests), after


@contextmanager
def _settings(server: OpenAIServer, home: Path, row: Row) -> Iterator[list[float]]:
    """The settings of a row's runs; the seconds that they waited between attempts."""
    waits: list[float] = []
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("QUARRY_", "OPENAI_", "QDRANT_"))}
    given = {
        "QUARRY_HOME": str(home),
        "OPENAI_BASE_URL": server.url,
        "OPENAI_API_KEY": server.key or "",
        "QUARRY_REQUEST_ATTEMPTS": str(ATTEMPTS),
        "QUARRY_REQUEST_TIMEOUT": str(TIMEOUT),
        "QUARRY_EMBEDDING_PARALLEL": "1",
        "QUARRY_LLM_PARALLEL": "1",
        **row.settings,
    }
    with (
        patch.dict(os.environ, {**kept, **given}, clear=True),
        patch("chunkers.models.openai_client._wait", lambda seconds, events: waits.append(seconds)),
        patch("flows.retries.WAITS", (0.0, 0.0)),
    ):
        yield waits


def main() -> None:
    """Prints the table."""
    print(f"{'fault':44}" + "".join(f"{name:>10}" for name in Outcome._fields))
    for row in ROWS:
        with TemporaryDirectory() as folder:
            outcome, _ = play(row, Path(folder))
        expected = "" if outcome == row.outcome else f"   expected {tuple(row.outcome)}"
        print(f"{row.name:44}" + "".join(f"{value:>10}" for value in outcome) + expected, flush=True)


if __name__ == "__main__":
    main()
