"""Points of one collection: read, written and deleted in requests of bounded size, each tried again while that helps, each confirmed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from qdrant_client import QdrantClient, models

from stores import batches, payloads
from stores.batches import Batch
from stores.errors import RequestTooLarge, StoreError
from stores.transport import confirm, send

_IDS = 1000  # ids in one request
_WHOLE = 200  # points read with their vectors in one request


class Points:
    """The points of `collection`. Every method may be called twice with the same arguments to no harm.

    Every method raises StoreError when the store does not do it.
    """

    def __init__(self, client: QdrantClient, collection: str) -> None:
        self.client = client
        self.collection = collection

    def records(self, ids: Sequence[str]) -> dict[str, models.Record]:
        """Those of `ids` that are stored, with payloads and vectors."""
        found: dict[str, models.Record] = {}
        for part in _parts(ids, _WHOLE):
            records = send(
                f"read points of {self.collection}",
                lambda part=part: self.client.retrieve(  # type: ignore[misc]
                    self.collection, ids=part, with_payload=True, with_vectors=True
                ),
            )
            found.update({str(record.id): record for record in records})
        return found

    def payloads(self, ids: Sequence[str | int]) -> dict[str, dict[str, Any]]:
        """The payloads of those of `ids` that are stored."""
        found: dict[str, dict[str, Any]] = {}
        for part in _parts(ids):
            records = send(
                f"read points of {self.collection}",
                lambda part=part: self.client.retrieve(self.collection, ids=part, with_payload=True),  # type: ignore[misc]
            )
            found.update({str(record.id): record.payload or {} for record in records})
        return found

    def upsert(self, points: Iterable[models.PointStruct]) -> None:
        """Writes points whole.

        Raises:
            StoreError: also for a point that is larger than any request may be.
        """

        def write(points: list[models.PointStruct]) -> None:
            confirm(self.client.upsert(self.collection, points=points, wait=True))

        for batch in batches.point_batches(points):
            self._send("write", batch, write)

    def overwrite_payloads(self, wanted: Mapping[str, dict[str, Any]]) -> None:
        """Writes payloads of points that are stored, and leaves their vectors."""

        def overwrite(points: list[models.PointStruct]) -> None:
            operations = [
                models.OverwritePayloadOperation(
                    overwrite_payload=models.SetPayload(payload=point.payload or {}, points=[point.id])
                )
                for point in points
            ]
            for result in self.client.batch_update_points(self.collection, operations, wait=True):
                confirm(result)

        for batch in batches.point_batches(payloads.point(id_, payload) for id_, payload in wanted.items()):
            self._send("update the payloads of", batch, overwrite)

    def _send(self, doing: str, batch: Batch, write: Callable[[list[models.PointStruct]], None]) -> None:
        """`write(batch.points)`, in halves as long as the server takes only smaller requests."""
        first = batch.points[0]
        if len(batch.points) == 1 and batch.bytes > batches.LARGEST_POINT:
            raise StoreError(
                f"{_place(first)}: a point of {batch.bytes:,} bytes is larger than any request may be (point {first.id})"
            )
        what = f"{doing} {len(batch.points)} points ({batch.bytes:,} bytes) in {self.collection}"
        try:
            send(what, lambda: write(batch.points))
        except RequestTooLarge as error:
            if len(batch.points) == 1:
                raise StoreError(
                    f"{_place(first)}: a point of {batch.bytes:,} bytes is larger than the server takes: {error}"
                ) from error
            for half in batch.halves():
                self._send(doing, half, write)

    def delete(self, ids: Sequence[str | int]) -> None:
        """Deletes points and checks that they are gone."""
        for part in _parts(ids):

            def delete(part: list[Any] = part) -> None:
                confirm(self.client.delete(self.collection, models.PointIdsList(points=part), wait=True))

            send(f"delete points of {self.collection}", delete)
        left = 0
        for part in _parts(ids):
            left += len(
                send(
                    f"read points of {self.collection}",
                    lambda part=part: self.client.retrieve(self.collection, ids=part, with_payload=False),  # type: ignore[misc]
                )
            )
        if left:
            raise StoreError(f"{left} points of {self.collection} are still there after they were deleted")


def _place(point: models.PointStruct) -> str:
    """The uri of the document that a point belongs to; of a point that names none, its id."""
    payload = point.payload or {}
    return str(payload.get("uri") or (payload.get("metadata") or {}).get("source") or point.id)


def _parts(ids: Sequence[str | int], size: int = _IDS) -> Iterator[list[Any]]:
    for begin in range(0, len(ids), size):
        yield list(ids[begin : begin + size])
