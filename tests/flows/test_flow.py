"""The Prefect flow on Prefect's own test server: states, artifacts, small traces. The work itself is tested without Prefect."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from chunkers import STRATEGIES
from stores import connect
from stores.inventory import alias_targets
from tests.flows.conftest import flow_run, recorded
from tests.flows.conftest import ingest as plain_ingest

pytestmark = pytest.mark.flow


def test_a_good_run_is_completed_and_fills_every_collection(source: Path, prefect_server: None) -> None:
    state = flow_run(source)
    assert state.is_completed()
    assert state.message == "6 strategies, 3 documents"
    with connect() as client:
        assert set(alias_targets(client)) == {f"docs__{name}" for name in STRATEGIES}
    again = plain_ingest(source)
    assert all(own.unchanged == 3 for own in again.strategies.values())


def test_a_failing_strategy_fails_the_run_by_name_while_the_others_stand(
    source: Path, prefect_server: None, semantic_fails: None
) -> None:
    state = flow_run(source)
    assert state.is_failed()
    assert (
        state.message == "1 of 6 strategies failed: semantic (the disk is full); documents not attempted: 3 in semantic"
    )
    with connect() as client:
        assert set(alias_targets(client)) == {f"docs__{name}" for name in STRATEGIES if name != "semantic"}


def test_what_passes_through_prefect_is_small(source: Path, prefect_server: None) -> None:
    (source / "large.md").write_text("A sentence of a large document. " * 20_000)
    run, tasks, _ = recorded(flow_run(source, strategies=["recursive", "fixed_size"]))
    assert len(json.dumps(run.parameters)) < 1000
    assert sorted(task.name for task in tasks) == ["fixed_size-1", "load-1", "recursive-1"]


def test_the_number_of_task_runs_does_not_grow_with_the_documents(
    source: Path, prefect_server: None, small_batches: None
) -> None:
    for number in range(60):
        (source / f"many-{number:02}.md").write_text(f"Document number {number}.")
    _, tasks, _ = recorded(flow_run(source))
    assert len(tasks) == 2 * (1 + len(STRATEGIES))
    assert all(task.state.is_completed() for task in tasks)


def test_a_wrong_source_is_a_failed_run_with_a_clear_message(tmp_path: Path, prefect_server: None) -> None:
    state = flow_run(tmp_path / "nowhere")
    assert state.is_failed()
    assert "does not exist" in state.message


def test_a_withheld_deletion_is_seen_in_the_state(source: Path, prefect_server: None) -> None:
    flow_run(source, strategies=["recursive"])
    for file in source.rglob("*.*"):
        file.unlink()
    state = flow_run(source, strategies=["recursive"])
    assert state.is_failed()
    assert state.message.startswith("3 deletions withheld")


def test_tasks_hash_nothing_and_keep_no_results() -> None:
    from prefect.cache_policies import NO_CACHE

    from flows.tasks import load_batch, write_batch

    for task in (load_batch, write_batch):
        assert task.cache_policy is NO_CACHE
        assert task.persist_result is False


def test_every_parameter_is_described_for_the_form() -> None:
    from flows.ingest import ingest

    properties = ingest.parameters.properties
    assert all(len(field["description"]) > 20 for field in properties.values())
    assert properties["strategies"]["anyOf"][0]["items"]["enum"] == list(STRATEGIES)


def test_an_interrupted_run_lets_the_strategies_end_the_documents_in_hand(
    source: Path, prefect_server: None, small_batches: None
) -> None:
    import signal
    import threading

    from flows.observer import Observer, observed

    class InterruptsOnce(Observer):
        fired = threading.Event()

        def advanced(self, strategy: str, documents: int) -> None:
            if not self.fired.is_set():
                self.fired.set()
                signal.raise_signal(signal.SIGINT)

    for number in range(77):
        (source / f"many-{number:02}.md").write_text(f"Document number {number}.")
    with observed(InterruptsOnce()):
        state = flow_run(source, strategies=["recursive", "sentence"])
    assert state.is_cancelled()
    assert "stopped before the end" in state.message
    again = plain_ingest(source, "recursive", "sentence")
    assert again.exit_status == 0
    assert all(0 < own.unchanged < 80 for own in again.strategies.values())


def test_tasks_find_their_run_from_a_second_copy_of_the_flow_s_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect loads a flow from a file under a name of its own and sends it by value: globals of that module are copies then."""
    from importlib.util import module_from_spec, spec_from_file_location

    import cloudpickle

    from flows import running
    from flows import tasks as original

    spec = spec_from_file_location("elsewhere", original.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    load = cloudpickle.loads(cloudpickle.dumps(module.load_batch.fn))

    class Ingestion:
        def load(self, batch: list[str]) -> list[str]:
            return batch

    class Runner:
        ingestion = Ingestion()
        batches = {1: ["a", "b"]}  # noqa: RUF012
        documents: dict[int, list[str]] = {}  # noqa: RUF012

    monkeypatch.setitem(running.under_way, "run", Runner())
    assert load("run", 1) == 2


def test_no_task_submits_a_task_and_waits_for_it() -> None:
    # In a full pool both would wait for ever.
    from flows import tasks

    tree = ast.parse(Path(tasks.__file__).read_text(encoding="utf-8"))
    found = {
        node.name: [ast.unparse(call.func) for call in ast.walk(node) if isinstance(call, ast.Call)]
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any("task" in ast.unparse(one) for one in node.decorator_list)
    }
    assert found.keys() == {"load_batch", "write_batch", "write_part"}
    assert not [call for calls in found.values() for call in calls if call.endswith((".submit", ".map", ".delay"))]
