"""How points are grouped into requests: a pure rule, bounded by their number and by the bytes of the JSON they become."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from qdrant_client import models

POINTS = 128
BYTES = 8_000_000
# What a server takes in one request (service.max_request_size_mb), less some room for what surrounds the points.
LARGEST_POINT = 32_000_000

_BYTES_PER_NUMBER = 21  # a float32 written as a double, and a comma


@dataclass(frozen=True, slots=True)
class Batch:
    """Points of one request, and about how many bytes they have in it."""

    points: list[models.PointStruct]
    bytes: int

    def halves(self) -> list[Batch]:
        """The same points in two requests."""
        middle = len(self.points) // 2
        parts = self.points[:middle], self.points[middle:]
        return [Batch(part, sum(map(point_bytes, part))) for part in parts]


def point_bytes(point: models.PointStruct) -> int:
    """About how many bytes a point has in a request."""
    payload = len(json.dumps(point.payload or {}, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return payload + _numbers(point.vector) * _BYTES_PER_NUMBER + 60


def _numbers(vector: Any) -> int:
    if isinstance(vector, Mapping):
        return sum(_numbers(part) for part in vector.values())
    if isinstance(vector, models.SparseVector):
        return 2 * len(vector.values)
    return len(vector) if vector is not None else 0


def point_batches(
    points: Iterable[models.PointStruct], most_points: int = POINTS, most_bytes: int = BYTES
) -> Iterator[Batch]:
    """`points` in order, in batches of at most `most_points` points and `most_bytes` bytes. A larger point is alone in its batch."""
    batch: list[models.PointStruct] = []
    total = 0
    for point in points:
        size = point_bytes(point)
        if batch and (len(batch) == most_points or total + size > most_bytes):
            yield Batch(batch, total)
            batch, total = [], 0
        batch.append(point)
        total += size
    if batch:
        yield Batch(batch, total)
