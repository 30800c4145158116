"""Runs that are killed outright, with SIGKILL, at random points, and what the next run makes of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.flows import kill_rounds
from tests.flows.kill_rounds import Rebuild
from tests.flows.kill_scenario import Scenario, same
from tests.flows.kill_server import Kill, Server
from tests.flows.stored import read

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a killed run is a forked process")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server") / "log") as started:
        yield started


def rounds(one: Callable[[int], int], numbers: range) -> None:
    """Does rounds, of which many must really have killed a run: one by the clock may come too late on a busy machine."""
    killed = sum(one(number) > 0 for number in numbers)
    assert killed >= len(numbers) / 3


@pytest.fixture(scope="module")
def made(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Rebuild:
    """A scenario that everyday tests share, rebuilt."""
    return Rebuild(Scenario(server, tmp_path_factory.mktemp("shared"), 23))


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_update_loses_nothing_and_the_next_run_ends_as_a_clean_one(
    server: Server, tmp_path: Path, seed: int
) -> None:
    scenario = Scenario(server, tmp_path, seed)
    rounds(lambda number: kill_rounds.update(scenario, number), range(4))


@pytest.mark.parametrize("operation", ["upsert", "delete"])
def test_an_update_killed_after_any_request_loses_nothing(made: Rebuild, operation: str) -> None:
    assert kill_rounds.sweep(made.scenario, operation) > 3


def test_a_killed_first_run_is_gone_on_with(made: Rebuild) -> None:
    rounds(lambda number: kill_rounds.first_run(made.scenario, number), range(6))


def test_a_store_that_was_killed_while_its_list_of_collections_was_made_is_begun_anew(made: Rebuild) -> None:
    scenario = made.scenario
    for begun in ("", '{"collections": {'):
        home = scenario.folder / f"half-{len(begun)}"
        (home / "qdrant").mkdir(parents=True)
        (home / "qdrant" / "meta.json").write_text(begun)
        scenario.run(home, scenario.versions[1])
        same(read(home), scenario.clean[1], begun)
    home = scenario.folder / "killed"
    for applied in (False, True):
        kill = Kill(operation="file replaced", number=1, applied=applied)
        assert scenario.server.run(scenario.job(home, scenario.versions[1], kill=kill)).killed
    scenario.run(home, scenario.versions[1])
    same(read(home), scenario.clean[1], "killed")


def test_a_killed_rebuild_shows_readers_all_of_the_old_or_all_of_the_new(made: Rebuild) -> None:
    rounds(lambda number: kill_rounds.rebuild(made, number), range(5))


def test_a_killed_drop_or_rollback_leaves_whole_collections(made: Rebuild) -> None:
    rounds(lambda number: kill_rounds.drop(made, number), range(2))
    rounds(lambda number: kill_rounds.rollback(made, number), range(2))


def test_what_a_killed_repair_leaves_is_put_right_by_the_next(made: Rebuild) -> None:
    rounds(lambda number: kill_rounds.repair(made.scenario, number), range(3))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 105))
def test_updates_killed_by_the_hundred(server: Server, tmp_path: Path, seed: int) -> None:
    scenario = Scenario(server, tmp_path, seed)
    rounds(lambda number: kill_rounds.update(scenario, number), range(20))


@pytest.mark.slow
@pytest.mark.parametrize("operation", ["upsert", "delete", "point deleted", "metadata", "chunk"])
def test_an_update_killed_after_any_operation_loses_nothing(server: Server, tmp_path: Path, operation: str) -> None:
    assert kill_rounds.sweep(Scenario(server, tmp_path, 151), operation) > 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 202))
def test_first_runs_killed_by_the_dozen(server: Server, tmp_path: Path, seed: int) -> None:
    scenario = Scenario(server, tmp_path, seed)
    rounds(lambda number: kill_rounds.first_run(scenario, number), range(16))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300, 303))
def test_rebuilds_drops_and_rollbacks_killed_by_the_dozen(server: Server, tmp_path: Path, seed: int) -> None:
    rebuilt = Rebuild(Scenario(server, tmp_path, seed))
    rounds(lambda number: kill_rounds.rebuild(rebuilt, number), range(12))
    rounds(lambda number: kill_rounds.drop(rebuilt, number), range(4))
    rounds(lambda number: kill_rounds.rollback(rebuilt, number), range(4))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(500, 502))
def test_repairs_killed_by_the_dozen(server: Server, tmp_path: Path, seed: int) -> None:
    scenario = Scenario(server, tmp_path, seed)
    rounds(lambda number: kill_rounds.repair(scenario, number), range(12))
