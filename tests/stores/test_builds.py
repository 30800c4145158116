from __future__ import annotations

import pytest
from qdrant_client import QdrantClient, models

from stores import (
    LeaseHeld,
    Leases,
    StoreError,
    Target,
    Writer,
    drop,
    finish_target,
    list_collections,
    open_target,
    read_inventory,
    rollback,
)
from stores.inventory import alias_targets
from tests.doubles import HashEmbedder
from tests.stores.conftest import LineChunker, document, recipe


def build(client: QdrantClient, corpus: str, text: str, *, rebuild: bool = True, strategy: str = "recursive") -> Target:
    """A finished build with one document."""
    target = open_target(client, corpus, "/docs", recipe(strategy=strategy), rebuild=rebuild)
    Writer(client, target, LineChunker(), HashEmbedder(), "run").write([document("a.md", text)])
    finish_target(client, target)
    return target


def leases(client: QdrantClient, run_id: str = "run") -> Leases:
    return Leases(client, run_id, every=0)


def states(client: QdrantClient, corpus: str) -> dict[int, str]:
    return {info.build: info.state for info in list_collections(client) if info.corpus == corpus}


def test_a_rollback_points_readers_at_the_build_before(client: QdrantClient, corpus: str) -> None:
    first, second = build(client, corpus, "old"), build(client, corpus, "new")
    assert alias_targets(client)[first.alias] == second.collection
    with leases(client) as own:
        (step,) = rollback(client, corpus, [], own)
    assert (step.left, step.collection) == (second.collection, first.collection)
    assert alias_targets(client)[first.alias] == first.collection
    assert states(client, corpus) == {1: "live", 2: "superseded"}


def test_a_rebuild_after_a_rollback_goes_on_with_the_build_that_was_left(client: QdrantClient, corpus: str) -> None:
    build(client, corpus, "old")
    second = build(client, corpus, "new")
    rollback(client, corpus, [], leases(client))
    assert open_target(client, corpus, "/docs", recipe(), rebuild=True).collection == second.collection


def test_there_is_a_way_back_for_every_build_that_readers_used(client: QdrantClient, corpus: str) -> None:
    targets = [build(client, corpus, str(number)) for number in range(3)]
    for target in reversed(targets[:-1]):
        rollback(client, corpus, [], leases(client))
        assert alias_targets(client)[target.alias] == target.collection
    with pytest.raises(StoreError, match=f"no earlier build of corpus '{corpus}' is stored"):
        rollback(client, corpus, [], leases(client))


def test_the_way_back_leads_to_what_readers_used_last(client: QdrantClient, corpus: str) -> None:
    first, _ = build(client, corpus, "one"), build(client, corpus, "two")
    with leases(client) as own:
        rollback(client, corpus, [], own)
    third = open_target(client, corpus, "/docs", recipe(dimensions=16), rebuild=True)
    finish_target(client, third)
    with leases(client) as own:
        (step,) = rollback(client, corpus, [], own)
    assert (step.left, step.collection) == (third.collection, first.collection)


def test_a_build_that_no_reader_has_used_is_no_way_back(client: QdrantClient, corpus: str) -> None:
    build(client, corpus, "one")
    open_target(client, corpus, "/docs", recipe(dimensions=16), rebuild=True)
    build(client, corpus, "three")
    assert states(client, corpus) == {1: "superseded", 2: "superseded", 3: "live"}
    (step,) = rollback(client, corpus, [], leases(client))
    assert step.collection == f"{corpus}__recursive__1"


def test_one_strategy_can_be_rolled_back_alone(client: QdrantClient, corpus: str) -> None:
    for strategy in ("recursive", "sentence"):
        build(client, corpus, "old", strategy=strategy)
        build(client, corpus, "new", strategy=strategy)
    rollback(client, corpus, ["sentence"], leases(client))
    aliases = alias_targets(client)
    assert aliases[f"{corpus}__recursive"] == f"{corpus}__recursive__2"
    assert aliases[f"{corpus}__sentence"] == f"{corpus}__sentence__1"


