"""A home folder, a clean environment and a small source for each test; nothing of the user's own settings leaks in."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from flows.cli import app
from flows.ingestion import Ingestion
from flows.observer import Observer
from flows.report import Report
from flows.request import Request
from flows.running import PlainRunner, run
from flows.settings import Settings
from stores import StoreError, Writer
from tests.openai_server import OpenAIServer, openai_server

__all__ = ["openai_server"]

TEXTS = {
    "guide.md": "# Guide\n\nThe pump starts at dawn. It stops at dusk.\n\n## Care\n\nOil the bearings every month. Use thin oil.\n",
    "notes/tea.md": "---\ntitle: On tea\ntags: [drink]\n---\n# Tea\n\nGreen tea wants cool water. Black tea wants it boiling.\n",
    "log.txt": "Monday was quiet.\n\nTuesday the gate broke. We mended it with wire.\n",
}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("QUARRY_", "OPENAI_", "QDRANT_")) and name != "QDRANT_TEST_URL":
            monkeypatch.delenv(name)
    monkeypatch.setenv("QUARRY_HOME", str(tmp_path / "home"))
    # Tasks that are tried again wait for no clock.
    monkeypatch.setattr("flows.retries.WAITS", (0.0, 0.0))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    for name, text in TEXTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def endpoint(openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> OpenAIServer:
    """The tests' own endpoint, which settings name."""
    monkeypatch.setenv("OPENAI_BASE_URL", openai_server.url)
    monkeypatch.setenv("OPENAI_API_KEY", openai_server.key or "")
    return openai_server


@pytest.fixture
def semantic_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store fails for the strategy `semantic` alone."""
    write = Writer.write

    def broken(self: Writer, documents: Any, **options: Any) -> Any:
        if self.strategy == "semantic":
            raise StoreError("the disk is full", fatal=True)
        return write(self, documents, **options)

    monkeypatch.setattr(Writer, "write", broken)


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    """Prefect's own test server."""
    from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings
    from prefect.testing.utilities import prefect_test_harness

    with (
        prefect_test_harness(server_startup_timeout=120),
        # Joining the heartbeat's thread would cost each flow a second.
        temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None}),
    ):
        yield


def flow_run(source: Path, **options: Any) -> Any:
    """The final state of a run of the flow."""
    from flows.ingest import ingest

    return ingest(str(source), **options, return_state=True)


def recorded(state: Any) -> tuple[Any, list[Any], dict[str, Any]]:
    """The flow run, its task runs and its artifacts by key, as the server has them."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, FlowRunFilter, FlowRunFilterId

    id_ = state.state_details.flow_run_id
    with get_client(sync_client=True) as client:
        run = client.read_flow_run(id_)
        # The server hears of tasks by events, which it may still be working through.
        until = time.monotonic() + 30
        while True:
            tasks = client.read_task_runs(flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=[id_])))
            if all(task.state and task.state.is_final() for task in tasks) or time.monotonic() > until:
                break
            time.sleep(0.1)
        artifacts = client.read_artifacts(
            artifact_filter=ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[id_]))
        )
    return run, tasks, {artifact.key: artifact for artifact in artifacts}


def ingest(source: Path | str, *strategies: str, overrides: dict[str, str] | None = None, **options: object) -> Report:
    """A plain run; all strategies unless some are named."""
    named = {"strategies": strategies} if strategies else {}
    request = Request(str(source), **named, **options)  # type: ignore[arg-type]
    with (
        Ingestion(request, Settings.load(overrides), Observer()) as ingestion,
        PlainRunner(len(request.strategies)) as runner,
    ):
        return run(ingestion, runner)


def quarry(*arguments: object) -> Result:
    """The command, in this process."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def told(*arguments: object, status: int = 0) -> dict[str, Any]:
    """The one JSON object that a command prints on standard output, once it ended with `status`."""
    result = quarry(*arguments, "--json")
    assert result.exit_code == status, result.output
    made = json.loads(result.stdout)
    assert isinstance(made, dict)
    return made


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of 32 documents, so that a few dozen make several."""
    monkeypatch.setattr("flows.batches.SMALLEST_BATCH", 32)
