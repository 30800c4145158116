"""`quarry cache`: what it shows, what it takes away and what it leaves, with and without a run at work on the file."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from chunkers.models import ModelCache, cache_bound, cache_care
from flows import cache_command
from flows.cli import app
from flows.settings import Settings
from tests.flows.conftest import ingest, quarry, told

DAY = 86_400
MB = 1024**2


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "cache.sqlite"


@pytest.fixture
def filled(path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two models' vectors and one's contexts, those of `old` last used ten days ago."""
    now = time.time()
    with ModelCache(path) as cache:
        with monkeypatch.context() as patch:
            patch.setattr(cache_bound.time, "time", lambda: now - 10 * DAY)
            cache.put_vectors(vectors("old", 300), model="old")
        cache.put_vectors(vectors("new", 200), model="new")
        cache.put_contexts({b"%d" % number: "Größe " * 10 for number in range(100)}, model="writer")
    return path


def vectors(name: str, number: int) -> dict[bytes, np.ndarray]:
    return {f"{name} {row}".encode(): np.full(1536, row, np.float32) for row in range(number)}


def rows(path: Path) -> dict[str, int]:
    """Answers in the file, by model."""
    with closing(sqlite3.connect(path)) as file:
        found = "SELECT model FROM vectors UNION ALL SELECT model FROM contexts"
        return dict(file.execute(f"SELECT model, count(*) FROM ({found}) GROUP BY model").fetchall())


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


# Show


def test_show_tells_what_is_held_by_kind_and_model(filled: Path) -> None:
    shown = told("cache", "show")
    held = {(own["kind"], own["model"]): (own["number"], own["bytes"]) for own in shown["held"]}
    assert held == {
        ("vectors", "old"): (300, 300 * 6144),
        ("vectors", "new"): (200, 200 * 6144),
        ("contexts", "writer"): (100, 100 * len(("Größe " * 10).encode())),
    }
    assert shown["path"] == str(filled)
    assert shown["bytes"] == filled.stat().st_size >= shown["bytes_in_use"] > 500 * 6144
    assert shown["max_bytes"] == 4096 * MB


def test_show_tells_the_oldest_and_the_newest_use(filled: Path) -> None:
    uses = {own["model"]: (own["oldest"], own["newest"]) for own in told("cache")["held"]}
    assert uses["old"][0] <= uses["old"][1] < uses["new"][0] <= uses["writer"][1]
    ago = datetime.now(UTC) - datetime.fromisoformat(uses["old"][0])
    assert ago.days == 10


def test_show_is_what_the_command_does_alone(filled: Path) -> None:
    assert quarry("cache").stdout == quarry("cache", "show").stdout
    assert told("cache") == told("cache", "show") == json.loads(quarry("cache", "--json", "show").stdout)


