"""The points of a document that is at another uri now, made from those it has under the old one. Pure.

The content is the same, so chunks, contexts and vectors are; ids, which name the document, and what the payloads say of it are not.
A context keeps what it says, also where it named the file: it was paid for, and a rename should not be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from qdrant_client import models

from chunkers import Document, ids
from stores.journal import DONE, MOVING, JournalRow
from stores.payloads import clean, dense_vector
from stores.plan import suffix


@dataclass(frozen=True, slots=True)
class Relocated:
    """A moved document's points: payloads of chunks and parents, and dense vectors of the chunks, by their new ids in order."""

    chunks: dict[str, dict[str, Any]]
    parents: dict[str, dict[str, Any]]
    vectors: dict[str, Any]


def relocate(document: Document, old: JournalRow, records: Mapping[str, models.Record], stamp: str) -> Relocated | None:
    """The points of `document`, made from those stored for `old`; None if they cannot serve and it must be chunked anew.

    Args:
        document: as it is now.
        old: the journal's row of the place that it moved from.
        records: stored points of that place by id, with payloads and vectors.
        stamp: time of this ingestion.
    """
    if old.status not in (DONE, MOVING) or document.content_hash != old.content_hash:
        return None
    if suffix(document.uri) != suffix(old.uri):
        return None
    try:
        parents = _renamed(old.parent_ids, records, document, ids.parent_id, stamp)
        chunks = _renamed(old.chunk_ids, records, document, ids.chunk_id, stamp)
        for payload in chunks.values():
            if payload[1]["parent_id"] is not None:
                payload[1]["parent_id"] = parents[payload[1]["parent_id"]][0]
    except (KeyError, TypeError, AttributeError):
        return None
    vectors = {new: dense_vector(records[id_].vector) for id_, (new, _) in chunks.items()}
    if not all(vectors.values()):
        return None
    return Relocated(dict(chunks.values()), dict(parents.values()), vectors)


def _renamed(
    old_ids: Iterable[str],
    records: Mapping[str, models.Record],
    document: Document,
    make_id: Callable[[str, str, int], str],
    stamp: str,
) -> dict[str, tuple[str, dict[str, Any]]]:
    """New id and payload by old id, in the order of the text.

    Raises:
        KeyError: a point is missing, or is no slice of the document, or lacks a field.
    """
    seen: Counter[str] = Counter()
    told: dict[str, tuple[str, dict[str, Any]]] = {}
    for id_ in sorted(old_ids, key=lambda id_: (records[id_].payload or {})["metadata"]["start_char"]):
        payload = dict(records[id_].payload or {})
        place = payload["metadata"]
        text = payload["text"]
        if document.text[place["start_char"] : place["end_char"]] != text:
            raise KeyError(id_)
        payload["doc_id"] = document.id
        payload["metadata"] = {
            **place,
            "source": clean(document.uri),
            "title": clean(document.title),
            "language": document.language,
            "ingested_at": stamp,
        }
        told[id_] = (make_id(document.id, text, seen[text]), payload)
        seen[text] += 1
    return told
