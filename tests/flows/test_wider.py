"""Runs whose tasks are done by other processes, for real: a pool, and Dask clusters of two worker processes, over a Qdrant server.

What a part does by itself is tested in `test_parts`; here it is that the processes come to be, do the work and end.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chunkers import STRATEGIES
from stores import connect
from tests.flows.conftest import flow_run, ingest
from tests.flows.stored import Stored, differences, served
from tests.openai_server import Fault, Gate, OpenAIServer, openai_server
from tests.openai_server import Request as Asked
from tests.openai_server import status as model_status
from tests.qdrant_server import QdrantServer, qdrant

__all__ = ["openai_server", "qdrant"]

pytestmark = [pytest.mark.slow, pytest.mark.flow]

# Enough for several batches.
DOCUMENTS = 150
# Against a test that hangs.
BOUND = 60


@pytest.fixture
def many(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    for number in range(DOCUMENTS):
        parts = (
            f"## Part {part}\n\nThe pump {number} has part {part}. It starts at dawn." for part in range(number % 5)
        )
        (folder / f"{number:03}.md").write_text("\n\n".join((f"# Number {number}", *parts)))
    return folder


@pytest.fixture(autouse=True)
def environment(
    qdrant: QdrantServer,
    prefect_server: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    small_batches: None,
) -> Iterator[None]:
    """Where worker processes find what they need: they inherit this environment."""
    monkeypatch.setenv("QDRANT_URL", qdrant.url)
    monkeypatch.setenv("QUARRY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("QUARRY_TASK_WORKERS", "2")
    yield
    # No worker outlives its run.
    assert until(lambda: not children())


@pytest.fixture(params=["processes", "dask"])
def elsewhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks are done by two processes that the run starts."""
    if request.param == "dask":
        pytest.importorskip("prefect_dask")
    monkeypatch.setenv("QUARRY_TASK_RUNNER", request.param)


def children() -> dict[int, str]:
    """The worker processes of this one that are alive."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = path.joinpath("stat").read_text().rpartition(")")[2].split()[:2]
            command = path.joinpath("cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if int(parent) == os.getpid() and state != "Z" and "spawn_main" in command:
            found[int(path.name)] = command
    return found


def until(true: Callable[[], Any], bound: float = BOUND) -> Any:
    end = time.monotonic() + bound
    while not (found := true()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def stored() -> Stored:
    with connect() as client:
        return served(client)


def clean(qdrant: QdrantServer, source: Path, home: Path) -> Stored:
    """What a run of threads stores."""
    os.environ["QUARRY_HOME"] = str(home)
    qdrant.reset()
    assert ingest(source).exit_status == 0
    return stored()


def test_two_processes_store_what_threads_do(many: Path, qdrant: QdrantServer, elsewhere: None, tmp_path: Path) -> None:
    state = flow_run(many)
    assert state.is_completed(), state.message
    # What they log is on the run's page.
    assert until(lambda: {line.split(":")[0] for line in lines_of_tasks(state)} == {*STRATEGIES}), lines_of_tasks(state)
    found = stored()
    assert len(found.collections) == len(STRATEGIES)
    assert differences(found, clean(qdrant, many, tmp_path / "clean")) == []


def lines_of_tasks(state: Any) -> list[str]:
    """What the tasks of a run have logged about documents, as the Prefect server has it."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId

    of_run = LogFilter(flow_run_id=LogFilterFlowRunId(any_=[state.state_details.flow_run_id]))
    with get_client(sync_client=True) as client:
        lines = client.read_logs(of_run, limit=200)
    return [line.message for line in lines if line.task_run_id and line.name == "flows.strategy_run"]


@contextmanager
def cluster() -> Iterator[Any]:
    """A client of a Dask cluster of two processes that is not the run's own."""
    distributed = pytest.importorskip("distributed")
    pytest.importorskip("prefect_dask")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0"
        ) as made,
        distributed.Client(made) as client,
    ):
        yield client


def opened() -> int:
    """How many runs the process that is asked works or has worked for."""
    from flows import remote

    return len(remote._runs)