def test_show_is_a_table_for_people(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARRY_CACHE_MAX_MB", "10")
    shown = quarry("cache").stdout
    assert f"{filled}: " in shown
    assert "at most 10 MB" in shown
    (row,) = [line.split() for line in shown.splitlines() if line.startswith("vectors") and " old " in line]
    assert row[:4] == ["vectors", "old", "300", "1.8"]


def test_show_changes_nothing(filled: Path) -> None:
    before = contents(filled.parent)
    quarry("cache")
    assert contents(filled.parent) == before


def test_show_reads_a_file_of_before_and_leaves_it_so(path: Path) -> None:
    path.parent.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        for table in ("vectors", "contexts"):
            file.execute(f"CREATE TABLE {table} (key BLOB PRIMARY KEY, value NOT NULL)")
        file.execute("INSERT INTO vectors VALUES (x'00', x'00000000')")
        file.execute(f"PRAGMA application_id={0x51525943}")
        file.execute("PRAGMA user_version=1")
    before = contents(path.parent)
    (held,) = told("cache")["held"]
    assert held == {"kind": "vectors", "model": "", "number": 1, "bytes": 4, "oldest": None, "newest": None}
    assert "not known" in quarry("cache").stdout
    assert contents(path.parent) == before


@pytest.mark.parametrize("arguments", [[], ["show"], ["prune", "--max-mb", "1"], ["clear"], ["clear", "--yes"]])
def test_no_cache_yet_is_said_and_none_is_made(path: Path, arguments: list[str]) -> None:
    result = quarry("cache", *arguments)
    assert result.exit_code == 0
    assert result.stdout.startswith(f"No cache yet at {path}")
    assert told("cache", *arguments)["exists"] is False
    assert not path.parent.exists()


def test_files_that_were_set_aside_are_named_and_left(filled: Path) -> None:
    aside = filled.with_name("cache.sqlite.set-aside-1")
    aside.write_bytes(b"damaged")
    for arguments in ([], ["prune", "--model", "old"], ["clear", "--yes"]):
        assert f"{aside} (0.0 MB)" in quarry("cache", *arguments).stdout
        assert told("cache", *arguments)["set_aside"] == [{"path": str(aside), "bytes": 7}]
    assert aside.read_bytes() == b"damaged"


# Prune


def test_prune_wants_to_know_what(filled: Path) -> None:
    result = quarry("cache", "prune")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--max-mb N, --older-than DAYS or --model NAME" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["--older-than", "5"], {"new": 200, "writer": 100}),
        (["--older-than", "20"], {"old": 300, "new": 200, "writer": 100}),
        (["--older-than", "0"], {}),
        (["--model", "new"], {"old": 300, "writer": 100}),
        (["--model", "writer"], {"old": 300, "new": 200}),
        (["--model", "other"], {"old": 300, "new": 200, "writer": 100}),
        (["--model", "new", "--older-than", "5"], {"old": 300, "new": 200, "writer": 100}),
        (["--model", "old", "--older-than", "5"], {"new": 200, "writer": 100}),
    ],
)
def test_prune_removes_what_all_options_match(filled: Path, options: list[str], left: dict[str, int]) -> None:
    removed = told("cache", "prune", *options)
    assert rows(filled) == left
    assert removed["vectors"] + removed["contexts"] == 600 - sum(left.values())


def test_prune_to_a_size_removes_the_least_recently_used(filled: Path) -> None:
    removed = told("cache", "prune", "--max-mb", "2")
    assert filled.stat().st_size <= 2 * MB
    left = rows(filled)
    assert (left["new"], left["writer"]) == (200, 100)
    assert 0 < left["old"] == 300 - removed["vectors"]


def test_prune_by_age_comes_before_prune_to_a_size(filled: Path) -> None:
    told("cache", "prune", "--max-mb", "2", "--model", "new")
    left = rows(filled)
    assert left.keys() == {"old", "writer"}
    # A vector of 6 KB takes two pages of 4 KB.
    assert left["old"] > 200


def test_prune_gives_space_back(filled: Path) -> None:
    before = filled.stat().st_size
    removed = told("cache", "prune", "--model", "old")
    assert removed["bytes_before"] == before
    assert removed["bytes"] == filled.stat().st_size < before / 2
    assert removed["note"] is None
    assert [file.name for file in filled.parent.iterdir()] == [filled.name]


def test_prune_says_what_it_removed(filled: Path) -> None:
    result = quarry("cache", "prune", "--model", "writer")
    assert result.stdout.startswith(f"Removed 0 vectors and 100 contexts. {filled}: ")


# Clear


def test_clear_without_a_terminal_needs_yes_and_says_what_would_be_lost(filled: Path) -> None:
    result = quarry("cache", "clear")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "500 vectors and 100 contexts would have to be paid for again; say --yes" in result.stderr
    assert sum(rows(filled).values()) == 600


def test_clear_removes_all_rows_and_gives_space_back(filled: Path) -> None:
    removed = told("cache", "clear", "--yes")
    assert (removed["vectors"], removed["contexts"]) == (500, 100)
    assert rows(filled) == {}
    assert filled.stat().st_size < 100_000
    assert told("cache", "clear")["vectors"] == 0


@pytest.mark.parametrize(("answer", "status", "left"), [("y\n", 0, 0), ("n\n", 1, 600), ("\n", 1, 600), ("", 130, 600)])
def test_clear_asks_at_a_terminal(
    filled: Path, monkeypatch: pytest.MonkeyPatch, answer: str, status: int, left: int
) -> None:
    monkeypatch.setattr(cache_command, "_is_asked_at_a_terminal", lambda: True)
    result = CliRunner().invoke(app, ["cache", "clear"], input=answer)
    assert result.exit_code == status
    assert "500 vectors and 100 contexts would have to be paid for again. [y/N]" in result.stderr
    assert "y/N" not in result.stdout
    assert sum(rows(filled).values()) == left


