"""Whole runs with an endpoint that misbehaves, each held to its row of the matrix."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.flows.fault_matrix import ROWS, Row, play
from tests.flows.stored import Points, point_differences


@pytest.fixture(scope="module")
def faultless(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Points]:
    """What runs without a fault store, by strategy."""
    rows = {row.strategy: row for row in ROWS if row.name in ("none", "context: none")}
    return {name: play(row, tmp_path_factory.mktemp(name))[1] for name, row in rows.items()}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_run_with_a_fault_ends_as_the_matrix_says_and_the_next_one_puts_it_right(
    row: Row, faultless: dict[str, Points], tmp_path: Path
) -> None:
    outcome, stored = play(row, tmp_path)
    assert outcome == row.outcome
    differ = point_differences(stored, faultless[row.strategy])
    # A context by the outline is stored as such, with its vector, and is no fault to a later run.
    marked = [
        id_ for id_, (payload, _) in stored.items() if payload.get("metadata", {}).get("context_source") == "outline"
    ]
    assert (len(marked), len(differ)) == (outcome.fallbacks, 2 * outcome.fallbacks)
