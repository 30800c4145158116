"""Every request that this project sends, answered badly by a server: what is tried again ends stored once, what is not is one line."""

from __future__ import annotations

import re

import httpx
import pytest

from stores import Leases, StoreError, make_target
from stores.transport import send
from tests.qdrant_server import Fault, dropped, garbage, hanging, not_waited_for, overloaded, status
from tests.stores.served import IDS, OPERATIONS, Operation, Store, chunk, serving, store, waits

__all__ = ["serving", "store", "waits"]

PASSING = {
    "429 for 7 seconds": overloaded("7"),
    "500": status(500, "Service internal error: it panicked"),
    "dropped before it was applied": dropped(applied=False),
    "dropped after it was applied": dropped(applied=True),
}
PERMANENT = {
    "400": status(400, "Wrong input: Vector dimension error: expected dim: 8, got 7"),
    "a page instead of JSON": garbage(),
}
STAYING = {
    "429": (overloaded("9"), True, [9.0] * 4),
    "500": (status(500, "Service internal error"), False, None),
    "503": (status(503, "still starting"), True, None),
    "dropped": (dropped(applied=False), True, None),
}
WRITES = [name for name, operation in OPERATIONS.items() if operation.writes]


@pytest.fixture
def operation(request: pytest.FixtureRequest, store: Store) -> Operation:
    made = OPERATIONS[request.param]
    made.prepare(store)
    store.server.requests.clear()
    return made


def tries(store: Store, operation: Operation) -> int:
    return len(store.server.sent(operation.method, operation.path))


@pytest.mark.parametrize("operation", OPERATIONS, indirect=True)
@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
def test_what_may_pass_is_tried_again_and_ends_stored_once(
    store: Store, operation: Operation, fault: Fault, waits: list[float]
) -> None:
    store.server.fail(operation.method, operation.path, fault, fault)
    assert operation.do(store) == operation.given
    assert operation.stored(store)
    # A collection that was made by a request without an answer is there at the next try, and not made again.
    made_already = fault.drop and fault.applied and operation is OPERATIONS["create"]
    assert len(waits) == (1 if made_already else 2)
    if fault.headers:
        assert waits == [7.0, 7.0]


@pytest.mark.parametrize("http", [408, 409, 429, 502, 503, 504])
def test_every_answer_that_tells_of_a_passing_state_is_tried_again(store: Store, http: int, waits: list[float]) -> None:
    store.server.fail("PUT", "/points", status(http), status(http))
    store.points.upsert([chunk(id_) for id_ in IDS])
    assert sorted(store.stored()) == IDS
    assert len(waits) == 2


@pytest.mark.parametrize("operation", WRITES, indirect=True)
def test_a_write_that_is_not_applied_yet_is_sent_again(store: Store, operation: Operation, waits: list[float]) -> None:
    store.server.fail(operation.method, operation.path, not_waited_for(), not_waited_for())
    assert operation.do(store) == operation.given
    assert operation.stored(store)
    assert len(waits) == 2


@pytest.mark.parametrize("operation", OPERATIONS, indirect=True)
@pytest.mark.parametrize("fault", PERMANENT.values(), ids=PERMANENT)
def test_what_will_not_pass_is_one_try_and_one_line_of_what_and_where(
    store: Store, operation: Operation, fault: Fault, waits: list[float]
) -> None:
    store.server.fail(operation.method, operation.path, always=fault)
    where = store.server.url if operation is OPERATIONS["connect"] else "docs__"
    why = "an answer that cannot be read from Qdrant" if fault.applied else "Qdrant answered 400 Bad Request"
    with pytest.raises(StoreError, match=rf"^.*{where}.*: {why}.*$") as caught:
        operation.do(store)
    assert not caught.value.fatal
    assert (tries(store, operation), waits) == (1, [])


@pytest.mark.parametrize("operation", OPERATIONS, indirect=True)
@pytest.mark.parametrize("http", [401, 403])
def test_a_key_that_is_refused_is_fatal_at_the_first_try(
    store: Store, operation: Operation, http: int, waits: list[float]
) -> None:
    store.server.fail(operation.method, operation.path, always=status(http, "Invalid API key or JWT"))
    with pytest.raises(StoreError, match=f"Qdrant answered {http}.*Invalid API key") as caught:
        operation.do(store)
    assert caught.value.fatal
    assert (tries(store, operation), waits) == (1, [])


@pytest.mark.parametrize("operation", ["upsert", "delete", "scroll", "alias", "create"], indirect=True)
@pytest.mark.parametrize("name", STAYING)
def test_tries_are_bounded_and_what_concerns_every_request_is_fatal(
    store: Store, operation: Operation, name: str, waits: list[float]
) -> None:
    fault, fatal, asked = STAYING[name]
    store.server.fail(operation.method, operation.path, always=fault)
    with pytest.raises(StoreError) as caught:
        operation.do(store)
    assert caught.value.fatal == fatal
    assert len(waits) == 4
    assert asked is None or waits == asked
    assert tries(store, operation) == 5


