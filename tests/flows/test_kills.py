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
    """Does rounds, most of which must really have killed a run."""
    killed = sum(one(number) > 0 for number in numbers)
    assert killed > len(numbers) / 2


def updates(server: Server, folder: Path, seed: int, number: int) -> None:
    scenario = Scenario(server, folder, seed)
    rounds(lambda one: kill_rounds.update(scenario, one), range(number))


def first_runs(server: Server, folder: Path, seed: int, number: int) -> None:
    scenario = Scenario(server, folder, seed)
    rounds(lambda one: kill_rounds.first_run(scenario, one), range(number))


def rebuilds(server: Server, folder: Path, seed: int, number: int) -> None:
    made = Rebuild(Scenario(server, folder, seed))
    rounds(lambda one: kill_rounds.rebuild(made, one), range(number))


def ways_back(server: Server, folder: Path, seed: int, number: int) -> None:
    made = Rebuild(Scenario(server, folder, seed))
    rounds(lambda one: kill_rounds.drop(made, one), range(number))
    rounds(lambda one: kill_rounds.rollback(made, one), range(number))


def repairs(server: Server, folder: Path, seed: int, number: int) -> None:
    scenario = Scenario(server, folder, seed)
    rounds(lambda one: kill_rounds.repair(scenario, one), range(number))


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_update_loses_nothing_and_the_next_run_ends_as_a_clean_one(
    server: Server, tmp_path: Path, seed: int
) -> None:
    updates(server, tmp_path, seed, 5)


def test_a_killed_first_run_is_gone_on_with(server: Server, tmp_path: Path) -> None:
    first_runs(server, tmp_path, 10, 6)


def test_a_store_that_was_killed_while_its_list_of_collections_was_made_is_begun_anew(
    server: Server, tmp_path: Path
) -> None:
    scenario = Scenario(server, tmp_path, 13)
    for begun in ("", '{"collections": {'):
        home = scenario.folder / f"half-{len(begun)}"
        (home / "qdrant").mkdir(parents=True)
        (home / "qdrant" / "meta.json").write_text(begun)
        scenario.run(home, scenario.versions[1])
        same(read(home), scenario.clean[1], begun)
    for applied in (False, True):
        home = scenario.folder / f"killed-{applied}"
        kill = Kill(operation="file replaced", number=1, applied=applied)
        assert server.run(scenario.job(home, scenario.versions[1], kill=kill)).killed
        scenario.run(home, scenario.versions[1])
        same(read(home), scenario.clean[1], kill)


def test_a_killed_rebuild_shows_readers_all_of_the_old_or_all_of_the_new(server: Server, tmp_path: Path) -> None:
    rebuilds(server, tmp_path, 21, 4)


def test_a_killed_drop_or_rollback_leaves_whole_collections(server: Server, tmp_path: Path) -> None:
    ways_back(server, tmp_path, 23, 2)


def test_a_killed_repair_is_repaired_by_the_next(server: Server, tmp_path: Path) -> None:
    repairs(server, tmp_path, 33, 3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 108))
def test_updates_killed_by_the_hundred(server: Server, tmp_path: Path, seed: int) -> None:
    updates(server, tmp_path, seed, 20)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200, 203))
def test_first_runs_killed_by_the_hundred(server: Server, tmp_path: Path, seed: int) -> None:
    first_runs(server, tmp_path, seed, 16)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300, 304))
def test_rebuilds_killed_by_the_hundred(server: Server, tmp_path: Path, seed: int) -> None:
    rebuilds(server, tmp_path, seed, 12)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(400, 402))
def test_drops_and_rollbacks_killed_by_the_dozen(server: Server, tmp_path: Path, seed: int) -> None:
    ways_back(server, tmp_path, seed, 8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(500, 502))
def test_repairs_killed_by_the_dozen(server: Server, tmp_path: Path, seed: int) -> None:
    repairs(server, tmp_path, seed, 12)
