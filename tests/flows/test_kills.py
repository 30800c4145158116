"""Runs that are killed outright, with SIGKILL, at random points, and what the next run makes of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.flows import kill_rounds
from tests.flows.kill_rounds import Rebuild, Scenario
from tests.flows.kill_server import Server

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="a killed run is a forked process")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("server") / "log") as started:
        yield started


def rounds(one: Callable[[int], int], numbers: range) -> None:
    """Does rounds, most of which must really have killed a run."""
    killed = sum(one(number) > 0 for number in numbers)
    assert killed > len(numbers) / 2


@pytest.mark.parametrize("seed", range(5))
def test_a_killed_update_loses_nothing_and_the_next_run_ends_as_a_clean_one(
    server: Server, tmp_path: Path, seed: int
) -> None:
    scenario = Scenario(server, tmp_path, seed)
    rounds(lambda number: kill_rounds.update(scenario, number), range(6))


def test_a_killed_first_run_is_gone_on_with(server: Server, tmp_path: Path) -> None:
    scenario = Scenario(server, tmp_path, 10)
    rounds(lambda number: kill_rounds.first_run(scenario, number), range(8))


def test_a_killed_rebuild_shows_readers_all_of_the_old_or_all_of_the_new(server: Server, tmp_path: Path) -> None:
    made = Rebuild(Scenario(server, tmp_path, 20))
    rounds(lambda number: kill_rounds.rebuild(made, number), range(8))
    rounds(lambda number: kill_rounds.drop(made, number), range(3))
    rounds(lambda number: kill_rounds.rollback(made, number), range(3))


def test_a_killed_repair_is_repaired_by_the_next(server: Server, tmp_path: Path) -> None:
    scenario = Scenario(server, tmp_path, 30)
    rounds(lambda number: kill_rounds.repair(scenario, number), range(5))
