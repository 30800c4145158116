from __future__ import annotations

import pytest
from qdrant_client import QdrantClient, models

from stores import (
    SettingsChanged,
    StoreError,
    Target,
    Writer,
    choose_target,
    finish_target,
    list_collections,
    open_target,
    read_inventory,
)
from stores.collections import INDEXED
from stores.inventory import alias_targets
from tests.doubles import HashEmbedder
from tests.stores.conftest import LineChunker, document, points, recipe


def fill(client: QdrantClient, target: Target, *texts: str) -> None:
    writer = Writer(client, target, LineChunker(), HashEmbedder(), "run")
    writer.write([document(f"{number}.md", text) for number, text in enumerate(texts)])


def test_a_first_run_makes_a_collection_with_everything_in_its_metadata(client: QdrantClient, corpus: str) -> None:
    target = open_target(client, corpus, "/docs", recipe())
    assert (target.collection, target.alias, target.live) == (f"{corpus}__recursive__1", f"{corpus}__recursive", False)
    info = client.get_collection(target.collection)
    assert info.config.metadata is not None
    assert info.config.metadata["corpus"] == corpus
    assert info.config.metadata["root"] == "/docs"
    assert info.config.metadata["fingerprint"] == recipe().fingerprint()
    params = info.config.params
    assert isinstance(params.vectors, models.VectorParams)
    assert (params.vectors.size, params.vectors.distance) == (8, models.Distance.COSINE)
    assert params.sparse_vectors is not None
    assert params.sparse_vectors["bm25"].modifier == models.Modifier.IDF


