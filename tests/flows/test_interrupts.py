"""Ctrl-C and SIGTERM, sent to the real command while a model's answer is awaited: it ends, says what is stored, and goes on next time.

The model is the tests' own server, which holds an answer back until the signal is sent, so that every signal arrives in the middle.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flows.conftest import ingest
from tests.flows.stored import differences, read
from tests.openai_server import Gate, OpenAIServer, openai_server

__all__ = ["openai_server"]

DOCUMENTS = 100
# A bound for a run that hangs, not a measure.
BOUND = 120
STRATEGY = ("recursive", "sentence")


@pytest.fixture
def gate(openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    monkeypatch.setenv("OPENAI_BASE_URL", openai_server.url)
    monkeypatch.setenv("OPENAI_API_KEY", openai_server.key or "")
    # A small model keeps answers small.
    monkeypatch.setenv("QUARRY_EMBEDDING_MODEL", "small")
    openai_server.always = gate = Gate()
    yield gate
    gate.opened.set()


@pytest.fixture
def many(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(DOCUMENTS):
        (folder / f"{number:03}.md").write_text(f"# Number {number}\n\nThe pump of number {number} starts at dawn.\n")
    return folder


def command(source: Path, *options: str) -> list[str]:
    named = [word for name in STRATEGY for word in ("--strategy", name)]
    return [sys.executable, "-m", "flows.cli", "ingest", str(source), *named, *options]


def interrupted(gate: Gate, arguments: list[str], *signals: signal.Signals, at: int) -> tuple[int, str, str]:
    """Runs a command and sends it signals while the answer to its `at`-th request is held back; status and output."""
    gate.left = at
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        try:
            assert gate.reached.wait(BOUND), "the model was never asked"
            for number in signals:
                run.send_signal(number)
                wait_until_taken(run.pid)
            gate.opened.set()
            said, told = run.communicate(timeout=BOUND)
        finally:
            run.kill()
    return run.returncode, said, told


def wait_until_taken(pid: int) -> None:
    """Until the process has taken its pending signals, where the system tells."""
    status = Path(f"/proc/{pid}/status")
    while status.exists():
        pending = [line.split()[1] for line in status.read_text().splitlines() if line.startswith(("SigPnd", "ShdPnd"))]
        if all(int(mask, 16) == 0 for mask in pending):
            return
        time.sleep(0.01)


def finish(gate: Gate, server: OpenAIServer, source: Path, stored: dict[str, int], **options: Any) -> None:
    """The next run asks only for what is missing, and the store is that of a run that nobody interrupted."""
    # Every run of a model that is not known asks first how long its vectors are.
    before = {*server.inputs} - {"dimensions"}
    server.requests.clear()
    gate.left = -1
    report = ingest(source, *STRATEGY, **options)
    assert report.exit_status == 0, report.failures()
    assert {name: own.unchanged for name, own in report.strategies.items()} == stored
    assert len(server.inputs) > 1
    assert not before & set(server.inputs)
    home = Path(os.environ["QUARRY_HOME"])
    found = read(home)
    os.environ["QUARRY_HOME"] = str(home.with_name("clean"))
    assert ingest(source, *STRATEGY, **{**options, "rebuild": False}).exit_status == 0
    clean = read(home.with_name("clean"))
    for name in STRATEGY:
        points, right = found.live(name), clean.live(name)
        assert points is not None
        assert right is not None
        assert points.keys() == right.keys()
    assert not any(found.findings.values())
    if not options.get("rebuild"):
        assert differences(found, clean) == []


def stored_documents(report: dict[str, Any]) -> dict[str, int]:
    """Documents that a report says are stored, by strategy."""
    told = {name: own["documents"] for name, own in report["strategies"].items()}
    assert any(told.values()), report
    assert all(number < DOCUMENTS for number in told.values()), report
    return told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_plain_run_that_is_interrupted_says_what_is_stored_and_the_next_goes_on(
    many: Path, gate: Gate, openai_server: OpenAIServer, number: signal.Signals
) -> None:
    status, said, told = interrupted(gate, command(many, "--plain", "--json"), number, at=4)
    assert status == 130, told
    report = json.loads(said)
    assert report["failures"] == ["stopped before the end; the next run goes on"]
    finish(gate, openai_server, many, stored_documents(report))


def test_an_interrupted_run_tells_a_person_what_is_stored(many: Path, gate: Gate) -> None:
    status, said, told = interrupted(gate, command(many, "--plain"), signal.SIGINT, at=4)
    assert status == 130, told
    assert "corpus docs" in said
    assert "Failed: stopped before the end; the next run goes on" in said
    assert "Traceback" not in said + told


def test_a_second_ctrl_c_does_no_harm(many: Path, gate: Gate, openai_server: OpenAIServer) -> None:
    arguments = command(many, "--plain", "--json")
    status, _, told = interrupted(gate, arguments, signal.SIGINT, signal.SIGINT, signal.SIGINT, at=4)
    assert status == 130, told
    assert "Traceback" not in told
    found = read(Path(os.environ["QUARRY_HOME"]))
    assert not any(found.findings.values())
    stored = {}
    for name in STRATEGY:
        rows = [
            payload for payload, _ in found.collections[f"docs__{name}__1"].values() if payload["kind"] == "document"
        ]
        stored[name] = sum(row["status"] == "done" for row in rows)
    finish(gate, openai_server, many, stored)


def test_a_rebuild_that_is_terminated_leaves_readers_where_they_are_and_is_gone_on_with(
    many: Path, gate: Gate, openai_server: OpenAIServer
) -> None:
    smaller = {"chunk_size": "12", "sentence_overlap": "0"}
    assert ingest(many, *STRATEGY).exit_status == 0
    home = Path(os.environ["QUARRY_HOME"])
    before = read(home)
    openai_server.requests.clear()
    options = [word for name, value in smaller.items() for word in ("--set", f"{name}={value}")]
    arguments = command(many, "--plain", "--json", "--rebuild", *options)
    status, said, told = interrupted(gate, arguments, signal.SIGTERM, at=4)
    assert status == 130, told
    during = read(home)
    assert during.aliases == before.aliases
    for name in STRATEGY:
        assert during.live(name) is not None
        old = before.live(name)
        assert old is not None
        assert (during.live(name) or {}).keys() == old.keys()
    finish(gate, openai_server, many, stored_documents(json.loads(said)), rebuild=True, overrides=smaller)
    assert read(home).aliases == {f"docs__{name}": f"docs__{name}__2" for name in STRATEGY}


@pytest.mark.slow
@pytest.mark.flow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_with_prefect_that_is_interrupted_says_what_is_stored_and_the_next_goes_on(
    many: Path, gate: Gate, openai_server: OpenAIServer, number: signal.Signals
) -> None:
    status, said, told = interrupted(gate, command(many, "--json"), number, at=4)
    assert status == 130, told
    report = json.loads(said)
    assert report["failures"] == ["stopped before the end; the next run goes on"]
    finish(gate, openai_server, many, stored_documents(report))
