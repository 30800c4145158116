"""A walk of the folders below a root: real folders first, then links to folders that nothing has listed yet.

Folders are told apart by device and inode, since a loop of links gives one folder endless names. That real folders come first means
that a link never changes what a real folder's documents are called. A link to a folder that the root lies in is not followed: it
would take in everything around the source.
"""

from __future__ import annotations

import os
import stat
import unicodedata
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path

from flows.file_names import reason_to_skip, shown, undecodable
from flows.patterns import Pattern


@dataclass(frozen=True, slots=True)
class Entry:
    """A document that can be loaded: its uri, its absolute path and its size in bytes when it was listed."""

    uri: str
    path: Path
    size: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that was left out, by its path below the root, and why."""

    document: str
    reason: str


@dataclass(frozen=True, slots=True)
class _Folder:
    below: str  # Path below the root, as the file system spells it; empty for the root.
    states: frozenset[int]  # Where the pattern stands in this folder.
    linked: bool = False  # It is a link, or lies below one.


class Walk:
    """Lists the documents below `root`, those that `pattern` matches if one is given.

    Attributes:
        entries: sorted by uri; no two have the same.
        skipped: what was left out, sorted.
        complete: everything that could hold a document was seen.

    Raises:
        OSError: the root cannot be read.
    """

    def __init__(self, root: Path, *, home: Path | None = None, pattern: Pattern | None = None) -> None:
        self._root = root
        self._pattern = pattern
        self._home = _identity(home) if home else None
        self._found: list[tuple[str, Entry]] = []
        self._folders = deque([_Folder("", frozenset({0}))])
        self._links: deque[_Folder] = deque()
        self.skipped: list[Skipped] = []
        self.complete = True
        self._walk()
        self.entries = self._unique()
        self.skipped.sort(key=lambda row: (row.document, row.reason))

    def _walk(self) -> None:
        seen = set()
        while self._folders or self._links:
            folder = (self._folders or self._links).popleft()
            identity = _identity(self._root / folder.below)
            if folder.below and identity is not None and identity == self._home:
                continue
            if folder.linked and identity in seen:
                self._skip(folder.below, "a folder that is listed already under another name")
            elif folder.linked and self._holds_root(folder):
                self._skip(folder.below, "a link to a folder that the source lies in")
            else:
                seen.add(identity)
                self._scan(folder)

    def _holds_root(self, folder: _Folder) -> bool:
        return Path(os.path.realpath(self._root)).is_relative_to(os.path.realpath(self._root / folder.below))

    def _scan(self, folder: _Folder) -> None:
        try:
            with os.scandir(self._root / folder.below) as scan:
                children = sorted(scan, key=lambda child: os.fsencode(child.name))
        except OSError as error:
            if not folder.below:
                raise
            self._unknown(folder.below, f"the folder cannot be read: {error.strerror}")
            return
        for child in children:
            states = self._pattern.step(folder.states, child.name) if self._pattern else folder.states
            if states and (self._pattern or not child.name.startswith(".")):
                below = f"{folder.below}/{child.name}" if folder.below else child.name
                self._child(child, _Folder(below, states, folder.linked))

    def _child(self, child: os.DirEntry[str], place: _Folder) -> None:
        """Puts a file among the found or skipped and a folder among those to come. `place` is the child's path and states."""
        try:
            found = child.stat()
        except FileNotFoundError:
            # Anything but a link was removed after its folder had been read.
            if child.is_symlink():
                self._unknown(place.below, "a broken link")
            return
        except OSError as error:
            self._unknown(place.below, f"it cannot be looked at: {error.strerror}")
            return
        if stat.S_ISDIR(found.st_mode):
            if self._pattern and not self._pattern.continues(place.states):
                return
            reason = undecodable(child.name)
            if reason:
                self._skip(place.below, reason)
            elif child.is_symlink():
                self._links.append(replace(place, linked=True))
            else:
                self._folders.append(place)
        elif self._pattern is None or self._pattern.accepts(place.states):
            # Never opened: reading a pipe would wait for ever.
            reason = reason_to_skip(child.name) if stat.S_ISREG(found.st_mode) else "a pipe, socket or device"
            if reason:
                self._skip(place.below, reason)
            else:
                uri = unicodedata.normalize("NFC", place.below)
                self._found.append((place.below, Entry(uri, self._root / place.below, found.st_size)))

    def _unique(self) -> list[Entry]:
        """The entries by uri; of several files with one uri the first by its bytes stays."""
        entries: list[Entry] = []
        for path, entry in sorted(self._found, key=lambda item: (item[1].uri, os.fsencode(item[0]))):
            if entries and entries[-1].uri == entry.uri:
                self._skip(path, "another file has the same name once Unicode is normalised (NFC); rename one of them")
            else:
                entries.append(entry)
        return entries

    def _unknown(self, path: str, reason: str) -> None:
        self.complete = False
        self._skip(path, reason)

    def _skip(self, path: str, reason: str) -> None:
        self.skipped.append(Skipped(shown(path), reason))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
