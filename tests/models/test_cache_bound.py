"""The cache's bound: what was not used for the longest time goes, no more than that, and the file stays small whatever is put."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest

from chunkers.models import cache_bound as bound
from chunkers.models import cache_file
from chunkers.models.cache import CachedContextWriter, CachedEmbedder, ModelCache, vector_key
from chunkers.models.cache_bound import Row, Uses, first_to_go, goal, portions
from tests.models.test_cache import Build, CountingEmbedder, CountingWriter

MB = 1024**2


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "cache.sqlite"


def key(number: int) -> bytes:
    return vector_key("model", 256, str(number))


def put(cache: ModelCache, numbers: Iterable[int], dimensions: int = 256) -> None:
    cache.put_vectors({key(number): np.full(dimensions, number, np.float32) for number in numbers}, model="model")


def kept(path: Path, numbers: Iterable[int]) -> list[int]:
    """Those of `numbers` whose vector is in the file; looking is no use."""
    with ModelCache(path, read_only=True) as cache:
        return [number for number in numbers if cache.get_vectors([key(number)])]


def on_disk(path: Path) -> int:
    """Bytes of the file and its log."""
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*") if not file.name.endswith("-shm"))


# The rules


@pytest.mark.parametrize(
    ("size", "incoming", "expected"), [(90, 10, None), (91, 10, 80), (100, 0, None), (101, 0, 90), (50, 200, 0)]
)
def test_rows_go_down_to_nine_tenths_of_the_bound_less_what_comes(
    size: int, incoming: int, expected: int | None
) -> None:
    assert goal(size, incoming, 100) == expected


def test_the_least_recently_used_go_first_over_both_tables() -> None:
    rows = [Row(3, "vectors", 1, 50_000), Row(1, "contexts", 9, 50_000), Row(2, "vectors", 2, 50_000)]
    assert [row.used for row in first_to_go(rows, 60_000)] == [1, 2]


def test_no_more_go_than_make_the_room() -> None:
    rows = [Row(stamp, "vectors", stamp, 10_000) for stamp in range(10)]
    assert len(first_to_go(rows, 25_000)) == 3
    assert len(first_to_go(rows, 10**9)) == 10


def test_one_goes_at_least() -> None:
    assert first_to_go([Row(1, "vectors", 1, 10**9), Row(2, "vectors", 2, 1)], 1) == [Row(1, "vectors", 1, 10**9)]
    assert first_to_go([], 1) == []


def test_portions_are_bounded_by_number_and_bytes_and_lose_nothing() -> None:
    sizes = {"a": 4, "b": 4, "c": 4, "d": 99, "e": 1, "f": 1, "g": 1, "h": 1}
    assert list(portions(sizes, 3, 10)) == [["a", "b"], ["c"], ["d"], ["e", "f", "g"], ["h"]]


def test_each_use_is_later_than_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bound.time, "time", lambda: 1000.0)
    uses = Uses()
    stamps = [uses.stamp() for _ in range(1000)]
    assert stamps == sorted(set(stamps))
    assert 1000 <= stamps[0] < stamps[-1] < 1000.1


def test_a_clock_that_was_put_back_does_not_make_new_uses_old(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    with ModelCache(path) as cache:
        put(cache, [1])
    monkeypatch.setattr(bound.time, "time", lambda: 1000.0)
    with ModelCache(path) as cache:
        put(cache, [2])
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT key FROM vectors ORDER BY used").fetchall() == [(key(1),), (key(2),)]


# What goes


def test_what_was_put_first_goes_first(path: Path) -> None:
    with ModelCache(path, max_bytes=MB) as cache:
        for number in range(0, 1500, 3):
            put(cache, range(number, number + 3))
    left = kept(path, range(1500))
    assert 400 < len(left) < 1000
    assert left == list(range(1500 - len(left), 1500))


def test_what_was_looked_up_stays_and_what_was_not_goes(path: Path) -> None:
    used = [5, 77, 120]
    with ModelCache(path, max_bytes=MB) as cache:
        put(cache, range(400))
        cache.get_vectors(key(number) for number in used)
        put(cache, range(1000, 1400))
        left = kept(path, range(400))
    assert set(used) < set(left)
    rest = [number for number in left if number not in used]
    assert rest == list(range(400 - len(rest), 400))


def test_the_order_of_lookups_is_the_order_of_going(path: Path) -> None:
    order = [7, 3, 9, 0, 8, 2, 6, 1, 5, 4]
    with ModelCache(path) as cache:
        put(cache, range(10))
        cache.get_vectors(key(number) for number in order[:6])
        for number in order[6:]:
            cache.get_vectors([key(number)])
    with sqlite3.connect(path) as file:
        rows = file.execute("SELECT key FROM vectors ORDER BY used, rowid").fetchall()
    assert rows == [(key(number),) for number in order]


def test_vectors_and_contexts_go_by_one_order(path: Path) -> None:
    with ModelCache(path, max_bytes=MB) as cache:
        for number in range(1000):
            put(cache, [number])
            cache.put_contexts({key(number): "context " * 50}, model="writer")
    with ModelCache(path, read_only=True) as cache:
        vectors = [number for number in range(1000) if cache.get_vectors([key(number)])]
        contexts = [number for number in range(1000) if cache.get_contexts([key(number)])]
    assert 200 < len(vectors) < 900
    assert vectors[0] - 1 <= contexts[0] <= vectors[0]
    assert vectors[-1] == contexts[-1] == 999


def test_rows_just_put_go_only_when_they_alone_are_over_the_bound(path: Path) -> None:
    with ModelCache(path, max_bytes=MB) as cache:
        put(cache, range(500))
        put(cache, range(1000, 1600))
        assert kept(path, range(1000, 1600)) == list(range(1000, 1600))
        put(cache, range(2000, 5000))
    left = kept(path, range(5000))
    assert left == list(range(5000 - len(left), 5000))
    assert len(left) > 400


def test_uses_are_written_many_at_a_time(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bound, "USES", 100)
    statements: list[str] = []
    with ModelCache(path) as cache:
        put(cache, range(50))
        cache._connection.set_trace_callback(statements.append)
        for _ in range(3):
            cache.get_vectors(key(number) for number in range(50))
        assert statements.count("COMMIT") == 0
        put(cache, range(100))
        for _ in range(3):
            cache.get_vectors(key(number) for number in range(100))
    # A put, and each hundred of different keys.
    assert statements.count("COMMIT") == 4


def test_uses_outlast_the_process(path: Path) -> None:
    with ModelCache(path) as cache:
        put(cache, range(3))
    with ModelCache(path) as cache:
        cache.get_vectors([key(0)])
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT key FROM vectors ORDER BY used DESC LIMIT 1").fetchone() == (key(0),)


def test_a_use_that_another_process_wrote_later_stays(path: Path) -> None:
    with ModelCache(path) as early:
        put(early, range(2))
        early.get_vectors([key(0)])
        with ModelCache(path) as late:
            late.get_vectors([key(1), key(0)])
        with sqlite3.connect(path) as file:
            before = file.execute("SELECT key, used FROM vectors ORDER BY used").fetchall()
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT key, used FROM vectors ORDER BY used").fetchall() == before


def test_rows_name_their_model(path: Path, section: Build) -> None:
    with ModelCache(path) as cache:
        CachedEmbedder(CountingEmbedder("embedding"), cache).embed(["one"])
        CachedContextWriter(CountingWriter("writing"), cache).write([section("one")])
    with sqlite3.connect(path) as file:
        assert file.execute("SELECT model FROM vectors UNION ALL SELECT model FROM contexts").fetchall() == [
            ("embedding",),
            ("writing",),
        ]


# How large the file gets


@pytest.mark.parametrize(("dimensions", "number"), [(4, 24_000), (256, 6000), (1536, 3000)])
def test_the_file_and_its_log_stay_about_the_bound_after_thousands_of_puts(
    path: Path, dimensions: int, number: int
) -> None:
    largest = 0
    with ModelCache(path, max_bytes=2 * MB) as cache:
        for start in range(0, number, 400):
            put(cache, range(start, start + 400), dimensions)
            largest = max(largest, on_disk(path))
        assert bound.size_in_use(cache._connection) <= 2 * MB
    assert largest < 2.6 * MB
    assert path.stat().st_size < 2.1 * MB


def test_a_lower_bound_holds_for_a_file_that_is_there(path: Path) -> None:
    with ModelCache(path) as cache:
        put(cache, range(3000))
    with ModelCache(path, max_bytes=MB) as cache:
        put(cache, [9999])
        assert bound.size_in_use(cache._connection) <= MB
        assert on_disk(path) < 3000 * 1024 * 3
    assert kept(path, [9999]) == [9999]


def test_the_log_is_emptied_as_soon_as_nobody_reads_any_more(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_file, "_LOG_WAIT", 1)
    log = path.with_name("cache.sqlite-wal")
    with ModelCache(path, max_bytes=2 * MB) as cache:
        put(cache, range(100))
        with sqlite3.connect(path) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM vectors").fetchone()
            put(cache, range(100, 1000))
            assert log.stat().st_size > MB
            reader.execute("ROLLBACK")
            put(cache, [1001])
            assert log.stat().st_size < MB // 2


# Trouble


def test_damage_found_while_making_room_starts_a_new_file(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ModelCache(path, max_bytes=5 * MB) as cache:
        put(cache, range(4000))
        cache._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        raw = bytearray(path.read_bytes())
        raw[2 * 4096 :] = b"\xa5" * (len(raw) - 2 * 4096)
        path.write_bytes(raw)
        put(cache, range(1000, 3000))
        put(cache, [5000])
        assert list(cache.get_vectors([key(5000)])) == [key(5000)]
    assert "set aside" in caplog.text
    assert path.with_name("cache.sqlite.set-aside-1").exists()


def test_a_file_that_another_process_renewed_is_not_set_aside_too(path: Path) -> None:
    with ModelCache(path) as slow:
        put(slow, [1])
        path.rename(path.with_name("cache.sqlite.set-aside-1"))
        with ModelCache(path) as quick:
            put(quick, [2])
        # What it still has open is damaged; what has taken the name is not.
        slow._connection.close()
        slow._connection = Damaged()  # type: ignore[assignment]
        assert list(slow.get_vectors([key(2)])) == [key(2)]
    assert [file.name for file in path.parent.glob("*set-aside-*")] == ["cache.sqlite.set-aside-1"]


class Damaged:
    """A connection to a damaged file."""

    def execute(self, *statement: object) -> object:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    def close(self) -> None:
        pass


EVICTING = """
import sys, numpy
from chunkers.models import cache_bound, cache_schema
from chunkers.models.cache import ModelCache
from tests.models.test_cache_bound import put, MB
with ModelCache(sys.argv[1], max_bytes=MB) as cache:
    put(cache, range(int(sys.argv[2]), int(sys.argv[2]) + 400))
    print("full", flush=True)
    number = int(sys.argv[2]) + 1000
    while True:
        put(cache, range(number, number + 50))
        print(number, flush=True)
        number += 50
