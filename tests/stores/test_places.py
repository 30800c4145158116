"""Which store a client is for, how soon one hears that it cannot be used, and what a closed client does."""

from __future__ import annotations

import gc
import json
import logging
import pickle
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from qdrant_client import models

from stores import StoreError, client, connect, open_target
from tests.stores.conftest import recipe

PLAIN = models.VectorParams(size=2, distance=models.Distance.COSINE)


@contextmanager
def server(status: int, body: object) -> Iterator[str]:
    """The address of a server that gives one answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            return

    listening = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}"
    finally:
        listening.shutdown()
        listening.server_close()


def test_a_folder_that_is_named_goes_before_a_server_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QDRANT_URL", "http://127.0.0.1:9")
    with connect(path=tmp_path / "q"):
        assert (tmp_path / "q" / "meta.json").exists()


def test_one_folder_by_two_names_is_one_store(tmp_path: Path) -> None:
    (tmp_path / "q").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "q")
    with connect(path=tmp_path / "q") as one, connect(path=tmp_path / "link") as other:
        one.create_collection("x", vectors_config=PLAIN)
        assert other.collection_exists("x")


def test_a_collection_is_made_by_position_too(tmp_path: Path) -> None:
    with connect(path=tmp_path / "q") as opened:
        assert opened.create_collection("x", PLAIN)


@pytest.mark.parametrize("version", ["1.15.5", "1.9.0", "0.11.0"])
def test_an_old_server_is_refused_with_the_version_that_is_needed(version: str) -> None:
    with (
        server(200, {"title": "qdrant", "version": version}) as url,
        pytest.raises(StoreError, match=rf"{url} has version {version}; 1\.16"),
    ):
        connect(url=url)


@pytest.mark.parametrize("version", ["1.16.0", "1.19.2", "2.0.0-dev"])
def test_a_new_enough_server_is_taken(version: str) -> None:
    with server(200, {"title": "qdrant", "version": version}) as url, connect(url=url) as client:
        assert client.server_version == tuple(map(int, version.split(".")[:2]))


@pytest.mark.parametrize("answer", [(401, b"no key"), (200, b"<html>a site</html>"), (404, b"nothing here")])
def test_what_is_no_usable_server_is_one_line_that_names_it(answer: tuple[int, bytes]) -> None:
    with server(*answer) as url, pytest.raises(StoreError) as caught:
        connect(url=url)
    assert url in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("before", ["", "x" * 260])
def test_neither_key_nor_password_is_in_what_is_said_of_a_server(before: str) -> None:
    key = "canary-of-qdrant-0815"
    # A body is cut after 300 bytes, which may be inside the key.
    with server(401, f"{before} wrong key {key} {key}".encode()) as url, pytest.raises(StoreError) as caught:
        connect(url=url.replace("//", "//user:password@"), api_key=key)
    said = "".join(traceback.format_exception(caught.value, limit=0))
    assert "wrong key ***" in str(caught.value)
    assert not [secret for secret in ("user", "password", "canary") if secret in said]


def test_a_server_that_never_answers_is_told_of_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PROBE_SECONDS", 1)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(StoreError, match=url):
            connect(url=url)
    assert time.monotonic() - began < 15


def damaged_point(folder: Path, content: bytes) -> None:
    with connect(path=folder) as opened:
        opened.create_collection("x", vectors_config=PLAIN)
        opened.upsert("x", [models.PointStruct(id=1, vector=[1, 2])])
    with sqlite3.connect(folder / "collection" / "x" / "storage.sqlite") as database:
        database.execute("UPDATE points SET point = ?", (content,))
    database.close()


@pytest.mark.parametrize(
    "content", [b"", b"junk", pickle.dumps(3), pickle.dumps({}), b"cnowhere_at_all\nThing\n."], ids=range(5)
)
def test_a_damaged_point_is_one_line_that_names_the_folder(tmp_path: Path, content: bytes) -> None:
    damaged_point(tmp_path / "q", content)
    for _ in range(2):
        with pytest.raises(StoreError, match="cannot be opened") as caught:
            connect(path=tmp_path / "q")
        assert str(tmp_path / "q") in str(caught.value)


@pytest.mark.parametrize("meta", ["{", "[]", "{}", '{"collections": {"x": 1}, "aliases": {}}', '"text"'])
def test_a_damaged_list_of_collections_is_one_line_that_names_the_folder(tmp_path: Path, meta: str) -> None:
    (tmp_path / "q" / "collection").mkdir(parents=True)
    (tmp_path / "q" / "meta.json").write_text(meta)
    with pytest.raises(StoreError, match="cannot be opened"):
        connect(path=tmp_path / "q")


def test_many_points_are_told_of_once_when_they_become_many(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MANY_POINTS", 3)
    many = [models.PointStruct(id=number, vector=[1, number]) for number in range(4)]
    with caplog.at_level(logging.WARNING), connect(path=tmp_path / "q") as opened:
        for name in ("x", "y"):
            opened.create_collection(name, vectors_config=PLAIN)
            opened.upsert(name, many[:3])
        assert caplog.messages == []
        for _ in range(2):
            opened.upsert("x", many)
            opened.upsert("y", many)
    assert len(caplog.messages) == 1
    assert "x holds 4 points" in caplog.messages[0]
    caplog.clear()
    with caplog.at_level(logging.WARNING), connect(path=tmp_path / "q"):
        assert len(caplog.messages) == 1


def test_a_closed_client_refuses_although_others_are_open(tmp_path: Path) -> None:
    with connect(path=tmp_path / "q") as other:
        opened = connect(path=tmp_path / "q")
        opened.close()
        with pytest.raises(RuntimeError, match="closed"):
            opened.get_collection("x")
        assert other.get_collections().collections == []


def test_forgotten_clients_close_nothing_and_block_nothing(tmp_path: Path) -> None:
    with connect(path=tmp_path / "q") as opened:
        for _ in range(5):
            connect(path=tmp_path / "q")
            gc.collect()
        assert opened.get_collections().collections == []


def test_a_process_that_never_closes_ends_without_noise(tmp_path: Path) -> None:
    code = f"""
import stores
from qdrant_client import models
from tests.stores.conftest import recipe
client = stores.connect(path={str(tmp_path / "q")!r})
stores.open_target(client, "docs", "/docs", recipe())
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_the_recipe_of_a_reopened_store_has_the_same_fingerprint(tmp_path: Path) -> None:
    asked = recipe(parameters={"chunk_size": 512, "semantic_threshold": 0.5, "unset": None})
    with connect(path=tmp_path / "q") as opened:
        open_target(opened, "docs", "/docs", asked)
    with connect(path=tmp_path / "q") as opened:
        assert open_target(opened, "docs", "/docs", asked).collection == "docs__recursive__1"
