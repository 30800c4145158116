"""What a search gives: hits, each with its place and, where the strategy has them, the parent around it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from qdrant_client import models


@dataclass(frozen=True, slots=True)
class ParentText:
    """The parent of a hit."""

    text: str
    start_char: int
    end_char: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage.

    Attributes:
        score: the higher the better; in mode `dense` the cosine with the query, in `sparse` the BM25 score, in `hybrid` the sum of
            reciprocal ranks. Scores of two modes, or of two collections, cannot be compared.
        text: of the chunk.
        source: uri of its document.
        start_char, end_char: where in the document's text, in code points.
        headings: the path that it stands under.
        context: what was put before it when it was embedded, or None.
        parent: the larger passage around it, or None.
        metadata: all of the chunk's metadata.
    """

    score: float
    text: str
    source: str
    start_char: int
    end_char: int
    headings: list[str]
    context: str | None
    parent: ParentText | None
    metadata: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """The fields that `search --json` prints."""
        told = asdict(self)
        del told["metadata"]
        return told

    @classmethod
    def from_point(cls, point: models.ScoredPoint, parents: Mapping[str, ParentText]) -> Hit:
        """The hit that a found chunk is.

        Args:
            point: with its payload.
            parents: by id.
        """
        payload = point.payload or {}
        metadata = payload.get("metadata") or {}
        return cls(
            score=point.score,
            text=payload["text"],
            source=metadata["source"],
            start_char=metadata["start_char"],
            end_char=metadata["end_char"],
            headings=list(metadata["headings"]),
            context=payload.get("context"),
            parent=parents.get(str(payload.get("parent_id"))),
            metadata=metadata,
        )