def test_a_write_that_is_never_applied_ends_and_says_so(store: Store, waits: list[float]) -> None:
    store.server.fail("PUT", "/points", always=not_waited_for())
    with pytest.raises(StoreError, match=r"taken but not applied \(wait_timeout\)"):
        store.points.upsert([chunk(IDS[0])])
    assert len(waits) == 4


def test_a_longer_wait_than_two_minutes_is_not_waited_for(store: Store, waits: list[float]) -> None:
    store.server.fail("PUT", "/points", always=overloaded("3600"))
    with pytest.raises(StoreError, match="asks for a wait of 3600 seconds") as caught:
        store.points.upsert([chunk(IDS[0])])
    assert caught.value.fatal
    assert (len(store.server.sent("PUT", "/points")), waits) == (1, [])


def test_a_retry_after_that_is_a_date_is_a_rate_limit_all_the_same(store: Store, waits: list[float]) -> None:
    store.server.fail("PUT", "/points", overloaded("Wed, 21 Oct 2026 07:28:00 GMT"))
    store.points.upsert([chunk(IDS[0])])
    assert len(waits) == 1
    assert [*store.stored()] == IDS[:1]


@pytest.mark.parametrize("applied", [False, True], ids=["not applied", "applied"])
def test_a_write_that_times_out_is_sent_again_and_stored_once(store: Store, waits: list[float], applied: bool) -> None:
    store.server.fail("PUT", "/points", hanging(applied=applied))
    with store.server.client(timeout=1) as store.client:
        store.points.upsert([chunk(id_) for id_ in IDS])
    assert (len(store.server.sent("PUT", "/points")), len(waits)) == (2, 1)
    assert sorted(store.stored()) == IDS


def test_an_answer_that_stops_in_the_middle_is_asked_for_again(store: Store, waits: list[float]) -> None:
    store.points.upsert([chunk(id_) for id_ in IDS])
    store.server.fail("POST", "/points", hanging("inside"))
    with store.server.client(timeout=1) as store.client:
        assert [*store.points.payloads(IDS)] == IDS
    assert len(waits) == 1


def test_a_time_out_says_how_many_points_and_bytes_were_sent(store: Store) -> None:
    store.server.fail("PUT", "/points", always=hanging())
    with store.server.client() as store.client:
        # Shorter than the client's own arguments can make it.
        store.client._client.openapi_client.client._client.timeout = httpx.Timeout(10, read=0.05)  # type: ignore[attr-defined]
        told = r"^write 3 points \(([\d,]+) bytes\) in docs__recursive__1: no answer from Qdrant \(ReadTimeout"
        with pytest.raises(StoreError, match=told) as caught:
            store.points.upsert([chunk(id_, "x" * 5000) for id_ in IDS])
    match = re.match(told, str(caught.value))
    assert match is not None
    size = int(match[1].replace(",", ""))
    assert size == pytest.approx(store.server.sent("PUT", "/points")[0].size, rel=0.1)


def test_a_refused_connection_is_fatal_after_bounded_tries(store: Store, waits: list[float]) -> None:
    store.server.go_away()
    with pytest.raises(StoreError, match=r"docs__recursive__1: no answer from Qdrant \(ConnectError") as caught:
        store.points.upsert([chunk(IDS[0])])
    assert caught.value.fatal
    assert len(waits) == 4


def test_a_server_that_comes_back_meanwhile_is_used(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.server.go_away()
    monkeypatch.setitem(send.__kwdefaults__, "sleep", lambda seconds: store.server.come_back())  # type: ignore[arg-type]
    store.points.upsert([chunk(IDS[0])])
    assert [*store.stored()] == IDS[:1]


def test_a_lease_whose_end_is_not_confirmed_is_released_all_the_same(store: Store, waits: list[float]) -> None:
    with Leases(store.client, "run", every=0) as leases:
        leases.acquire(store.target.alias, store.target.collection, None)
        store.server.fail("POST", "/points/delete", dropped(applied=False), not_waited_for())
    assert store.stored() == {}
    assert len(waits) == 2


def test_a_collection_that_another_run_makes_meanwhile_keeps_its_points(store: Store, waits: list[float]) -> None:
    store.points.upsert([chunk(id_) for id_ in IDS])
    # What this run saw before the other one made it.
    unseen = Fault(body={"result": {"exists": False}, "status": "ok", "time": 0.0})
    store.server.fail("GET", "/docs__recursive__1/exists", unseen)
    assert make_target(store.client, store.target, "/docs").exists
    assert sorted(store.stored()) == IDS
    assert len(waits) == 1