# Files that are no cache


def spoil(path: Path, how: str) -> None:
    if how == "damaged":
        raw = bytearray(path.read_bytes())
        raw[4096:] = b"\xa5" * (len(raw) - 4096)
        path.write_bytes(raw)
    elif how == "no database":
        path.write_bytes(b"nothing of ours" * 1000)
    else:
        with closing(sqlite3.connect(path)) as file:
            file.execute(f"PRAGMA {how}")


@pytest.mark.parametrize("how", ["damaged", "no database", "application_id=7", "user_version=99"])
@pytest.mark.parametrize(
    "arguments", [[], ["prune", "--older-than", "5"], ["prune", "--max-mb", "1"], ["clear", "--yes"]]
)
def test_a_file_that_cannot_be_used_is_one_clear_line_and_stays(filled: Path, arguments: list[str], how: str) -> None:
    spoil(filled, how)
    before = filled.read_bytes()
    result = quarry("cache", *arguments)
    assert (result.exit_code, result.stdout) == (1, "")
    assert str(filled) in result.stderr
    assert "the next run sets it aside" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert filled.read_bytes() == before
    assert not list(filled.parent.glob("*set-aside-*"))


def test_an_error_is_json_too_when_json_is_asked_for(filled: Path) -> None:
    spoil(filled, "no database")
    assert str(filled) in told("cache", status=1)["error"]


# With a run at work

WRITING = """
import sys, numpy
from chunkers.models import ModelCache
with ModelCache(sys.argv[1]) as cache:
    number = 0
    while True:
        rows = {b"%d" % row: numpy.full(1536, row, numpy.float32) for row in range(number, number + 20)}
        cache.put_vectors(rows, model="running")
        assert len(cache.get_vectors(rows)) == 20
        print(number, flush=True)
        number += 20
"""


@pytest.fixture
def writing(filled: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that keeps vectors, on and on, and ends if one is lost."""
    with subprocess.Popen([sys.executable, "-c", WRITING, str(filled)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "0\n"
        yield other
        other.kill()


def test_the_cache_is_pruned_and_shown_while_another_process_writes(
    filled: Path, writing: subprocess.Popen[str]
) -> None:
    assert writing.stdout is not None
    assert told("cache", "prune", "--model", "old")["vectors"] == 300
    held = {own["model"]: own["number"] for own in told("cache")["held"]}
    assert held["new"] == 200
    assert held["running"] >= 20
    assert "old" not in held
    for _ in range(20):
        assert writing.stdout.readline()
    writing.kill()
    writing.wait()
    with closing(sqlite3.connect(filled)) as file:
        assert file.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_space_that_another_process_keeps_from_being_given_back_is_one_line(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_care, "_PATIENCE", 1)
    with closing(sqlite3.connect(filled, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM vectors").fetchone()
        result = quarry("cache", "prune", "--model", "old")
    assert result.exit_code == 0
    assert "Removed 300 vectors" in result.stdout
    (line,) = result.stderr.splitlines()
    assert "another process is at work on the file" in line
    assert rows(filled) == {"new": 200, "writer": 100}


def test_a_run_fills_a_cache_again_that_was_cleared(source: Path, path: Path) -> None:
    ingest(source)
    assert (first := told("cache")["held"])
    told("cache", "clear", "--yes")
    (source / "guide.md").write_text("# Guide\n\nThe pump starts at noon.\n", encoding="utf-8")
    ingest(source)
    assert {own["kind"] for own in told("cache")["held"]} == {own["kind"] for own in first}


def test_the_setting_bounds_the_cache_of_a_run(path: Path) -> None:
    from flows.places import open_cache

    with open_cache(Settings.load({"cache_max_mb": "1"})) as cache:
        cache.put_vectors(vectors("many", 1000))
    assert path.stat().st_size < 1.2 * MB


def test_the_store_s_client_is_not_loaded_for_the_cache() -> None:
    program = "import sys; from flows.cli import app; app(['cache'], standalone_mode=False); print('qdrant_client' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
