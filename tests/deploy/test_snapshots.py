"""`deploy/snapshots.py` with a client that notes what it is asked, since an embedded store makes no snapshots."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from tests.deploy import snapshots

LISTED = {
    "collections": {"a__recursive__1": "one.snapshot", "b__semantic__2": "two.snapshot"},
    "aliases": {"a__recursive": "a__recursive__1"},
}


class Notes:
    """Stands in for a client: takes the same arguments as the real one, and answers from `LISTED`."""

    def __init__(self, *, done: bool = True) -> None:
        self.done = done
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        signature = inspect.signature(getattr(QdrantClient, name))

        def call(*args: Any, **kwargs: Any) -> Any:
            given = dict(signature.bind(self, *args, **kwargs).arguments)
            del given["self"]
            self.asked.append((name, given))
            return self._answer(name, given)

        return call

    def _answer(self, name: str, given: dict[str, Any]) -> Any:
        if name == "get_aliases":
            aliases = [models.AliasDescription(alias_name=a, collection_name=c) for a, c in LISTED["aliases"].items()]
            return models.CollectionsAliasesResponse(aliases=aliases)
        if name == "get_collections":
            return SimpleNamespace(
                collections=[models.CollectionDescription(name=c) for c in reversed([*LISTED["collections"]])]
            )
        if name == "create_snapshot":
            made = LISTED["collections"][given["collection_name"]]
            return models.SnapshotDescription(name=made, size=1234) if self.done else None
        return self.done


def test_what_is_taken_names_each_collection_and_alias() -> None:
    assert snapshots.take(Notes()) == LISTED


def test_collections_are_restored_from_the_servers_folder_before_all_aliases_at_once() -> None:
    client = Notes()
    snapshots.restore(client, LISTED)
    assert [name for name, _ in client.asked] == ["recover_snapshot", "recover_snapshot", "update_collection_aliases"]
    _, first = client.asked[0]
    assert first["location"] == "file:///qdrant/snapshots/a__recursive__1/one.snapshot"
    assert first["priority"] == "snapshot"
    (move,) = client.asked[-1][1]["change_aliases_operations"]
    assert (move.create_alias.alias_name, move.create_alias.collection_name) == ("a__recursive", "a__recursive__1")


def test_snapshots_are_dropped_by_name() -> None:
    client = Notes()
    snapshots.drop(client, LISTED)
    assert [tuple(given.values()) for _, given in client.asked] == [*LISTED["collections"].items()]


@pytest.mark.parametrize("action", ["take", "restore"])
def test_what_the_server_does_not_do_is_an_error(action: str) -> None:
    with pytest.raises(RuntimeError, match="a__recursive__1"):
        snapshots.take(Notes(done=False)) if action == "take" else snapshots.restore(Notes(done=False), LISTED)


def test_what_is_no_list_of_snapshots_is_one_clear_line() -> None:
    for text in ("", "[]", "{}"):
        assert _failed("restore", text, QDRANT_URL="http://127.0.0.1:1").startswith(
            "snapshots.py: standard input is not what `snapshots.py take` printed"
        )


def test_a_server_that_is_away_is_one_clear_line() -> None:
    assert _failed("take", "", QDRANT_URL="http://127.0.0.1:1").startswith("snapshots.py: no answer")


@pytest.mark.parametrize(
    ("arguments", "url"), [("take", ""), ("", "http://127.0.0.1:1"), ("burn", "http://127.0.0.1:1")]
)
def test_wrong_usage_is_told(arguments: str, url: str) -> None:
    assert "usage: snapshots.py" in _failed(arguments, "", QDRANT_URL=url)


def _failed(arguments: str, given: str, **environment: str) -> str:
    """What the command says when it fails."""
    done = subprocess.run(
        [sys.executable, snapshots.__file__, *arguments.split()],
        input=given,
        env={**os.environ, "PYTHONPATH": str(Path(snapshots.__file__).parents[1]), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode
    assert "Traceback" not in done.stderr
    return done.stderr