def test_a_strategy_that_cannot_be_rolled_back_leaves_the_others_where_they_are(
    client: QdrantClient, corpus: str
) -> None:
    build(client, corpus, "old")
    build(client, corpus, "new")
    build(client, corpus, "only", strategy="sentence")
    with pytest.raises(StoreError, match="no earlier build of it is stored"):
        rollback(client, corpus, ["recursive", "sentence"], leases(client))
    with pytest.raises(StoreError, match=f"there is no alias {corpus}__semantic"):
        rollback(client, corpus, ["recursive", "semantic"], leases(client))
    assert alias_targets(client)[f"{corpus}__recursive"] == f"{corpus}__recursive__2"
    # Without names, those that have one are meant.
    assert [step.strategy for step in rollback(client, corpus, [], leases(client))] == ["recursive"]


def test_no_alias_is_moved_under_a_run(client: QdrantClient, corpus: str) -> None:
    build(client, corpus, "old")
    second = build(client, corpus, "new")
    leases(client, "working").acquire(second.alias, second.collection, second.collection)
    with pytest.raises(LeaseHeld, match="another run, working"), leases(client, "other") as own:
        rollback(client, corpus, [], own)
    assert alias_targets(client)[second.alias] == second.collection


def test_an_unknown_corpus_is_told_of(client: QdrantClient, corpus: str) -> None:
    with pytest.raises(StoreError, match=f"nothing of a corpus '{corpus}' is stored"):
        rollback(client, corpus, [], leases(client))


def test_a_superseded_collection_is_dropped_by_its_exact_name(client: QdrantClient, corpus: str) -> None:
    first, second = build(client, corpus, "old"), build(client, corpus, "new")
    assert drop(client, [first.collection, first.collection], leases(client)) == [first.collection]
    assert [found.name for found in read_inventory(client).builds(corpus, "recursive")] == [second.collection]


def test_what_is_in_use_or_not_ours_is_never_dropped(client: QdrantClient, corpus: str) -> None:
    first, second = build(client, corpus, "old"), build(client, corpus, "new")
    foreign, other = f"my{corpus}__recursive__1", f"{corpus}x__recursive__9"
    try:
        client.create_collection(foreign, vectors_config={})
        client.create_collection(other, vectors_config={})
        for names, told in {
            (second.collection,): f"{first.alias} points at it",
            (first.alias,): "is an alias",
            (foreign,): "is none that quarry made",
            (other,): "is none that quarry made",
            (f"{corpus}__recursive__7",): "does not exist",
            (f"{corpus}__recursive",): "is an alias",
            (corpus,): "does not exist",
            (f"{corpus}__recursive__*",): "does not exist",
        }.items():
            # A good name beside a bad one is not dropped either.
            with pytest.raises(StoreError, match=told):
                drop(client, [first.collection, *names], leases(client))
        held = {item.name for item in client.get_collections().collections}
        assert {first.collection, second.collection, foreign, other} <= held
    finally:
        client.delete_collection(foreign)
        client.delete_collection(other)


def test_a_superseded_collection_that_a_foreign_alias_points_at_stays(client: QdrantClient, corpus: str) -> None:
    first, _ = build(client, corpus, "old"), build(client, corpus, "new")
    make = models.CreateAlias(collection_name=first.collection, alias_name=f"{corpus}-pinned")
    client.update_collection_aliases([models.CreateAliasOperation(create_alias=make)])
    with pytest.raises(StoreError, match=f"{corpus}-pinned points at it"):
        drop(client, [first.collection], leases(client))


def test_nothing_is_dropped_under_a_run(client: QdrantClient, corpus: str) -> None:
    first, second = build(client, corpus, "old"), build(client, corpus, "new")
    leases(client, "working").acquire(second.alias, second.collection, second.collection)
    with pytest.raises(LeaseHeld, match="another run, working"):
        drop(client, [first.collection], leases(client, "other"))
    assert first.collection in read_inventory(client).names


def test_a_collection_dropped_by_hand_is_known_from_its_siblings(client: QdrantClient, corpus: str) -> None:
    targets = [open_target(client, corpus, "/docs", recipe(strategy=name)) for name in ("recursive", "sentence")]
    for target in targets:
        finish_target(client, target, siblings=["recursive", "sentence"])
    assert read_inventory(client).lost(corpus) == []
    client.delete_collection(targets[0].collection)
    assert read_inventory(client).lost(corpus) == ["recursive"]
