from __future__ import annotations

import errno
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from qdrant_client import QdrantClient, models

from stores import StoreError, connect, open_target
from tests.stores.conftest import recipe


def test_two_clients_of_one_folder_share_the_store(tmp_path: Path) -> None:
    with connect(path=tmp_path / "q") as one, connect(path=tmp_path / "q") as other:
        one.create_collection("x", vectors_config=models.VectorParams(size=2, distance=models.Distance.COSINE))
        assert other.collection_exists("x")
    with connect(path=tmp_path / "q") as again:
        assert again.collection_exists("x")


def test_closing_a_client_twice_leaves_the_others_open(tmp_path: Path) -> None:
    one, other = connect(path=tmp_path / "q"), connect(path=tmp_path / "q")
    one.close()
    one.close()
    assert other.get_collections().collections == []
    other.close()


def test_it_is_a_qdrant_client_as_other_libraries_expect(tmp_path: Path) -> None:
    with connect(path=tmp_path / "q") as client:
        assert isinstance(client, QdrantClient)


def test_places_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QDRANT_URL", raising=False)
    monkeypatch.setenv("QUARRY_HOME", str(tmp_path / "home"))
    with connect():
        assert (tmp_path / "home" / "qdrant" / "meta.json").exists()


def test_a_store_in_use_by_another_process_says_so(tmp_path: Path) -> None:
    hold = "\n".join(
        [
            "import sys",
            "from stores import connect",
            f"with connect(path={str(tmp_path / 'q')!r}):",
            "    print('open', flush=True)",
            "    sys.stdin.read()",
        ]
    )
    command = [sys.executable, "-c", hold]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "open\n"
        with pytest.raises(StoreError, match=r"is in use by another process; .* set QDRANT_URL") as caught:
            connect(path=tmp_path / "q")
        assert str(tmp_path / "q") in str(caught.value)
        other.communicate()
    connect(path=tmp_path / "q").close()


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match="cannot be opened"):
        connect(path=tmp_path / "file" / "q")


def test_a_damaged_store_is_one_clear_line(tmp_path: Path) -> None:
    with connect(path=tmp_path / "q") as client:
        open_target(client, "docs", "/docs", recipe())
    (tmp_path / "q" / "meta.json").write_text("{")
    with pytest.raises(StoreError, match="cannot be opened"):
        connect(path=tmp_path / "q")


@pytest.mark.parametrize("left", ["", '{"collec'])
def test_a_store_whose_making_was_cut_off_is_begun_anew(tmp_path: Path, left: str) -> None:
    (tmp_path / "q").mkdir()
    (tmp_path / "q" / "meta.json").write_text(left)
    with connect(path=tmp_path / "q") as client:
        open_target(client, "docs", "/docs", recipe())
    with connect(path=tmp_path / "q") as client:
        assert client.collection_exists("docs__recursive__1")


def test_a_disk_that_is_full_leaves_no_half_of_a_new_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> int:
        with open(path, "w") as file:
            file.write(text[:5])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_text", full)
        with pytest.raises(StoreError, match="No space left"):
            connect(path=tmp_path / "q")
    assert [*(tmp_path / "q").iterdir()] == []
    connect(path=tmp_path / "q").close()


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "not a url", "ftp://x"])
def test_a_server_that_does_not_answer_is_named(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        connect(url=url)
    assert url in str(caught.value)
    assert "\n" not in str(caught.value)


def test_collections_are_tuned_at_creation_and_at_every_opening(tmp_path: Path) -> None:
    def synchronous(client: QdrantClient) -> tuple[str, int]:
        connection: sqlite3.Connection = client._client.collections["docs__recursive__1"].storage.storage  # type: ignore[attr-defined]
        return (
            connection.execute("PRAGMA journal_mode").fetchone()[0],
            connection.execute("PRAGMA synchronous").fetchone()[0],
        )

    with connect(path=tmp_path / "q") as client:
        open_target(client, "docs", "/docs", recipe())
        assert synchronous(client) == ("wal", 1)
    with connect(path=tmp_path / "q") as client:
        assert synchronous(client) == ("wal", 1)


def test_threads_share_an_embedded_client(tmp_path: Path) -> None:
    errors: list[Exception] = []
    old = sys.getswitchinterval()

    def work(client: QdrantClient, name: str, offset: int) -> None:
        try:
            for number in range(60):
                point = models.PointStruct(id=offset + number, vector=[1.0, number], payload={"n": number})
                client.upsert(name, [point])
                client.query_points(name, query=[1.0, 2.0], limit=3)
        except Exception as error:
            errors.append(error)

    with connect(path=tmp_path / "q") as client:
        for name in ("a", "b"):
            client.create_collection(name, vectors_config=models.VectorParams(size=2, distance=models.Distance.COSINE))
        sys.setswitchinterval(1e-5)
        try:
            threads = [threading.Thread(target=work, args=(client, "ab"[n % 2], n * 1000)) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(old)
        assert errors == []
        assert client.count("a").count == client.count("b").count == 120