def test_a_cluster_s_two_processes_share_the_work_of_a_run(
    many: Path, qdrant: QdrantServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("QUARRY_TASK_RUNNER", "dask")
    with cluster() as client:
        monkeypatch.setenv("QUARRY_DASK_ADDRESS", client.scheduler.address)
        state = flow_run(many)
        assert state.is_completed(), state.message
        worked = client.run(opened)
    assert len(worked) == 2
    assert set(worked.values()) == {1}
    assert differences(stored(), clean(qdrant, many, tmp_path / "clean")) == []


def test_a_run_whose_process_is_killed_says_what_is_stored_and_the_next_goes_on(
    many: Path, qdrant: QdrantServer, elsewhere: None, tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill() -> None:
        # In the middle: something is stored, and much is not.
        if until(lambda: sum(request.writes for request in qdrant.requests) > 60):
            killed.append(min(children()))
            os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    state = flow_run(many)
    killer.join()
    assert killed
    # A cluster gives the work to another process; a pool is broken, and says so.
    assert state.is_completed() or "process" in state.message, state.message
    assert any(point["status"] == "done" for point in documents())
    again = flow_run(many)
    assert again.is_completed(), again.message
    assert differences(stored(), clean(qdrant, many, tmp_path / "clean")) == []


def documents() -> list[dict[str, Any]]:
    """The journals of all strategies."""
    return [
        payload
        for points in stored().collections.values()
        for payload, _ in points.values()
        if payload["kind"] == "document"
    ]


@pytest.fixture
def model(openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> OpenAIServer:
    """The workers' models are at an endpoint of the tests'."""
    monkeypatch.setenv("OPENAI_BASE_URL", openai_server.url)
    monkeypatch.setenv("OPENAI_API_KEY", openai_server.key or "")
    monkeypatch.setenv("QUARRY_EMBEDDING_MODEL", "small")
    return openai_server


def test_a_run_that_is_stopped_leaves_no_process_and_no_lease_and_the_next_goes_on(
    many: Path, qdrant: QdrantServer, elsewhere: None, model: OpenAIServer
) -> None:
    model.always = gate = Gate(4)  # type: ignore[assignment]
    stopped: list[bool] = []

    def stop() -> None:
        # As Ctrl-C does, while a worker waits for its model; the answer comes when the workers can know.
        if gate.reached.wait(BOUND):
            os.kill(os.getpid(), signal.SIGINT)
            stopped.append(until(lambda: any(b'"stopping":true' in request.body for request in qdrant.requests)))
        gate.opened.set()

    stopper = threading.Thread(target=stop)
    stopper.start()
    state = flow_run(many, strategies=["recursive", "sentence"])
    stopper.join()
    assert stopped == [True]
    assert (state.name, state.message) == ("Cancelled", "stopped before the end; the next run goes on")
    assert until(lambda: not children())
    assert stored().leases == 0
    done = [row for row in documents() if row["status"] == "done"]
    assert 0 < len(done) < 2 * DOCUMENTS
    before = {*model.inputs} - {"dimensions"}
    model.requests.clear()
    again = flow_run(many, strategies=["recursive", "sentence"])
    assert again.is_completed(), again.message
    # It begins where the other ended, and pays for no vector twice.
    assert model.inputs
    assert not before & {*model.inputs}
    assert [row["status"] for row in documents()] == ["done"] * 2 * DOCUMENTS


def test_a_model_that_fails_in_the_workers_stops_its_strategy_alone(
    many: Path, elsewhere: None, model: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUARRY_LLM_MODEL", "gpt-4o-mini")

    def no_chat(request: Asked) -> Fault | None:
        return model_status(403, message="no access to this model") if "chat" in request.path else None

    model.always = no_chat
    state = flow_run(many, strategies=["contextual_retrieval", "recursive"])
    assert state.is_failed()
    assert "contextual_retrieval" in (state.message or "")
    assert "no access to this model" in (state.message or "")
    assert "recursive" not in (state.message or "")
    found = stored()
    assert found.aliases == {"docs__recursive": "docs__recursive__1"}
    assert not any(found.findings.values())
    model.always = None
    again = flow_run(many, strategies=["contextual_retrieval", "recursive"])
    assert again.is_completed(), again.message
