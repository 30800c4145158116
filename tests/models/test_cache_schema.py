"""A cache file of before is brought up to date where it is, whoever comes at the same time, and wherever that is cut off."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from chunkers.models import cache_schema
from chunkers.models.cache import ModelCache

# Runs ModelCache(sys.argv[1]) and is killed at the statement that sys.argv[2] begins, or goes to its end.
OPENING = """
import os, signal, sqlite3, sys
from chunkers.models import cache_schema
from chunkers.models.cache import ModelCache

class Killed(sqlite3.Connection):
    def execute(self, statement, *values):
        if sys.argv[2] and statement.startswith(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().execute(statement, *values)

    def __exit__(self, *error):
        if sys.argv[2] == "commit":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__exit__(*error)

print("ready", flush=True)
cache_schema.sqlite3.connect = lambda *a, connect=sqlite3.connect, **k: connect(*a, factory=Killed, **k)
ModelCache(sys.argv[1]).close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache.sqlite"


@pytest.fixture
def old(path: Path) -> Path:
    """A file of schema 1 with 500 vectors of number and as many contexts."""
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA journal_mode=WAL")
        file.execute("BEGIN")
        for table in ("vectors", "contexts"):
            file.execute(f"CREATE TABLE {table} (key BLOB PRIMARY KEY, value NOT NULL)")
        file.execute(f"PRAGMA application_id={0x51525943}")
        file.execute("PRAGMA user_version=1")
        rows = [(key(number), np.full(1536, number, "<f4").tobytes()) for number in range(500)]
        file.executemany("INSERT INTO vectors VALUES (?, ?)", rows)
        file.executemany("INSERT INTO contexts VALUES (?, ?)", [(name, f"context {name!r}") for name, _ in rows])
        file.execute("COMMIT")
    return path


def key(number: int) -> bytes:
    return f"{number:032d}".encode()


def holds_all(path: Path, *, read_only: bool = False) -> bool:
    with ModelCache(path, read_only=read_only) as cache:
        vectors = cache.get_vectors(key(number) for number in range(500))
        contexts = cache.get_contexts(key(number) for number in range(500))
    sound = all((vectors[key(number)] == number).all() for number in range(500))
    return sound and contexts == {name: f"context {name!r}" for name in vectors}


def version(path: Path) -> int:
    with closing(sqlite3.connect(path)) as file:
        return int(file.execute("PRAGMA user_version").fetchone()[0])


def columns(path: Path, table: str) -> set[str]:
    with closing(sqlite3.connect(path)) as file:
        return {row[1] for row in file.execute(f"PRAGMA table_info({table})")}


def test_a_file_of_before_keeps_its_answers_and_gets_the_new_columns(old: Path) -> None:
    assert holds_all(old)
    assert version(old) == 2
    for table in ("vectors", "contexts"):
        assert columns(old, table) == {"key", "model", "used", "value"}
    assert not list(old.parent.glob("*set-aside-*"))


def test_rows_of_before_count_as_used_when_they_were_taken_over_in_the_order_they_came(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_schema.time, "time", lambda: 1234.5)
    ModelCache(old).close()
    with closing(sqlite3.connect(old)) as file:
        assert file.execute("SELECT DISTINCT used, model FROM vectors").fetchall() == [(1234.5, "")]
        rows = file.execute("SELECT key FROM vectors ORDER BY used, rowid").fetchall()
    assert rows == [(key(number),) for number in range(500)]


def test_rows_of_before_go_before_any_that_is_new(old: Path) -> None:
    with ModelCache(old, max_bytes=1024**2) as cache:
        cache.put_vectors({key(number): np.full(1536, 1, np.float32) for number in range(900, 910)}, model="new")
        assert len(cache.get_vectors(key(number) for number in range(900, 910))) == 10
        left = [number for number in range(500) if cache.get_vectors([key(number)])]
    assert 0 < len(left) < 200
    assert left == list(range(500 - len(left), 500))


def test_a_file_of_before_that_is_only_read_stays_as_it_is(old: Path) -> None:
    before = old.read_bytes()
    assert holds_all(old, read_only=True)
    assert old.read_bytes() == before
    assert [file.name for file in old.parent.iterdir()] == [old.name]


@pytest.mark.parametrize(
    "where",
    [
        "BEGIN",
        "ALTER TABLE vectors ADD COLUMN used",
        "CREATE INDEX vectors_used",
        "ALTER TABLE contexts",
        "CREATE INDEX contexts_used",
        "PRAGMA user_version",
        "commit",
    ],
)
def test_a_process_that_is_killed_while_it_brings_a_file_up_to_date_has_done_nothing(old: Path, where: str) -> None:
    done = subprocess.run([sys.executable, "-c", OPENING, str(old), where], timeout=60, check=False)
    assert done.returncode == -9
    assert version(old) == 1
    assert holds_all(old)
    assert version(old) == 2


def test_processes_that_bring_a_file_up_to_date_at_once_do_it_once(old: Path) -> None:
    command = [sys.executable, "-c", OPENING, str(old), ""]
    with closing(sqlite3.connect(old, isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        opening = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
        assert [one.stdout and one.stdout.readline() for one in opening] == ["ready\n"] * 4
        holder.execute("ROLLBACK")
    for one in opening:
        one.communicate(timeout=60)
    assert [one.returncode for one in opening] == [0] * 4
    assert holds_all(old)


def test_a_new_file_is_made_once_by_processes_that_come_at_once(path: Path) -> None:
    opening = [subprocess.Popen([sys.executable, "-c", OPENING, str(path), ""]) for _ in range(4)]
    assert [one.wait(60) for one in opening] == [0] * 4
    assert version(path) == 2
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_file_that_is_up_to_date_is_opened_while_another_process_writes(path: Path) -> None:
    ModelCache(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with ModelCache(path) as cache:
            assert cache.get_contexts([b"none"]) == {}


def make_newer(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA user_version=3")


def make_foreign(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as file:
        file.execute("PRAGMA application_id=7")


@pytest.mark.parametrize(
    ("spoil", "said"), [(make_newer, "its schema is 3, ours 2"), (make_foreign, "another program")]
)
def test_what_is_no_cache_of_ours_says_why(old: Path, spoil: Callable[[Path], None], said: str) -> None:
    spoil(old)
    for connect in (cache_schema.connect, cache_schema.connect_to_read):
        with pytest.raises(cache_schema.CacheFileError, match=said):
            connect(old)
