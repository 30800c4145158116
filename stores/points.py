"""Points of one collection: read, written and deleted in requests of bounded size, each tried again while that helps, each confirmed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from qdrant_client import QdrantClient, models

from stores import batches, payloads
from stores.errors import StoreError
from stores.transport import NotApplied, send

_IDS = 1000  # ids in one request


class Points:
    """The points of `collection`. Every method may be called twice with the same arguments to no harm.

    Every method raises StoreError when the store does not do it.
    """

    def __init__(self, client: QdrantClient, collection: str) -> None:
        self._client = client
        self._collection = collection

    def payloads(self, ids: Sequence[str]) -> dict[str, dict[str, Any]]:
        """The payloads of those of `ids` that are stored."""
        found: dict[str, dict[str, Any]] = {}
        for part in _parts(ids):
            records = send(
                f"read points of {self._collection}",
                lambda part=part: self._client.retrieve(self._collection, ids=part, with_payload=True),  # type: ignore[misc]
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
                _confirm(self._client.upsert(self._collection, points=batch, wait=True))

            send(f"write {len(batch)} points to {self._collection}", write)

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
                for result in self._client.batch_update_points(self._collection, operations, wait=True):
                    _confirm(result)

            send(f"update payloads of {self._collection}", overwrite)

    def delete(self, ids: Sequence[str]) -> None:
        """Deletes points and checks that they are gone."""
        for part in _parts(ids):

            def delete(part: list[Any] = part) -> None:
                _confirm(self._client.delete(self._collection, models.PointIdsList(points=part), wait=True))

            send(f"delete points of {self._collection}", delete)
        left = self.payloads(ids)
        if left:
            raise StoreError(f"{len(left)} points of {self._collection} are still there after they were deleted")


def _confirm(result: models.UpdateResult | None) -> None:
    """Raises NotApplied for a write that the server took but did not apply: `wait_timeout` comes with HTTP 200."""
    if result is None or result.status != models.UpdateStatus.COMPLETED:
        raise NotApplied(f"the write was taken but not applied ({result.status.value if result else 'no answer'})")


def _parts(ids: Sequence[str]) -> Iterator[list[Any]]:
    for begin in range(0, len(ids), _IDS):
        yield list(ids[begin : begin + _IDS])
