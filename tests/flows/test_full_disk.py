"""Runs on a disk that is full, or fills up half way: a small file system in memory, where one can be mounted."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flows.conftest import ingest, quarry
from tests.flows.kill_corpora import sentence, write
from tests.flows.stored import chunks_by_source, differences, read
from tests.flows.test_faults import SMALL


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """A small file system in memory; called with a size, it is made, or given that size."""
    folder = tmp_path / "disk"

    def make(size: str) -> Path:
        mounted = folder.is_mount()
        folder.mkdir(exist_ok=True)
        options = f"remount,size={size}" if mounted else f"size={size}"
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            pytest.skip(f"no file system can be mounted: {error}")
        if done.returncode:
            pytest.skip(f"no file system can be mounted: {done.stderr.strip()}")
        return folder

    yield make
    if folder.is_mount():
        subprocess.run(["umount", "-l", str(folder)], check=True)


def run_on(source: Path) -> Any:
    options = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    return quarry("ingest", source, "--plain", "--strategy", "recursive", "--allow-deletes", 99, *options)


def fill(disk: Path, left: int) -> Path:
    """Fills a disk up to some bytes; the file that does it."""
    free = os.statvfs(disk)
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(max(0, free.f_bavail * free.f_frsize - left)))
    return ballast


@pytest.mark.parametrize("left", [0, 8_192, 40_960, 98_304, 147_456, 200_704])
def test_a_first_run_on_a_full_disk_says_so_and_ends_well_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: Callable[[str], Path], left: int
) -> None:
    rng = random.Random(3)
    source = tmp_path / "docs"
    write(
        {f"{number}.md": f"# {number}\n\n{' '.join(sentence(rng) for _ in range(30))}" for number in range(9)}, source
    )
    monkeypatch.setenv("QUARRY_HOME", str(tmp_path / "clean"))
    assert run_on(source).exit_code == 0
    home = disk("16m") / "home"
    ballast = fill(home.parent, left)
    monkeypatch.setenv("QUARRY_HOME", str(home))
    result = run_on(source)
    assert result.exit_code == 1, result.output
    assert "full" in result.output or "No space left" in result.output, result.output
    ballast.unlink()
    result = run_on(source)
    assert result.exit_code == 0, result.output
    assert differences(read_from(tmp_path, home), read(tmp_path / "clean")) == []


def test_an_update_that_fills_the_disk_keeps_the_old_text_and_goes_on_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: Callable[[str], Path]
) -> None:
    rng = random.Random(4)
    source = tmp_path / "docs"
    old = {f"{number}.md": f"# {number}\n\nThe old text of number {number}." for number in range(40)}
    new = {uri: f"{text}\n\n{' '.join(sentence(rng) for _ in range(30))}" for uri, text in old.items()}
    monkeypatch.setenv("QUARRY_HOME", str(tmp_path / "clean"))
    write(new, source)
    assert run_on(source).exit_code == 0
    home = disk("16m") / "home"
    monkeypatch.setenv("QUARRY_HOME", str(home))
    write(old, source)
    assert run_on(source).exit_code == 0
    before = read_from(tmp_path, home).live("recursive")
    write(new, source)
    ballast = fill(home.parent, 600_000)
    result = run_on(source)
    assert result.exit_code == 1, result.output
    assert "full" in result.output or "No space left" in result.output, result.output
    during = read_from(tmp_path, home)
    clean = read(tmp_path / "clean")
    points, after = during.live("recursive"), clean.live("recursive")
    assert before is not None
    assert points is not None
    assert after is not None
    assert not any(during.findings.values()), during.findings
    ways = chunks_by_source(before), chunks_by_source(after)
    for uri in old:
        assert any(way[uri] <= points.keys() for way in ways), uri
    # It did fill up half way.
    assert not after.keys() <= points.keys()
    ballast.unlink()
    result = run_on(source)
    assert result.exit_code == 0, result.output
    assert differences(read_from(tmp_path, home), clean) == []


def read_from(tmp_path: Path, home: Path) -> Any:
    """The store of a home on a disk that may be full, read from a copy elsewhere."""
    copy = tmp_path / "copied"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(home, copy)
    return read(copy)


def test_a_full_temporary_folder_stops_the_run_and_counts_against_no_document(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disk: Callable[[str], Path]
) -> None:
    temporary = disk("1m")
    # Prose long enough that its language is asked for.
    (source / "long.md").write_text("The ferry leaves the harbour before dawn, and nobody asks who is on board. " * 9)
    command = [sys.executable, "-m", "flows.cli", "ingest", str(source), "--plain", "--strategy", "recursive"]
    ballast = fill(temporary, 65_536)
    environment = {**os.environ, "TMPDIR": str(temporary)}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert run.returncode == 1, run.stdout + run.stderr
    assert "TMPDIR" in run.stdout + run.stderr
    ballast.unlink()
    monkeypatch.undo()
    monkeypatch.setenv("QUARRY_HOME", str(tmp_path / "home"))
    report = ingest(source, "recursive")
    assert (report.exit_status, report.strategies["recursive"].unchanged) == (0, 0)
    with_rows = read(tmp_path / "home").live("recursive")
    assert with_rows is not None
    assert {payload["attempts"] for payload, _ in with_rows.values() if payload["kind"] == "document"} == {0}
