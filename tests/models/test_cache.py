"""The cache: nothing is asked twice, nothing paid for is lost, and a bad file stops nothing."""

from __future__ import annotations

import errno
import logging
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from chunkers.errors import ModelError, SettingError
from chunkers.models import cache as cache_module
from chunkers.models.base import Context, ContextRequest, ContextWriter, Embedder, Vectors
from chunkers.models.cache import CachedContextWriter, CachedEmbedder, ModelCache, context_keys, vector_key

Build = Callable[..., ContextRequest]


class CountingEmbedder:
    """Gives each text a vector of its own; fails on "poison". Keeps each call."""

    semantic_threshold = 0.3
    paragraph_threshold = 0.4
    max_input_tokens = 7

    def __init__(self, name: str = "counting", dimensions: int = 4) -> None:
        self.name = name
        self.dimensions = dimensions
        self.calls: list[list[str]] = []

    def count_tokens(self, text: str) -> int:
        return len(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.calls.append(list(texts))
        if "poison" in texts:
            raise ModelError("poisoned")
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            vectors[row] = np.frombuffer(vector_key(text, 0, ""), dtype=np.uint8)[: self.dimensions]
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class CountingWriter:
    """Repeats the section; falls back on "refused". Keeps each call."""

    def __init__(self, name: str = "counting", prompt_version: str = "1") -> None:
        self.name = name
        self.prompt_version = prompt_version
        self.calls: list[list[str]] = []

    def write(self, requests: Sequence[ContextRequest]) -> list[Context]:
        self.calls.append([request.text for request in requests])
        if any(request.text == "poison" for request in requests):
            raise ModelError("poisoned")
        return [
            Context("outline", "outline", fallback=True)
            if request.text == "refused"
            else Context(f"About {request.text}", self.name)
            for request in requests
        ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "home" / "cache.sqlite"


@pytest.fixture
def cache(path: Path) -> ModelCache:
    return ModelCache(path)


def test_the_wrappers_play_the_roles(cache: ModelCache) -> None:
    embedder = CachedEmbedder(CountingEmbedder(), cache)
    assert isinstance(embedder, Embedder)
    assert isinstance(CachedContextWriter(CountingWriter(), cache), ContextWriter)
    assert (embedder.name, embedder.dimensions, embedder.max_input_tokens) == ("counting", 4, 7)
    assert (embedder.semantic_threshold, embedder.paragraph_threshold, embedder.count_tokens("abc")) == (0.3, 0.4, 3)


def test_a_text_is_embedded_once(cache: ModelCache) -> None:
    inner = CountingEmbedder()
    first = CachedEmbedder(inner, cache).embed(["one", "two"])
    np.testing.assert_array_equal(CachedEmbedder(inner, cache).embed(["two", "one"]), first[::-1])
    assert inner.calls == [["one", "two"]]


def test_vectors_outlast_the_process(path: Path) -> None:
    with ModelCache(path) as cache:
        before = CachedEmbedder(CountingEmbedder(), cache).embed(["one"])
    inner = CountingEmbedder()
    with ModelCache(path) as cache:
        np.testing.assert_array_equal(CachedEmbedder(inner, cache).embed(["one"]), before)
    assert inner.calls == []


def test_equal_texts_of_one_call_are_sent_once(cache: ModelCache) -> None:
    inner = CountingEmbedder()
    vectors = CachedEmbedder(inner, cache).embed(["one", "two", "one"])
    np.testing.assert_array_equal(vectors, inner.embed(["one", "two", "one"]))
    assert inner.calls[0] == ["one", "two"]


def test_only_what_is_new_is_sent(cache: ModelCache) -> None:
    inner = CountingEmbedder()
    embedder = CachedEmbedder(inner, cache)
    embedder.embed(["a", "b", "c"])
    vectors = embedder.embed(["c", "new", "a"])
    assert inner.calls == [["a", "b", "c"], ["new"]]
    np.testing.assert_array_equal(vectors, inner.embed(["c", "new", "a"]))


def test_what_was_sent_and_what_was_cached_is_counted(cache: ModelCache) -> None:
    embedder = CachedEmbedder(CountingEmbedder(), cache)
    embedder.embed(["one", "two", "one"])
    embedder.embed(["one", "three"])
    assert (embedder.sent, embedder.cached) == (3, 2)


def test_counters_add_up_over_threads(cache: ModelCache) -> None:
    embedder = CachedEmbedder(CountingEmbedder(), cache)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda batch: embedder.embed([f"{batch} {row}" for row in range(20)]), range(40)))
    assert (embedder.sent, embedder.cached) == (800, 0)


