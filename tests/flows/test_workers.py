"""What cannot work is refused before any work, with the reason and what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flows import workers
from flows.settings import Settings, SettingsError
from flows.workers import check
from tests.flows.conftest import quarry


@pytest.fixture(params=["processes", "dask"])
def runner(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("QUARRY_TASK_RUNNER", request.param)
    return str(request.param)


def test_an_embedded_store_and_several_processes_are_refused(source: Path, runner: str) -> None:
    result = quarry("ingest", source)
    assert result.exit_code == 2
    told = " ".join(result.stderr.split())
    assert f"QUARRY_TASK_RUNNER: '{runner}' cannot be used with an embedded store" in told
    assert "can be open in one process only" in told
    assert "set QDRANT_URL, or use threads" in told
    assert not Path(os.environ["QUARRY_HOME"], "qdrant").exists()


def test_several_processes_without_prefect_are_refused(source: Path, runner: str) -> None:
    result = quarry("ingest", source, "--plain")
    assert result.exit_code == 2
    assert f"'{runner}' needs Prefect, and --plain does without" in " ".join(result.stderr.split())


def test_a_dry_run_of_an_embedded_store_is_done_by_threads(source: Path, runner: str) -> None:
    assert quarry("ingest", source, "--plain", "--dry-run").exit_code == 0


def test_dask_that_is_not_installed_is_refused_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("QDRANT_URL", "http://127.0.0.1:6333")
    monkeypatch.setattr(workers, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match=r"pip install 'chunk-quarry\[dask\]'"):
        check(Settings.load({"task_runner": "dask"}))
    check(Settings.load({"task_runner": "processes"}))
