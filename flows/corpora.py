"""Which corpus a source belongs to: a pure rule over the corpora that are stored already.

A corpus is a named set of documents below one root. A folder is a corpus of its own, named after itself. One file, or a glob, is part
of the innermost stored corpus whose root holds it, so that a single page of a corpus can be ingested again without naming it;
where no corpus holds it, it starts one that is named after its folder. A name given on the command line decides, and then a source
inside that corpus's root is a part of it, too.
"""

from __future__ import annotations

import dataclasses
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from flows.patterns import Pattern
from flows.sources import Listing, SourceError
from stores import check_corpus, corpus_slug


def choose_corpus(listing: Listing, name: str | None, roots: Mapping[str, str]) -> str:
    """The name of the corpus that `listing` belongs to.

    Args:
        listing: of the source.
        name: as asked for, or None.
        roots: root folder of each stored corpus, by name.

    Raises:
        SettingError: `name` is no legal corpus name.
    """
    if name is not None:
        return check_corpus(name)
    if listing.partial:
        around = [corpus for corpus, root in roots.items() if _holds(root, listing.root)]
        if around:
            return max(around, key=lambda corpus: len(Path(roots[corpus]).parts))
    return corpus_slug(listing.root.name)


def _holds(root: str, folder: Path) -> bool:
    """Whether a listing of `root` would walk into `folder`: hidden folders are left out of it."""
    return folder.is_relative_to(root) and not any(part.startswith(".") for part in folder.relative_to(root).parts)


def rebase(listing: Listing, root: str | None) -> Listing:
    """`listing` as a part of the corpus below `root`, if that folder lies around it; else `listing` as it is."""
    if root is None or Path(root) == listing.root or not listing.root.is_relative_to(root):
        return listing
    prefix = unicodedata.normalize("NFC", listing.root.relative_to(root).as_posix())
    return dataclasses.replace(
        listing,
        root=Path(root),
        entries=[dataclasses.replace(entry, uri=f"{prefix}/{entry.uri}") for entry in listing.entries],
        skipped=[dataclasses.replace(row, document=f"{prefix}/{row.document}") for row in listing.skipped],
        partial=True,
    )


def restrict(listing: Listing, documents: Collection[str]) -> Listing:
    """`listing` with no other documents than those, which makes it partial."""
    entries = [entry for entry in listing.entries if entry.uri in documents]
    return dataclasses.replace(listing, entries=entries, skipped=[], partial=True)


def select(listing: Listing, globs: Sequence[str]) -> Listing:
    """`listing` with the documents and skipped files that some glob names, which makes it partial.

    Args:
        listing: of a source.
        globs: patterns of paths below the listing's root, such as `guides/**/*.md`; `**` stands for any number of folders. One that is
            the very name of a document, such as `[draft].md`, names that one alone.

    Raises:
        SourceError: a glob is empty, absolute or names no document, so that a misspelt one is not taken for "nothing to do".
    """
    named: set[str] = set()
    names = [entry.uri for entry in listing.entries] + [row.document for row in listing.skipped]
    for glob in globs:
        told = glob.strip()
        if not told or told.startswith("/") or ".." in told.split("/"):
            raise SourceError(
                f"documents: {glob!r} cannot be used; it must be a glob below {listing.root}, such as 'guides/**/*.md'"
            )
        pattern = Pattern(told.removeprefix("./").split("/"))
        literal = {unicodedata.normalize("NFC", given) for given in (glob, told.removeprefix("./"))}
        found = literal.intersection(names) or {name for name in names if pattern.matches(name)}
        if not found:
            raise SourceError(
                f"documents: {glob!r} names no document below {listing.root}; write '**' for folders within folders"
            )
        named |= found
    skipped = [row for row in listing.skipped if row.document in named]
    return dataclasses.replace(restrict(listing, named), skipped=skipped)
