from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import models

from stores.batches import point_batches, point_bytes


def point(size: int, dimensions: int = 0) -> models.PointStruct:
    vector = [0.123456789] * dimensions
    return models.PointStruct(id=1, vector=vector or {}, payload={"text": "x" * size})


@given(st.lists(st.integers(0, 3000).map(point), max_size=40), st.integers(1, 10), st.integers(100, 5000))
def test_batches_keep_order_and_both_bounds(made: list[models.PointStruct], most: int, most_bytes: int) -> None:
    batches = list(point_batches(made, most, most_bytes))
    assert [one for batch in batches for one in batch.points] == made
    for batch in batches:
        assert batch.bytes == sum(map(point_bytes, batch.points))
        assert batch.points
        assert len(batch.points) <= most
        assert len(batch.points) == 1 or batch.bytes <= most_bytes


def test_a_hundred_large_payloads_take_several_requests_under_8_mb() -> None:
    batches = list(point_batches([point(500_000) for _ in range(100)]))
    assert len(batches) > 5
    assert all(batch.bytes <= 8_000_000 for batch in batches)


def test_the_estimate_is_near_the_size_of_the_json_and_not_below_it() -> None:
    for made in (point(1000), point(1000, 256), point(5, 3072)):
        vector = [-0.12345678901234567] * len(made.vector or [])
        real = len(json.dumps({"id": "0" * 36, "vector": vector, "payload": made.payload}))
        assert real * 0.9 <= point_bytes(made) <= real * 1.1 + 60


def test_text_outside_ascii_counts_its_bytes() -> None:
    assert point_bytes(models.PointStruct(id=1, vector={}, payload={"text": "文" * 100})) > 300
