"""Points of one collection: read, written and deleted in requests of bounded size, each tried again while that helps, each confirmed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from qdrant_client import QdrantClient, models

from stores import batches, payloads
from stores.errors import StoreError
from stores.transport import NotApplied, send

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
        for batch in batches.point_batches(points):
            if len(batch) == 1 and batches.point_bytes(batch[0]) > batches.LARGEST_POINT:
                raise StoreError(
                    f"a point of {batches.point_bytes(batch[0]):,} bytes is larger than any request may be"
                )

            def write(batch: list[models.PointStruct] = batch) -> None:
                _confirm(self.client.upsert(self.collection, points=batch, wait=True))

            send(f"write {len(batch)} points to {self.collection}", write)

    def overwrite_payloads(self, wanted: Mapping[str, dict[str, Any]]) -> None:
        """Writes payloads of points that are stored, and leaves their vectors."""
        points = (payloads.point(id_, payload) for id_, payload in wanted.items())
        for batch in batches.point_batches(points):
            operations = [
                models.OverwritePayloadOperation(
                    overwrite_payload=models.SetPayload(payload=point.payload or {}, points=[point.id])
                )
                for point in batch
            ]

            def overwrite(operations: list[Any] = operations) -> None:
                for result in self.client.batch_update_points(self.collection, operations, wait=True):
                    _confirm(result)

            send(f"update payloads of {self.collection}", overwrite)

    def delete(self, ids: Sequence[str | int]) -> None:
        """Deletes points and checks that they are gone."""
        for part in _parts(ids):

            def delete(part: list[Any] = part) -> None:
                _confirm(self.client.delete(self.collection, models.PointIdsList(points=part), wait=True))

            send(f"delete points of {self.collection}", delete)
        left = self.payloads(ids)
        if left:
            raise StoreError(f"{len(left)} points of {self.collection} are still there after they were deleted")


def _confirm(result: models.UpdateResult | None) -> None:
    """Raises NotApplied for a write that the server took but did not apply: `wait_timeout` comes with HTTP 200."""
    if result is None or result.status != models.UpdateStatus.COMPLETED:
        raise NotApplied(f"the write was taken but not applied ({result.status.value if result else 'no answer'})")


def _parts(ids: Sequence[str | int], size: int = _IDS) -> Iterator[list[Any]]:
    for begin in range(0, len(ids), size):
        yield list(ids[begin : begin + size])
