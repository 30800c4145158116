"""Collections and aliases that somebody else made, under names that are ours or could be."""

from __future__ import annotations

from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from stores import StoreError, Target, finish_target, open_target
from stores.collections import INDEXED
from tests.stores.conftest import recipe

PLAIN = models.VectorParams(size=3, distance=models.Distance.COSINE)


def test_a_foreign_collection_of_our_next_name_is_not_written_to(client: QdrantClient, corpus: str) -> None:
    client.create_collection(f"{corpus}__recursive__1", vectors_config=PLAIN)
    assert open_target(client, corpus, "/docs", recipe()).collection == f"{corpus}__recursive__2"


def test_a_collection_named_as_our_alias_is_refused_before_any_work(client: QdrantClient, corpus: str) -> None:
    name = f"{corpus}__recursive"
    client.create_collection(name, vectors_config=PLAIN)
    try:
        with pytest.raises(StoreError, match=f"collection {name} .* name of the alias"):
            open_target(client, corpus, "/docs", recipe())
    finally:
        client.delete_collection(name)


def test_a_build_cut_off_before_its_indexes_gets_them_when_taken_up(
    client: QdrantClient, corpus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(BaseException): ...

    def killed(*_: object, **__: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(type(client), "create_payload_index", killed)
        with pytest.raises(Killed):
            open_target(client, corpus, "/docs", recipe())
    made: list[str] = []
    index = client.create_payload_index

    def recorded(self: QdrantClient, name: str, field: str, **options: Any) -> models.UpdateResult:
        made.append(field)
        return index(name, field, **options)

    monkeypatch.setattr(type(client), "create_payload_index", recorded)
    target = open_target(client, corpus, "/docs", recipe())
    assert (target.collection, tuple(made)) == (f"{corpus}__recursive__1", INDEXED)


def test_an_alias_moved_by_somebody_else_during_the_run_is_left_alone(
    client: QdrantClient, corpus: str, target: Target
) -> None:
    finish_target(client, target)
    rebuilt = open_target(client, corpus, "/docs", recipe(), rebuild=True)
    foreign = f"{corpus}-x__recursive__1"
    client.create_collection(foreign, vectors_config=PLAIN)
    client.update_collection_aliases(
        [models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=foreign, alias_name=target.alias))]
    )
    with pytest.raises(StoreError, match="left alone"):
        finish_target(client, rebuilt)
