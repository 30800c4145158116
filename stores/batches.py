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
_BYTES_PER_TERM = 30  # the id and the weight of a word, and two commas
_BYTES_AROUND = 70  # an id and the names of the fields


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
    """About how many bytes a point has in a request. A request of many payloads without vectors has a few more for each."""
    return _json_bytes(point.payload or {}) + _vector_bytes(point.vector) + _BYTES_AROUND


def _vector_bytes(vector: Any) -> int:
    if isinstance(vector, Mapping):
        return sum(len(name) + 4 + _vector_bytes(part) for name, part in vector.items())
    if isinstance(vector, models.SparseVector):
        return len(vector.indices) * _BYTES_PER_TERM + _BYTES_AROUND
    # To write one would take longer than to send it.
    return len(vector) * _BYTES_PER_NUMBER if vector is not None else 0


def _json_bytes(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass"))


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
