"""What must be written and deleted so that a document is stored as it is now: a pure function of what may be stored and what is wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stores.payloads import same_but_for_stamp

Payloads = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Changes:
    """Ids by what is to be done with them, each in the order of the document.

    Attributes:
        embed: chunks to be written whole, with new vectors.
        restamp: chunks whose vectors stand and whose payload is to be written again.
        parents: parents to be written.
        delete: points that are no longer wanted, in the order of the journal: chunks before their parents.
    """

    embed: tuple[str, ...] = ()
    restamp: tuple[str, ...] = ()
    parents: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()


def changes(known: Iterable[str], chunks: Payloads, parents: Payloads, stored: Payloads) -> Changes:
    """The changes that make one document's points the wanted ones.

    A document of which nothing differs but the time of ingestion is left as it is; otherwise every one of its points gets the new
    stamp, so that all of them tell the same.

    Args:
        known: ids that the journal names, chunks first: each may be stored.
        chunks, parents: wanted payloads by id.
        stored: payloads found in the store, by id; of wanted ids at least.
    """
    embed = tuple(id_ for id_, payload in chunks.items() if not _same_vectors(stored.get(id_), payload))
    stale = tuple(id_ for id_ in known if id_ not in chunks and id_ not in parents)
    wanted = {**chunks, **parents}
    if (
        not embed
        and not stale
        and all(id_ in stored and same_but_for_stamp(stored[id_], wanted[id_]) for id_ in wanted)
    ):
        return Changes()
    new = set(embed)
    return Changes(embed, tuple(id_ for id_ in chunks if id_ not in new), tuple(parents), stale)


def same_embedding(stored: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> bool:
    """Whether a chunk's dense vector is that of the wanted text."""
    return stored is not None and stored.get("embedding_hash") == wanted["embedding_hash"]


def _same_vectors(stored: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> bool:
    """Whether both of a chunk's vectors stand: the words of the sparse one are stemmed by the language."""
    return same_embedding(stored, wanted) and _language(stored) == _language(wanted)


def _language(payload: Mapping[str, Any] | None) -> Any:
    return ((payload or {}).get("metadata") or {}).get("language")
