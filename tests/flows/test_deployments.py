"""The deployments on a real Prefect server: by a worker from `deploy/prefect.yaml`, and by `quarry serve`. Nothing is stood in for.

Models are the tests' own endpoint, which can hold an answer back; so whatever stops a run stops it in the middle of its work.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from flows.server import prefect_environment, private_server
from tests.flows.conftest import TEXTS
from tests.openai_server import Gate, OpenAIServer

pytestmark = [pytest.mark.slow, pytest.mark.flow]

ROOT = Path(__file__).parents[2]
# Bounds for what hangs, not measures.
BOUND, MINUTE_BOUND, STOP_BOUND = 90.0, 150.0, 30.0
DOCUMENTS = 120
SERVED = ("recursive", "sentence")
STOPPING = "stopping after the documents in hand"


def until(true: Callable[[], Any], bound: float = BOUND) -> Any:
    """What `true()` gives once it gives something; fails after `bound` seconds."""
    end = time.monotonic() + bound
    while time.monotonic() < end:
        if found := true():
            return found
        time.sleep(0.2)
    pytest.fail(f"not within {bound:.0f} s")


def stop(process: subprocess.Popen[bytes]) -> None:
    """Stop `process` as a service manager does: it is told to end, and killed with all its children if it does not."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_BOUND)
        except subprocess.TimeoutExpired:  # Prefect's worker misses the signal once in a while
            for pid in [*descendants(process.pid), process.pid]:  # a flow run's process has a session of its own
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()


def descendants(pid: int) -> list[int]:
    """The processes below process `pid`, the lowest first."""
    table = subprocess.check_output(["ps", "-eo", "pid=,ppid="], text=True).splitlines()
    children = [int(child) for child, parent in map(str.split, table) if int(parent) == pid]
    return [one for child in children for one in [*descendants(child), child]]


def prefect(environment: dict[str, str], *arguments: str) -> None:
    """Prefect's own command."""
    command = [sys.executable, "-m", "prefect", "--no-prompt", *arguments]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=BOUND)
    assert done.returncode == 0, done.stdout + done.stderr


