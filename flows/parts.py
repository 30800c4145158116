"""A part of a run for another process: one strategy's work on one batch, in so few bytes that nothing large passes through Prefect.

It says what to do and by what the worker recognises that it does the right thing: the run that must hold the lease, and the recipe that
the collection must be made with. It holds no text, no vector and no key: a worker reads files, settings and keys where it is.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple, Self

from chunkers.ids import document_id
from flows.ingestion import Ingestion
from flows.sources import Entry
from stores import Pending


class Row(NamedTuple):
    """A document of a part.

    Attributes:
        uri, size, content_hash: as it was listed.
        path: below the root, or absolute, where it is spelt otherwise than the uri.
        moved_from: the id that it is stored under, if it was at another place before.
    """

    uri: str
    size: int
    content_hash: str
    path: str | None = None
    moved_from: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """One strategy's work on one batch.

    Attributes:
        run_id: of the run.
        corpus, root, strategy, collection, alias, live: what is written where.
        lease: the collection that the lease of the alias lies in.
        fingerprint: of the recipe.
        given: settings that were given for the run.
        number: of the batch, from 1.
        rows: the documents that the strategy needs.
    """

    run_id: str
    corpus: str
    root: str
    strategy: str
    collection: str
    alias: str
    live: bool
    lease: str
    fingerprint: str
    given: Mapping[str, str]
    number: int
    rows: Sequence[Row]

    def packed(self) -> bytes:
        """The part as bytes, which Prefect passes on without looking into them."""
        told = json.dumps({**asdict(self), "rows": [list(row) for row in self.rows]}, separators=(",", ":"))
        return zlib.compress(told.encode("ascii"))

    @classmethod
    def unpacked(cls, packed: bytes) -> Self:
        """The part that `packed` made."""
        part = cls(**json.loads(zlib.decompress(packed)))
        return replace(part, rows=[Row(*row) for row in part.rows])

    @property
    def entries(self) -> list[Entry]:
        """The listed files."""
        return [Entry(row.uri, Path(self.root, row.path or row.uri), row.size) for row in self.rows]

    @property
    def pending(self) -> list[Pending]:
        """The documents as the journal is told of them."""
        return [Pending(document_id(self.corpus, row.uri), row.uri, row.content_hash) for row in self.rows]

    @property
    def moved(self) -> dict[str, str]:
        """The ids that documents had where they were stored before, by their ids now."""
        return {document_id(self.corpus, row.uri): row.moved_from for row in self.rows if row.moved_from}


def part_of(ingestion: Ingestion, name: str, batch: Sequence[Entry], number: int) -> Part:
    """One strategy's work on a batch of a run."""
    own, root = ingestion.own(name), str(ingestion.listing.root)
    moved = {move.uri: move.state.doc_id for move in own.plan.moved}
    rows = [
        Row(
            entry.uri,
            entry.size,
            pending.content_hash,
            _spelt(entry, root),
            moved.get(entry.uri),
        )
        for entry, pending in zip(batch, ingestion.pending(batch), strict=True)
        if entry.uri in own.wanted
    ]
    return Part(
        run_id=ingestion.run_id,
        corpus=ingestion.corpus,
        root=root,
        strategy=name,
        collection=own.target.collection,
        alias=own.target.alias,
        live=own.target.live,
        lease=ingestion.leases.home(own.target.alias),
        fingerprint=own.target.recipe.fingerprint(),
        given=ingestion.settings.given,
        number=number,
        rows=rows,
    )


def _spelt(entry: Entry, root: str) -> str | None:
    if Path(root, entry.uri) == entry.path:
        return None
    return str(entry.path.relative_to(root) if entry.path.is_relative_to(root) else entry.path)
