"""Runs with an OpenAI-compatible endpoint: the tests' own server on loopback, over real HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chunkers import SettingError
from stores import connect, list_collections
from tests.flows.conftest import ingest
from tests.openai_server import Gate, OpenAIServer, status


def test_all_strategies_use_the_endpoint_s_models_where_one_is_configured(source: Path, endpoint: OpenAIServer) -> None:
    report = ingest(source)
    assert report.exit_status == 0, report.failures()
    with connect() as client:
        infos = {info.strategy: info for info in list_collections(client)}
    assert {info.embedding_model for info in infos.values()} == {"text-embedding-3-small"}
    assert {info.dimensions for info in infos.values()} == {1536}
    assert infos["contextual_retrieval"].context_model == "gpt-4o-mini"


def test_a_second_run_asks_the_endpoint_nothing(source: Path, endpoint: OpenAIServer) -> None:
    ingest(source)
    endpoint.requests.clear()
    assert ingest(source).exit_status == 0
    assert endpoint.requests == []


def test_a_missing_key_is_an_error_and_never_another_model(
    source: Path, endpoint: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(source, "recursive")
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY"):
        monkeypatch.delenv(name)
    for rebuild in (False, True):
        with pytest.raises(SettingError, match="OPENAI_API_KEY"):
            ingest(source, "recursive", rebuild=rebuild)


def test_an_interrupt_ends_a_wait_that_the_endpoint_asked_for(source: Path, endpoint: OpenAIServer) -> None:
    endpoint.always = status(429, {"Retry-After": "60"})
    command = [sys.executable, "-m", "flows.cli", "ingest", str(source), "--plain", "--json", "--strategy", "recursive"]
    with subprocess.Popen(command, env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as run:
        until = time.monotonic() + 60
        while not endpoint.requests and time.monotonic() < until:
            time.sleep(0.05)
        run.send_signal(signal.SIGINT)
        said, _ = run.communicate(timeout=20)
    assert run.returncode == 130
    report = json.loads(said)
    assert report["failures"] == ["stopped before the end; the next run goes on"]


def test_a_run_that_is_killed_pays_again_only_for_the_requests_that_were_under_way(
    source: Path, endpoint: OpenAIServer
) -> None:
    for number in range(30):
        (source / f"more-{number:02}.md").write_text(f"# Part {number}\n\nThis is part number {number}.\n")
    held = Gate(20)
    endpoint.always = held
    command = [
        sys.executable,
        "-m",
        "flows.cli",
        "ingest",
        str(source),
        "--plain",
        "--strategy",
        "contextual_retrieval",
    ]
    single = {**os.environ, "QUARRY_LLM_PARALLEL": "3"}
    with subprocess.Popen(command, env=single, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        assert held.reached.wait(60)
        run.kill()
    held.opened.set()
    asked = [json.dumps(request.body, sort_keys=True) for request in endpoint.requests]
    endpoint.always = None
    endpoint.requests.clear()
    assert ingest(source, "contextual_retrieval").exit_status == 0
    again = [json.dumps(request.body, sort_keys=True) for request in endpoint.requests]
    assert len(asked) >= 20
    assert len(set(again) & set(asked)) <= 3
    assert len(again) == len(set(again))