@dataclass
class Place:
    """A Prefect server, a model endpoint, a home folder and a source, and the environment that processes need for them."""

    environment: dict[str, str]
    model: OpenAIServer
    folder: Path

    @property
    def source(self) -> Path:
        return self.folder / "docs"

    def client(self) -> Any:
        from prefect.client.orchestration import SyncPrefectClient

        return SyncPrefectClient(self.environment["PREFECT_API_URL"])

    def deployment(self, name: str) -> Any:
        with self.client() as client:
            return client.read_deployment_by_name(name)

    def trigger(self, name: str, **parameters: Any) -> str:
        """Creates a run of a deployment; its id."""
        with self.client() as client:
            deployment = client.read_deployment_by_name(name)
            return str(client.create_flow_run_from_deployment(deployment.id, parameters=parameters).id)

    def run(self, id_: str) -> Any:
        with self.client() as client:
            return client.read_flow_run(id_)

    def ended(self, id_: str) -> Any:
        """A run, once it has ended."""
        return until(lambda: run if (run := self.run(id_)).state.is_final() else None)

    def runs(self, deployment: str) -> list[Any]:
        """Runs of a deployment, the latest first."""
        from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterDeploymentId
        from prefect.client.schemas.sorting import FlowRunSort

        asked = FlowRunFilter(deployment_id=FlowRunFilterDeploymentId(any_=[self.deployment(deployment).id]))
        with self.client() as client:
            return list(client.read_flow_runs(flow_run_filter=asked, sort=FlowRunSort.START_TIME_DESC))

    def log(self, id_: str) -> str:
        from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId

        with self.client() as client:
            return "\n".join(
                log.message for log in client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[id_])))
            )

    def status(self) -> dict[str, dict[str, Any]]:
        """What `quarry status` tells, by strategy."""
        command = [sys.executable, "-m", "flows.cli", "status", "--json"]
        told = subprocess.check_output(command, env=self.environment, timeout=BOUND)
        return {row["strategy"]: row for row in json.loads(told)["collections"]}

    @contextmanager
    def process(self, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """A process that is told to end at the end, and killed with all its children if it does not."""
        with (self.folder / "process.log").open("ab") as log:
            started = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                env=self.environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            yield started
        finally:
            stop(started)

    def serve(self, *options: str) -> Any:
        named = [word for name in SERVED for word in ("--strategy", name)]
        return self.process("flows.cli", "serve", str(self.source), *named, *options)

    def said(self) -> str:
        """What processes have printed."""
        return (self.folder / "process.log").read_text("utf-8", "replace")

    @contextmanager
    def held(self, at: int) -> Iterator[Gate]:
        """The answer to the model's `at`-th next request is held back until the block sets `opened`, or ends."""
        gate = Gate(at)
        self.model.always = gate  # type: ignore[assignment]
        try:
            yield gate
        finally:
            gate.opened.set()
            self.model.always = None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment of clients of a Prefect server of this module's."""
    home = tmp_path_factory.mktemp("server")
    with private_server(home) as url:
        foreign = ("QUARRY_", "OPENAI_", "QDRANT_", "PREFECT_")
        own = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
        client = {**prefect_environment(url, home=home), "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "INFO"}
        # Ask more often than every ten seconds what there is to do.
        often = {"PREFECT_WORKER_QUERY_SECONDS": "1", "PREFECT_RUNNER_POLL_FREQUENCY": "1"}
        yield {**own, **client, **often, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def place(server: dict[str, str], tmp_path: Path) -> Iterator[Place]:
    folder = tmp_path / "docs"
    for name, text in TEXTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    with OpenAIServer() as model:
        own = {
            "QUARRY_HOME": str(tmp_path / "home"),
            "OPENAI_BASE_URL": model.url,
            "OPENAI_API_KEY": model.key or "",
            "QUARRY_EMBEDDING_MODEL": "small",
            "QUARRY_LLM_MODEL": "outline",
        }
        yield Place({**server, **own}, model, tmp_path)


def more(place: Place) -> None:
    """So many documents that a run has work left when it is stopped."""
    for number in range(DOCUMENTS):
        (place.source / f"{number:03}.md").write_text(
            f"# Number {number}\n\nThe pump of number {number} starts at dawn.\n"
        )


@pytest.fixture(scope="module")
def deployed(server: dict[str, str]) -> None:
    """What is to be done once, as the file's first lines say."""
    prefect(server, "work-pool", "create", "quarry", "--type", "process")
    prefect(server, "deploy", "--prefect-file", "deploy/prefect.yaml", "--all")


def worker(place: Place) -> Any:
    return place.process("prefect", "worker", "start", "--pool", "quarry")


def test_deploying_twice_leaves_one_schedule(place: Place, deployed: None) -> None:
    prefect(place.environment, "deploy", "--prefect-file", "deploy/prefect.yaml", "--all")
    nightly, on_demand = place.deployment("ingest/corpus"), place.deployment("backfill/corpus")
    assert [(one.schedule.cron, one.schedule.timezone, one.active, one.slug) for one in nightly.schedules] == [
        ("0 4 * * *", "UTC", True, "nightly")
    ]
    assert on_demand.schedules == []
    assert (nightly.entrypoint, on_demand.entrypoint) == ("flows.ingest.ingest", "flows.backfill.backfill")
    assert nightly.pull_steps in ([], None)


def test_a_worker_runs_what_is_asked_for(place: Place, deployed: None) -> None:
    from prefect.exceptions import PrefectHTTPStatusError

    with worker(place):
        good = place.trigger(
            "backfill/corpus", source=str(place.source), strategies=["recursive"], documents=["notes/*", "log.txt"]
        )
        wrong = place.trigger("ingest/corpus", source="/nowhere")
        with pytest.raises(PrefectHTTPStatusError, match=r"'recursiv' is not one of \['fixed_size', 'recursive'"):
            place.trigger("backfill/corpus", strategies=["recursiv"])
        run = place.ended(good)
        assert (run.state.type.value, run.state.message) == ("COMPLETED", "1 strategy, 2 documents")
        assert run.name == "backfill docs: 2 globs, recursive"
        assert {"corpus:docs", "backfill", "chunk-quarry"} <= set(run.tags)
        run = place.ended(wrong)
        assert run.state.type.value == "FAILED"
        assert run.state.message.startswith("source '/nowhere' does not exist")
        assert "Traceback" not in place.log(wrong)
    assert place.status()["recursive"]["documents"] == 2


def test_a_run_that_is_cancelled_ends_after_the_documents_in_hand_and_the_next_goes_on(
    place: Place, deployed: None
) -> None:
    from prefect.states import Cancelling

    more(place)
    with worker(place):
        with place.held(at=4) as gate:
            id_ = place.trigger("ingest/corpus", source=str(place.source), strategies=["recursive"])
            assert gate.reached.wait(BOUND)
            with place.client() as client:
                client.set_flow_run_state(id_, Cancelling())
            until(lambda: STOPPING in place.said())
            gate.opened.set()
            run = place.ended(id_)
        assert run.state.type.value == "CANCELLED"
        stored = place.status()["recursive"]["documents"]
        assert 0 < stored < DOCUMENTS
        run = place.ended(place.trigger("ingest/corpus", source=str(place.source), strategies=["recursive"]))
        assert (run.state.type.value, run.state.message) == ("COMPLETED", f"1 strategy, {DOCUMENTS + 3} documents")


def test_a_run_that_a_stopped_worker_leaves_is_noticed_and_the_next_goes_on(
    place: Place, deployed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows import left_runs

    more(place)
    with place.held(at=4) as gate, worker(place) as stopped:
        id_ = place.trigger("ingest/corpus", source=str(place.source), strategies=["recursive"])
        assert gate.reached.wait(BOUND)
        stop(stopped)
    left = place.run(id_)
    with worker(place):
        # The run's deployment may be said to be busy for some minutes; the other one is not.
        again = place.trigger("backfill/corpus", source=str(place.source), strategies=["recursive"])
        run = place.ended(again)
    assert (run.state.type.value, run.state.message) == ("COMPLETED", f"1 strategy, {DOCUMENTS + 3} documents")
    if left.state.is_final():
        return  # this version of Prefect clears up
    monkeypatch.setattr(left_runs, "SETTLED", timedelta(0))
    monkeypatch.setenv("PREFECT_API_URL", place.environment["PREFECT_API_URL"])
    with private_settings(place):
        (found,) = left_runs.find_left_runs(again, "docs", ["recursive"])
    assert found.id == id_
    command = found.told().split("`")[1].split()
    prefect(place.environment, *command[1:])
    with private_settings(place):
        assert left_runs.find_left_runs(again, "docs", ["recursive"]) == []


@contextmanager
def private_settings(place: Place) -> Iterator[None]:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: place.environment["PREFECT_API_URL"]}):
        yield


def test_serve_fires_the_schedule_and_runs_backfills_one_at_a_time(place: Place) -> None:
    # What is set for the service holds for its runs, too.
    model = place.environment.pop("OPENAI_BASE_URL")
    with place.serve("--set", "schedule=* * * * *", "--set", f"openai_base_url={model}"):
        until(lambda: "serving backfill/docs" in place.said())
        first = place.trigger("backfill/docs", documents=["guide.md"])
        second = place.trigger("backfill/docs", dry_run=True, strategies=["sentence"])
        runs = [place.ended(first), place.ended(second)]
        assert [run.state.type.value for run in runs] == ["COMPLETED", "COMPLETED"]
        assert runs[1].start_time >= runs[0].end_time
        assert runs[0].state.message == "2 strategies, 1 documents"

        def fired() -> Any:
            return [run for run in place.runs("ingest/docs") if run.auto_scheduled and run.state.is_final()]

        scheduled = until(fired, MINUTE_BOUND)[-1]
        assert (scheduled.state.type.value, scheduled.state.message) == ("COMPLETED", "2 strategies, 3 documents")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_that_is_stopped_cancels_the_run_in_hand_and_leaves_no_process(
    place: Place, number: signal.Signals
) -> None:
    more(place)
    with place.serve() as serving:
        until(lambda: "serving backfill/docs" in place.said())
        with place.held(at=4) as gate:
            id_ = place.trigger("backfill/docs", strategies=["recursive"])
            assert gate.reached.wait(BOUND)
            # As at a terminal, where Ctrl-C reaches the run's own process, too.
            os.killpg(serving.pid, number)
            until(lambda: STOPPING in place.said())
            gate.opened.set()
            assert serving.wait(STOP_BOUND) == 0
    with pytest.raises(ProcessLookupError):
        os.killpg(serving.pid, 0)
    assert place.run(id_).state.type.value == "CANCELLED"
    assert place.deployment("ingest/docs").paused
    assert "Traceback" not in place.said()
    with place.serve():
        run = place.ended(place.trigger("backfill/docs", strategies=["recursive"]))
        assert (run.state.type.value, run.state.message) == ("COMPLETED", f"1 strategy, {DOCUMENTS + 3} documents")


def test_serve_ends_when_its_own_server_does(place: Place) -> None:
    del place.environment["PREFECT_API_URL"]
    with place.serve() as serving:
        until(lambda: "serving backfill/docs" in place.said())
        (server,) = subprocess.check_output(["ps", "-o", "pid=", "--ppid", str(serving.pid)], text=True).split()
        os.kill(int(server), signal.SIGKILL)
        assert serving.wait(STOP_BOUND) == 1
    assert "quarry: the private Prefect server ended with status -9" in place.said()


def test_serve_that_starts_again_takes_the_present_schedule(place: Place) -> None:
    with place.serve("--set", "schedule=0 5 * * *"):
        until(lambda: "serving backfill/docs" in place.said())
        until(lambda: not place.deployment("ingest/docs").paused)
    with place.serve("--set", "schedule=30 6 * * 1", "--set", "time_zone=Europe/Berlin"):
        until(lambda: place.said().count("serving backfill/docs") == 2)
        until(lambda: not place.deployment("ingest/docs").paused)
        (schedule,) = place.deployment("ingest/docs").schedules
        assert (schedule.schedule.cron, schedule.schedule.timezone, schedule.active) == (
            "30 6 * * 1",
            "Europe/Berlin",
            True,
        )
