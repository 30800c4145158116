"""What a source holds: the documents below a folder, one file, or the files that a glob names. No file is opened here.

A listing is the ground that deletions stand on, so it says how far it can be trusted. `complete` is False when a folder could not
be read: what lies there is unknown, not vanished. `partial` is True for one file or a glob, which say nothing of other documents.

How a source is read:

- A name that exists is taken literally, also one with brackets; otherwise `*`, `?` and `[...]` make it a glob, in which `**` stands
  for any number of folders. A glob names files: a folder that it matches is not walked. `~` is the home folder.
- The root is the folder itself, a file's own folder, or the longest part of a glob without a wildcard. It is made absolute, but links
  in it are not resolved. A document's uri is its path below the root in NFC, with `/` between the parts.
- Hidden files and folders (a name with a dot first) and the store's own folder are left out without a word, unless they are the
  source itself or a glob spells the dot. Everything else that is not read is in `skipped`, with the reason.
- Links to files are followed. A link to a folder is followed after all real folders, unless that folder is listed already or holds
  the root. A broken link may be a folder that is not mounted just now, so it makes the listing incomplete.
- Markdown and plain text are read, by the extensions in `MEDIA_TYPES`. Everything else is skipped.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from flows.file_names import MEDIA_TYPES, reason_to_skip, shown
from flows.patterns import Pattern, split_glob
from flows.walk import Entry, Skipped, Walk

__all__ = ["MEDIA_TYPES", "Entry", "Listing", "Skipped", "SourceError", "list_source"]


class SourceError(ValueError):
    """A source that cannot be listed at all. The message says what, where, and what to do, in one line."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The documents of a source, sorted by uri.

    Attributes:
        root: absolute folder that uris are relative to.
        entries: what can be loaded.
        skipped: what was left out, and why.
        complete: everything below the root was seen, or everything that the glob names.
        partial: the source names only some of the root's documents, so nothing may be concluded about the others.
    """

    root: Path
    entries: list[Entry]
    skipped: list[Skipped]
    complete: bool
    partial: bool


def list_source(source: str | Path, *, home: Path | None = None) -> Listing:
    """The documents of `source`: a file, a folder (with all folders below it) or a glob. An empty folder is an empty listing.

    Args:
        source: as the user wrote it; relative to the working folder.
        home: the store's own folder, left out where it lies below the root.

    Raises:
        SourceError: nothing is there, the glob matches no file, or the one file is no document.
    """
    name = os.fspath(source)
    if not name.strip():
        raise SourceError("the source is empty: name a file, a folder or a glob such as 'docs/**/*.md'")
    path = Path(os.path.abspath(os.path.expanduser(name)))
    try:
        found = path.stat()
    except FileNotFoundError:
        return _list_glob(name, path, home)
    except (OSError, ValueError) as error:
        raise _unreadable("source", name, error) from error
    if stat.S_ISDIR(found.st_mode):
        return _list_folder(name, path, home, None)
    if not stat.S_ISREG(found.st_mode):
        raise SourceError(f"source {shown(name)!r} is a pipe, socket or device: name a file, a folder or a glob")
    reason = reason_to_skip(path.name)
    if reason:
        raise SourceError(f"source {shown(name)!r} is no document that can be read: {reason}")
    entry = Entry(unicodedata.normalize("NFC", path.name), path, found.st_size)
    return Listing(path.parent, [entry], [], complete=True, partial=True)


def _list_glob(name: str, path: Path, home: Path | None) -> Listing:
    """The files that `path`, which does not exist by this name, stands for."""
    split = None if path.is_symlink() else split_glob(str(path))
    if split is None:
        what = "is a broken link" if path.is_symlink() else "does not exist"
        raise SourceError(f"source {shown(name)!r} {what} ({shown(str(path))}): check the name and the working folder")
    root, parts = Path(split[0]), split[1]
    if not root.is_dir():
        raise SourceError(
            f"glob {shown(name)!r} starts in {shown(str(root))}, which is no folder: check the name and the working folder"
        )
    listing = _list_folder(name, root, home, Pattern(parts))
    if not listing.entries and not listing.skipped:
        raise SourceError(
            f"glob {shown(name)!r} matches no file below {shown(str(root))}: check it, and write '**' for folders within folders"
        )
    return listing


def _list_folder(name: str, root: Path, home: Path | None, pattern: Pattern | None) -> Listing:
    try:
        walk = Walk(root, home=home, pattern=pattern)
    except OSError as error:
        raise _unreadable("folder" if pattern is None else "glob", name, error) from error
    return Listing(root, walk.entries, walk.skipped, walk.complete, partial=pattern is not None)


def _unreadable(kind: str, name: str, error: Exception) -> SourceError:
    why = getattr(error, "strerror", None) or str(error)
    return SourceError(f"{kind} {shown(name)!r} cannot be read ({why}): check the name and the rights of its folders")