@pytest.mark.parametrize("other", [CountingEmbedder("other"), CountingEmbedder(dimensions=5)])
def test_models_and_dimensions_are_kept_apart(cache: ModelCache, other: CountingEmbedder) -> None:
    CachedEmbedder(CountingEmbedder(), cache).embed(["one"])
    assert CachedEmbedder(other, cache).embed(["one"]).shape == (1, other.dimensions)
    assert other.calls == [["one"]]


def test_keys_keep_their_parts_apart() -> None:
    assert vector_key("ab", 1, "c") != vector_key("a", 1, "bc")


def test_a_blank_text_is_refused_before_anything_is_sent(cache: ModelCache) -> None:
    inner = CountingEmbedder()
    with pytest.raises(ValueError, match="blank"):
        CachedEmbedder(inner, cache).embed(["one", " "])
    assert inner.calls == []


def test_no_texts_are_no_vectors(cache: ModelCache) -> None:
    inner = CountingEmbedder()
    assert CachedEmbedder(inner, cache).embed([]).shape == (0, 4)
    assert inner.calls == []


def test_what_was_answered_before_an_error_is_kept(cache: ModelCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_TEXTS_AT_ONCE", 2)
    inner = CountingEmbedder()
    embedder = CachedEmbedder(inner, cache)
    with pytest.raises(ModelError):
        embedder.embed(["a", "b", "c", "poison"])
    embedder.embed(["a", "b", "c"])
    assert inner.calls == [["a", "b"], ["c", "poison"], ["c"]]
    assert embedder.sent == 3


def test_groups_are_bounded_by_characters(cache: ModelCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "_CHARACTERS_AT_ONCE", 10)
    inner = CountingEmbedder()
    CachedEmbedder(inner, cache).embed(["aaaa", "bbbb", "cccc", "d" * 20, "e"])
    assert inner.calls == [["aaaa", "bbbb"], ["cccc"], ["d" * 20], ["e"]]


def test_thousands_of_vectors_are_kept_in_several_transactions(cache: ModelCache, path: Path) -> None:
    statements: list[str] = []
    cache._connection.set_trace_callback(statements.append)
    CachedEmbedder(CountingEmbedder(), cache).embed([f"text {number}" for number in range(3000)])
    assert sum(statement == "COMMIT" for statement in statements) >= 10
    with sqlite3.connect(path) as reader:
        assert reader.execute("SELECT count(*) FROM vectors").fetchone() == (3000,)


@pytest.mark.parametrize(
    "value", [b"", b"123", "text", 7, np.zeros(4, "<f4").tobytes(), np.full(4, np.nan, "<f4").tobytes()]
)
def test_a_stored_vector_that_is_no_unit_vector_is_asked_for_again(
    cache: ModelCache, path: Path, value: object
) -> None:
    inner = CountingEmbedder()
    expected = CachedEmbedder(inner, cache).embed(["one"])
    with sqlite3.connect(path) as other:
        other.execute("UPDATE vectors SET value = ?", (value,))
    np.testing.assert_array_equal(CachedEmbedder(inner, cache).embed(["one"]), expected)
    assert len(inner.calls) == 2


def test_a_context_is_written_once(cache: ModelCache, section: Build) -> None:
    inner = CountingWriter()
    writer = CachedContextWriter(inner, cache)
    requests = [section("one"), section("two"), section("one")]
    first = writer.write(requests)
    assert first == [Context(f"About {text}", "counting") for text in ("one", "two", "one")]
    assert writer.write(requests) == first
    assert inner.calls == [["one", "two"]]
    assert (writer.sent, writer.cached) == (2, 4)


@pytest.mark.parametrize("part", ["preceding", "following", "title"])
def test_the_whole_request_is_the_key(cache: ModelCache, section: Build, part: str) -> None:
    inner = CountingWriter()
    writer = CachedContextWriter(inner, cache)
    writer.write([section("one")])
    writer.write([section("one", **{part: "other"})])
    assert len(inner.calls) == 2


def test_another_prompt_version_asks_again(cache: ModelCache, section: Build) -> None:
    CachedContextWriter(CountingWriter(), cache).write([section("one")])
    inner = CountingWriter(prompt_version="2")
    CachedContextWriter(inner, cache).write([section("one")])
    assert inner.calls == [["one"]]


def test_a_fallback_is_counted_and_not_kept(cache: ModelCache, section: Build) -> None:
    inner = CountingWriter()
    writer = CachedContextWriter(inner, cache)
    for _ in range(2):
        assert writer.write([section("refused")]) == [Context("outline", "outline", fallback=True)]
    assert (inner.calls, writer.fallbacks, writer.sent) == ([["refused"]] * 2, 2, 2)


def test_contexts_answered_before_an_error_are_kept(
    cache: ModelCache, section: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_module, "_REQUESTS_AT_ONCE", 2)
    inner = CountingWriter()
    writer = CachedContextWriter(inner, cache)
    with pytest.raises(ModelError):
        writer.write([section(text) for text in ("a", "b", "c", "poison")])
    writer.write([section("a"), section("b")])
    assert inner.calls == [["a", "b"], ["c", "poison"]]


def test_keys_of_contexts_keep_headings_apart(section: Build) -> None:
    one, other = context_keys(CountingWriter(), [section(headings=("ab", "c")), section(headings=("a", "bc"))])
    assert one != other


def test_a_context_with_the_document_is_another_than_one_with_the_window(cache: ModelCache, section: Build) -> None:
    inner = CountingWriter()
    writer = CachedContextWriter(inner, cache)
    for document in (None, "one", "one two", "one"):
        writer.write([section("one", document=document)])
    assert inner.calls == [["one"]] * 3


def test_a_document_that_is_too_long_is_neither_counted_nor_kept(cache: ModelCache, section: Build) -> None:
    class Small(CountingWriter):
        def write(self, requests: Sequence[ContextRequest]) -> list[Context]:
            super().write(requests)
            return [Context("", self.name, too_long=True) for _ in requests]

    inner = Small()
    writer = CachedContextWriter(inner, cache)
    for _ in range(2):
        assert writer.write([section("one", document="long")]) == [Context("", "counting", too_long=True)]
    assert (len(inner.calls), writer.sent, writer.cached, writer.fallbacks) == (2, 0, 0, 0)


def foreign(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("CREATE TABLE theirs (a)")
        other.execute("INSERT INTO theirs VALUES (1)")


def of_another_version(path: Path) -> None:
    ModelCache(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA user_version=99")


def of_an_unmarked_program(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("CREATE TABLE vectors (key BLOB PRIMARY KEY, value)")


@pytest.mark.parametrize(
    "spoil",
    [
        foreign,
        of_another_version,
        of_an_unmarked_program,
        lambda path: path.write_bytes(b"this is no database" * 100),
        lambda path: path.write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000),
    ],
)
def test_a_file_that_is_no_cache_is_set_aside_and_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[Path], object]
) -> None:
    path = tmp_path / "cache.sqlite"
    spoil(path)
    before = path.read_bytes()
    with ModelCache(path) as cache:
        CachedEmbedder(CountingEmbedder(), cache).embed(["one"])
        assert len(cache.get_vectors([vector_key("counting", 4, "one")])) == 1
    assert (tmp_path / "cache.sqlite.set-aside-1").read_bytes() == before
    assert "cache.sqlite.set-aside-1" in caplog.text


def test_files_set_aside_do_not_replace_each_other(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    for content in (b"first" * 100, b"second" * 100):
        path.write_bytes(content)
        ModelCache(path).close()
    assert (tmp_path / "cache.sqlite.set-aside-1").read_bytes() == b"first" * 100
    assert (tmp_path / "cache.sqlite.set-aside-2").read_bytes() == b"second" * 100


def test_the_log_of_a_file_set_aside_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "cache.sqlite"
    theirs = sqlite3.connect(path)
    theirs.execute("PRAGMA journal_mode=WAL")
    foreign(path)
    with ModelCache(path) as cache:
        cache.put_contexts({b"key": "ours"})
        assert cache.get_contexts([b"key"]) == {b"key": "ours"}
    theirs.close()
    with sqlite3.connect(tmp_path / "cache.sqlite.set-aside-1") as kept:
        assert kept.execute("SELECT a FROM theirs").fetchall() == [(1,)]


def test_damage_found_while_reading_starts_a_new_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "cache.sqlite"
    texts = [f"text {number}" for number in range(3000)]
    with ModelCache(path) as cache:
        CachedEmbedder(CountingEmbedder(), cache).embed(texts)
    raw = bytearray(path.read_bytes())
    raw[3 * 4096 :] = b"\xa5" * (len(raw) - 3 * 4096)
    path.write_bytes(raw)
    inner = CountingEmbedder()
    with ModelCache(path) as cache:
        vectors = CachedEmbedder(inner, cache).embed(texts)
        np.testing.assert_array_equal(vectors, CountingEmbedder().embed(texts))
        CachedEmbedder(inner, cache).embed(texts)
    assert sum(map(len, inner.calls)) == 3000
    assert "set aside" in caplog.text


def test_a_cache_that_cannot_be_written_stops_nothing(
    cache: ModelCache, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache._connection.execute("PRAGMA query_only=ON")
    with caplog.at_level(logging.WARNING):
        vectors = CachedEmbedder(CountingEmbedder(), cache).embed(["one"])
    assert vectors.shape == (1, 4)
    assert "cannot be used" in caplog.text


def test_a_place_where_no_file_can_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for impossible in (tmp_path / "file" / "cache.sqlite", tmp_path):
        with pytest.raises(SettingError, match="cache file"):
            ModelCache(impossible)


def test_a_disk_that_is_full_is_no_fault_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "mkdir", full)
    with pytest.raises(OSError, match=r"cache\.sqlite cannot be made: .*No space left") as told:
        ModelCache(tmp_path / "new" / "cache.sqlite")
    assert not isinstance(told.value, SettingError)


def test_a_text_that_another_thread_asks_for_is_waited_for(cache: ModelCache, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, waiting = threading.Event(), threading.Event()
    take = cache.claims.take

    def watched(keys: list[bytes]) -> object:
        mine, others = take(keys)
        if others:
            waiting.set()
        return mine, others

    class Slow(CountingEmbedder):
        def embed(self, texts: Sequence[str]) -> Vectors:
            asked.set()
            assert waiting.wait(timeout=60)
            return super().embed(texts)

    monkeypatch.setattr(cache.claims, "take", watched)
    first, second = CachedEmbedder(Slow(), cache), CachedEmbedder(CountingEmbedder(), cache)
    with ThreadPoolExecutor(1) as other:
        early = other.submit(first.embed, ["one", "two"])
        assert asked.wait(timeout=60)
        late = second.embed(["two", "three"])
        assert (early.result()[1] == late[0]).all()
    assert (first.sent, first.cached, second.sent, second.cached) == (2, 0, 1, 1)


def test_a_text_that_another_thread_asked_for_in_vain_is_asked_for_again(cache: ModelCache) -> None:
    asked, go = threading.Event(), threading.Event()

    class Failing(CountingEmbedder):
        def embed(self, texts: Sequence[str]) -> Vectors:
            asked.set()
            assert go.wait(timeout=60)
            raise ModelError("no")

    with ThreadPoolExecutor(2) as threads:
        early = threads.submit(CachedEmbedder(Failing(), cache).embed, ["one"])
        assert asked.wait(timeout=60)
        late = threads.submit(CachedEmbedder(CountingEmbedder(), cache).embed, ["one"])
        go.set()
        assert late.result().shape == (1, 4)
        assert isinstance(early.exception(), ModelError)


def test_threads_share_one_cache(cache: ModelCache) -> None:
    inner = CountingEmbedder()
    start = threading.Barrier(8)

    def work(number: int) -> Vectors:
        start.wait()
        return CachedEmbedder(inner, cache).embed([f"text {(number + row) % 100}" for row in range(100)])

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(work, range(8)))
    for number, vectors in enumerate(results):
        expected = CountingEmbedder().embed([f"text {(number + row) % 100}" for row in range(100)])
        np.testing.assert_array_equal(vectors, expected)


def test_processes_share_one_file(path: Path) -> None:
    code = (
        "import sys, numpy; from chunkers.models import ModelCache\n"
        "with ModelCache(sys.argv[1]) as cache:\n"
        "    for row in range(200):\n"
        "        key = f'{sys.argv[2]}-{row}'.encode()\n"
        "        cache.put_vectors({key: numpy.ones(4, numpy.float32)})\n"
        "        assert key in cache.get_vectors([key])\n"
    )
    workers = [subprocess.Popen([sys.executable, "-c", code, str(path), str(number)]) for number in range(4)]
    assert [worker.wait(60) for worker in workers] == [0] * 4
    with sqlite3.connect(path) as reader:
        assert reader.execute("SELECT count(*) FROM vectors").fetchone() == (800,)
    assert not list(path.parent.glob("*.set-aside-*"))


def test_the_file_is_in_write_ahead_mode(cache: ModelCache, path: Path) -> None:
    with sqlite3.connect(path) as reader:
        assert reader.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_cache_that_is_only_read_leaves_no_file_behind(path: Path) -> None:
    with ModelCache(path) as cache:
        CachedEmbedder(CountingEmbedder(), cache).embed(["one"])
    before = sorted(path.parent.iterdir())
    with ModelCache(path, read_only=True) as cache:
        assert len(cache.get_vectors([vector_key("counting", 4, "one")])) == 1
        assert sorted(path.parent.iterdir()) == before
    assert sorted(path.parent.iterdir()) == before
