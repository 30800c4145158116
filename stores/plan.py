"""What a run will do with each document: a pure function of the listing and the journal.

Content decides, never time stamps. Deletions are the dangerous half: a document that is not listed has vanished only if the listing
was complete and covered the corpus, and many vanished at once look like a disk that is not mounted, so they are withheld until the
run is told to go ahead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chunkers import ids
from stores.journal import DONE, JournalRow

# More vanished documents than both of these are not believed.
MOST_VANISHED = 10
MOST_VANISHED_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """Uris by what is to be done, sorted; rows for documents that are no longer in the source.

    Attributes:
        new: never stored.
        changed: stored from other content.
        unfinished: of the same content as the last attempt, which did not end as done.
        unchanged: stored from this content.
        unknown: listed but unreadable: left as they are.
        vanished: to be deleted.
        withheld: vanished, but not to be deleted in this run.
    """

    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    vanished: list[JournalRow] = field(default_factory=list)
    withheld: list[JournalRow] = field(default_factory=list)


def plan_documents(
    listing: Mapping[str, str | None],
    journal: Mapping[str, JournalRow],
    *,
    corpus: str,
    complete: bool,
    partial: bool,
    allow_deletes: int = 0,
) -> Plan:
    """Compares a listing with a journal.

    Args:
        listing: content hash by uri; None for a file that is there but could not be read.
        journal: rows by document id.
        corpus: the corpus's name, which ids are made from.
        complete: the listing saw everything below the source.
        partial: the source is a part of the corpus and says nothing of the rest.
        allow_deletes: how many documents may be deleted although the guards would hold them back.
    """
    plan = Plan()
    listed = set()
    for uri, content_hash in sorted(listing.items()):
        doc_id = ids.document_id(corpus, uri)
        listed.add(doc_id)
        row = journal.get(doc_id)
        if content_hash is None:
            plan.unknown.append(uri)
        elif row is None:
            plan.new.append(uri)
        elif row.content_hash != content_hash:
            plan.changed.append(uri)
        elif row.status != DONE:
            plan.unfinished.append(uri)
        else:
            plan.unchanged.append(uri)
    if partial:
        return plan
    gone = sorted((row for doc_id, row in journal.items() if doc_id not in listed), key=lambda row: row.uri)
    too_many = len(gone) > MOST_VANISHED and len(gone) > MOST_VANISHED_SHARE * len(journal)
    suspicious = not complete or not listing or too_many
    held = suspicious and len(gone) > allow_deletes
    (plan.withheld if held else plan.vanished).extend(gone)
    return plan