"""


@pytest.fixture
def evicting(path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Two processes that put over the bound, on and on."""
    command = [sys.executable, "-c", EVICTING, str(path)]
    both = [subprocess.Popen([*command, number], stdout=subprocess.PIPE, text=True) for number in ("0", "100000")]
    yield both
    for one in both:
        one.kill()
        one.communicate()


def test_processes_that_are_killed_while_making_room_leave_a_sound_file(
    path: Path, evicting: list[subprocess.Popen[str]]
) -> None:
    for one in evicting:
        assert one.stdout is not None
        for _ in range(30):
            assert one.stdout.readline()
    for one in evicting:
        one.kill()
        one.wait()
    with ModelCache(path, max_bytes=MB) as cache:
        assert cache._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        put(cache, [7])
        assert bound.size_in_use(cache._connection) <= MB
    assert kept(path, [7]) == [7]
    assert not list(path.parent.glob("*set-aside-*"))


def test_threads_that_put_and_look_up_stay_within_the_bound(path: Path) -> None:
    with ModelCache(path, max_bytes=MB) as cache:

        def work(start: int) -> None:
            for number in range(start, start + 400, 20):
                put(cache, range(number, number + 20))
                cache.get_vectors(key(one) for one in range(number, number + 20))

        threads = [threading.Thread(target=work, args=(1000 * number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        put(cache, [1])
        assert bound.size_in_use(cache._connection) <= MB
        assert cache._connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