def test_every_field_that_is_filtered_is_indexed_before_the_first_upload(
    client: QdrantClient, corpus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    create = type(client).create_payload_index
    monkeypatch.setattr(
        type(client),
        "create_payload_index",
        lambda self, name, field, **o: made.append(field) or create(self, name, field, **o),
    )
    open_target(client, corpus, "/docs", recipe())
    assert tuple(made) == INDEXED == ("kind", "doc_id", "parent_id", "metadata.source")


def test_the_alias_is_made_when_the_first_build_is_finished(client: QdrantClient, target: Target) -> None:
    fill(client, target, "one\ntwo")
    assert target.alias not in alias_targets(client)
    finish_target(client, target)
    assert alias_targets(client)[target.alias] == target.collection


def test_a_first_build_with_failures_is_shown_all_the_same(client: QdrantClient, target: Target) -> None:
    fill(client, target, "one")
    finish_target(client, target, lacking="1 documents failed")
    assert alias_targets(client)[target.alias] == target.collection


def test_the_same_recipe_updates_the_live_collection(client: QdrantClient, corpus: str, target: Target) -> None:
    finish_target(client, target)
    again = open_target(client, corpus, "/docs", recipe())
    assert (again.collection, again.live) == (target.collection, True)


def test_an_interrupted_first_build_is_taken_up_again(client: QdrantClient, corpus: str, target: Target) -> None:
    fill(client, target, "one")
    again = open_target(client, corpus, "/docs", recipe())
    assert (again.collection, again.live) == (target.collection, False)


def test_another_recipe_is_refused_with_what_differs(client: QdrantClient, corpus: str, target: Target) -> None:
    finish_target(client, target)
    with pytest.raises(SettingsChanged, match="chunk_size: 512 stored, 256 asked") as caught:
        open_target(client, corpus, "/docs", recipe(parameters={"chunk_size": 256}))
    assert caught.value.differences == {target.alias: ["chunk_size: 512 stored, 256 asked"]}


def test_a_rebuild_stands_beside_the_live_collection_until_it_is_finished(
    client: QdrantClient, corpus: str, target: Target
) -> None:
    fill(client, target, "one")
    finish_target(client, target)
    other = recipe(parameters={"chunk_size": 256})
    rebuilt = open_target(client, corpus, "/docs", other, rebuild=True)
    assert rebuilt.collection == f"{corpus}__recursive__2"
    assert alias_targets(client)[target.alias] == target.collection
    assert open_target(client, corpus, "/docs", other, rebuild=True).collection == rebuilt.collection
    fill(client, rebuilt, "one")
    finish_target(client, rebuilt)
    assert alias_targets(client)[target.alias] == rebuilt.collection
    states = {info.collection: info.state for info in list_collections(client) if info.corpus == corpus}
    assert states == {target.collection: "superseded", rebuilt.collection: "live"}


def test_a_rebuild_that_is_not_complete_does_not_move_the_alias(
    client: QdrantClient, corpus: str, target: Target
) -> None:
    fill(client, target, "one")
    finish_target(client, target)
    rebuilt = open_target(client, corpus, "/docs", recipe(), rebuild=True)
    with pytest.raises(StoreError, match="is not complete"):
        finish_target(client, rebuilt, lacking="1 documents failed")
    assert alias_targets(client)[target.alias] == target.collection


def test_a_missing_point_is_noticed_before_the_alias_moves(client: QdrantClient, target: Target) -> None:
    fill(client, target, "one\ntwo")
    chunk = next(id_ for id_, (payload, _) in points(client, target.collection).items() if payload["kind"] == "chunk")
    client.delete(target.collection, models.PointIdsList(points=[chunk]))
    with pytest.raises(StoreError, match=r"is not what its journal says in 2 places, such as 0\.md: missing chunk"):
        finish_target(client, target)
    assert target.alias not in alias_targets(client)


def test_a_dry_run_makes_nothing(client: QdrantClient, corpus: str) -> None:
    target = choose_target(read_inventory(client), corpus, "/docs", recipe())
    assert not target.exists
    assert not client.collection_exists(target.collection)


def test_another_root_is_refused(client: QdrantClient, corpus: str, target: Target) -> None:
    with pytest.raises(StoreError, match=r"/docs, not those below /other; .*--corpus"):
        open_target(client, corpus, "/other", recipe(strategy="sentence"))


def test_an_alias_on_a_foreign_collection_is_left_alone(client: QdrantClient, corpus: str, target: Target) -> None:
    foreign = f"{corpus}-foreign__recursive__1"
    client.create_collection(foreign, vectors_config=models.VectorParams(size=8, distance=models.Distance.COSINE))
    create = models.CreateAlias(collection_name=foreign, alias_name=target.alias)
    client.update_collection_aliases([models.CreateAliasOperation(create_alias=create)])
    with pytest.raises(StoreError, match="left alone"):
        open_target(client, corpus, "/docs", recipe())
    with pytest.raises(StoreError, match="left alone"):
        finish_target(client, target)
    assert alias_targets(client)[target.alias] == foreign


def test_a_corpus_whose_name_ends_alike_is_another(client: QdrantClient, corpus: str, target: Target) -> None:
    finish_target(client, target)
    other = open_target(client, f"{corpus}-my", "/elsewhere", recipe())
    assert other.collection == f"{corpus}-my__recursive__1"
    assert read_inventory(client).live(f"{corpus}-my", "recursive") is None


def test_collections_of_others_are_not_listed(client: QdrantClient, corpus: str, target: Target) -> None:
    name = f"{corpus}__sentence__1"
    client.create_collection(name, vectors_config=models.VectorParams(size=8, distance=models.Distance.COSINE))
    assert name not in {info.collection for info in list_collections(client)}


def test_a_journal_that_cannot_be_read_is_told_of_its_collection_alone(
    client: QdrantClient, corpus: str, target: Target
) -> None:
    fill(client, target, "one")
    other = open_target(client, corpus, "/docs", recipe(strategy="sentence"))
    row = next(id_ for id_, (payload, _) in points(client, target.collection).items() if payload["kind"] == "document")
    client.delete_payload(target.collection, ["status"], [row])
    errors = {info.collection: info.error for info in list_collections(client) if info.corpus == corpus}
    assert "journal row" in str(errors[target.collection])
    assert errors[other.collection] is None


def test_a_listing_tells_exact_numbers_and_the_models(client: QdrantClient, target: Target) -> None:
    fill(client, target, "one\ntwo", "three")
    finish_target(client, target)
    (info,) = [info for info in list_collections(client) if info.collection == target.collection]
    assert (info.documents, info.chunks, info.parents, info.state) == (2, 3, 0, "live")
    assert (info.embedding_model, info.dimensions, info.parameters) == ("hash", 8, {"chunk_size": 512})
    assert info.last_run
