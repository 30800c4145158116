"""What a run will do with each document: a pure function of the listing and the journal.

Content decides, never time stamps. Deletions are the dangerous half: a document that is not listed has vanished only if the listing
was complete and covered the corpus, and many vanished at once look like a disk that is not mounted, so they are withheld until the
run is told to go ahead. A document that vanished while its content turned up under another uri has moved, and one whose content is
stored under another uri is no loss; no guard counts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import NamedTuple

from chunkers import ids
from stores.journal import DONE, DocumentState

# More vanished documents than both of these are not believed.
MOST_VANISHED = 10
MOST_VANISHED_SHARE = 0.1


class Move(NamedTuple):
    """A document that is at another uri now: where it is stored, and where its content was found."""

    state: DocumentState
    uri: str


@dataclass(frozen=True, slots=True)
class Plan:
    """Uris by what is to be done, sorted; states for documents that are no longer in the source.

    Attributes:
        new: never stored.
        changed: stored from other content.
        moved: stored under another uri, which is no longer in the source. Their new uris are in none of the other lists.
        unfinished: of the same content as the last attempt, which did not end as done.
        parked: unfinished too, but tried in vain so often that it is left alone until its content changes.
        unchanged: stored from this content.
        unknown: listed but unreadable: left as they are.
        vanished: to be deleted.
        withheld: vanished, but not to be deleted in this run.
    """

    new: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    moved: list[Move] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    parked: list[DocumentState] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    vanished: list[DocumentState] = field(default_factory=list)
    withheld: list[DocumentState] = field(default_factory=list)

    def wanted(self) -> list[str]:
        """Uris of the documents that are to be written."""
        return [*self.new, *self.changed, *self.unfinished, *(move.uri for move in self.moved)]

    def as_names(self) -> dict[str, list[str]]:
        """The documents of each list by name; of a moved one, where it was and where it is."""
        return {
            "new": list(self.new),
            "changed": list(self.changed),
            "moved": [f"{move.state.uri} -> {move.uri}" for move in self.moved],
            "unfinished": list(self.unfinished),
            "parked": [state.uri for state in self.parked],
            "unchanged": list(self.unchanged),
            "vanished": [state.uri for state in self.vanished],
            "withheld": [state.uri for state in self.withheld],
        }


def plan_documents(
    listing: Mapping[str, str | None],
    journal: Mapping[str, DocumentState],
    *,
    corpus: str,
    complete: bool,
    partial: bool,
    allow_deletes: int = 0,
    retry_parked: bool = False,
) -> Plan:
    """Compares a listing with a journal.

    Args:
        listing: content hash by uri; None for a file that is there but could not be read.
        journal: states by document id.
        corpus: the corpus's name, which ids are made from.
        complete: the listing saw everything below the source.
        partial: the source is a part of the corpus and says nothing of the rest.
        allow_deletes: how many documents may be deleted although the guards would hold them back.
        retry_parked: try parked documents again.
    """
    plan = Plan()
    listed = set()
    for uri, content_hash in sorted(listing.items()):
        doc_id = ids.document_id(corpus, uri)
        listed.add(doc_id)
        state = journal.get(doc_id)
        if content_hash is None:
            plan.unknown.append(uri)
        elif state is None:
            plan.new.append(uri)
        elif state.content_hash != content_hash:
            plan.changed.append(uri)
        elif state.status == DONE:
            plan.unchanged.append(uri)
        elif state.parked and not retry_parked:
            plan.parked.append(state)
        else:
            plan.unfinished.append(uri)
    if partial:
        return plan
    gone = sorted((state for doc_id, state in journal.items() if doc_id not in listed), key=lambda state: state.uri)
    if complete:
        gone, left_over = _without_moved(plan, gone, listing)
        # What is stored under another uri, too, is no loss to anybody.
        plan.vanished.extend(left_over)
    too_many = len(gone) > MOST_VANISHED and len(gone) > MOST_VANISHED_SHARE * len(journal)
    suspicious = not complete or not listing or too_many
    held = suspicious and len(gone) > allow_deletes
    (plan.withheld if held else plan.vanished).extend(gone)
    return plan


def _without_moved(
    plan: Plan, gone: Iterable[DocumentState], listing: Mapping[str, str | None]
) -> tuple[list[DocumentState], list[DocumentState]]:
    """Takes the moved documents from `plan`'s other lists; the rest of `gone`, and those whose content is stored elsewhere, too."""
    arrived: dict[str | None, list[str]] = {}
    for uri in sorted([*plan.new, *plan.changed, *plan.unfinished]):
        arrived.setdefault(listing[uri], []).append(uri)
    stored = {listing[uri] for uri in plan.unchanged}
    waiting = {state.content_hash for state in plan.parked}
    rest, left_over = [], []
    moved = set()
    for state in gone:
        places = arrived.get(state.content_hash)
        if places:
            # The same kind of file first: only then its chunks are the same too.
            uri = min(places, key=lambda place: (suffix(place) != suffix(state.uri), place))
            places.remove(uri)
            moved.add(uri)
            plan.moved.append(Move(state, uri))
        elif state.content_hash in stored:
            left_over.append(state)
        elif state.content_hash in waiting:
            # Readers have what is stored there until its content is stored at the new place.
            continue
        else:
            rest.append(state)
    for uris in (plan.new, plan.changed, plan.unfinished):
        uris[:] = [uri for uri in uris if uri not in moved]
    return rest, left_over


def suffix(uri: str) -> str:
    """The extension of a uri, in lower case."""
    return PurePosixPath(uri).suffix.lower()
