from __future__ import annotations

from collections.abc import Callable

import pytest
from qdrant_client import QdrantClient

from stores import LeaseHeld, Leases, StoreError, Target, connect, finish_target
from stores.lease import SECONDS, lease_id
from tests.stores.conftest import points


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leases(client: QdrantClient, clock: Clock) -> Callable[[str], Leases]:
    def make(run_id: str) -> Leases:
        return Leases(client, run_id, clock=clock, every=0)

    return make


def take(own: Leases, target: Target) -> None:
    own.acquire(target.alias, target.collection, None)


Make = Callable[[str], Leases]


def test_a_second_run_is_refused_and_told_who_is_at_work(leases: Make, target: Target) -> None:
    take(leases("first"), target)
    with pytest.raises(
        LeaseHeld, match=r"is being written by another run, first on .+ \(process \d+\); wait until"
    ) as told:
        take(leases("second"), target)
    assert told.value.fatal
    assert target.alias in str(told.value)


def test_a_lease_that_is_released_is_free(client: QdrantClient, leases: Make, target: Target) -> None:
    with leases("first") as first:
        take(first, target)
        assert lease_id(target.alias) in points(client, target.collection)
    assert points(client, target.collection) == {}
    take(leases("second"), target)


def test_a_lease_left_by_a_dead_run_is_taken_over_after_its_expiry(leases: Make, target: Target, clock: Clock) -> None:
    take(leases("dead"), target)
    clock.now += SECONDS - 1
    with pytest.raises(LeaseHeld):
        take(leases("next"), target)
    clock.now += 2
    take(leases("next"), target)


def test_a_renewed_lease_does_not_expire(leases: Make, target: Target, clock: Clock) -> None:
    first = leases("first")
    take(first, target)
    for _ in range(5):
        clock.now += SECONDS - 1
        first.renew()
    with pytest.raises(LeaseHeld):
        take(leases("second"), target)


def test_a_run_whose_lease_was_taken_over_is_told_once_and_leaves_it_alone(
    client: QdrantClient, leases: Make, target: Target, clock: Clock
) -> None:
    told: list[str] = []
    slow = Leases(client, "slow", told.append, clock=clock, every=0)
    take(slow, target)
    clock.now += SECONDS + 1
    take(leases("next"), target)
    slow.renew()
    slow.renew()
    assert len(told) == 1
    assert "another run, next on" in told[0]
    slow.release()
    payload, vector = points(client, target.collection)[lease_id(target.alias)]
    assert (payload["holder"], vector) == ("next", None)


def test_the_same_run_may_take_its_lease_again(leases: Make, target: Target) -> None:
    take(leases("one"), target)
    take(leases("one"), target)


def test_an_alias_that_was_moved_since_the_plan_is_not_written_to(
    client: QdrantClient, leases: Make, target: Target
) -> None:
    finish_target(client, target)
    with pytest.raises(LeaseHeld, match="was moved by another run just now; run again"), leases("late") as late:
        take(late, target)
    assert lease_id(target.alias) not in points(client, target.collection)


def test_whether_a_run_is_at_work_can_be_asked_without_taking_the_lease(
    leases: Make, target: Target, clock: Clock
) -> None:
    leases("asks").check(target.alias, target.collection)
    take(leases("first"), target)
    with pytest.raises(LeaseHeld, match="another run, first"):
        leases("asks").check(target.alias, target.collection)
    leases("first").check(target.alias, target.collection)
    clock.now += SECONDS + 1
    leases("asks").check(target.alias, target.collection)


def test_in_an_embedded_store_the_lease_of_another_process_is_a_dead_one(
    client: QdrantClient, leases: Make, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not hasattr(client, "folder"):
        pytest.skip("a server serves many processes")
    take(leases("killed"), target)
    monkeypatch.setattr("os.getpid", lambda: 1)
    leases("next").check(target.alias, target.collection)
    take(leases("next"), target)


def test_a_store_that_fails_does_not_end_the_renewing(
    client: QdrantClient, leases: Make, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = leases("one")
    take(own, target)

    def fails(self: QdrantClient, *args: object, **kwargs: object) -> None:
        raise ValueError("no")

    with monkeypatch.context() as patch:
        patch.setattr(type(client), "upsert", fails)
        own.renew()
    own.renew()
    own.release()
    assert points(client, target.collection) == {}


def test_a_lease_that_could_not_be_let_go_of_does_not_keep_its_process_out(
    client: QdrantClient, leases: Make, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: QdrantClient, *args: object, **kwargs: object) -> None:
        raise ValueError("no")

    with monkeypatch.context() as patch, leases("one") as own:
        take(own, target)
        patch.setattr(type(client), "delete", fails)
    assert points(client, target.collection)[lease_id(target.alias)][0]["holder"] == "one"
    leases("next").check(target.alias, target.collection)
    take(leases("next"), target)
    with pytest.raises(LeaseHeld, match="another run, next"):
        take(leases("third"), target)


def test_a_lease_is_renewed_while_the_run_lasts(client: QdrantClient, target: Target, clock: Clock) -> None:
    renewed: list[bool] = []

    class Watched(Leases):
        def renew(self) -> None:
            super().renew()
            renewed.append(True)
            self._ended.set()

    own = Watched(client, "one", clock=clock, every=0.01)
    take(own, target)
    assert own._thread is not None
    own._thread.join(timeout=60)
    assert renewed == [True]
    own.release()


def test_a_collection_that_is_gone_is_told_of(leases: Make, target: Target) -> None:
    with pytest.raises(StoreError, match="no_such_collection"):
        leases("one").acquire(target.alias, "no_such_collection", None)


def test_two_clients_of_one_store_exclude_each_other(target: Target, leases: Make, clock: Clock) -> None:
    first = leases("first")
    take(first, target)
    folder = getattr(first.client, "folder", None)
    if folder is None:
        pytest.skip("embedded only")
    with connect(path=folder) as other, pytest.raises(LeaseHeld):
        take(Leases(other, "second", clock=clock, every=0), target)
