"""Globs, matched one path part at a time, so that a walk can leave out folders below which nothing can match.

A pattern is a list of parts. `**` stands for any number of folders, and as the last part for every file below; in other parts `*`,
`?` and `[...]` stand for characters of one name. A state is the number of parts matched so far. A wildcard does not match a leading
dot. Names are compared in NFC.
"""

from __future__ import annotations

import fnmatch
import os
import re
import unicodedata
from collections.abc import Iterable

_WILDCARD = re.compile(r"[*?[]")


def split_glob(path: str) -> tuple[str, list[str]] | None:
    """The longest folder of an absolute path without a wildcard, and the parts behind it; None if there is no wildcard.

    A part with a wildcard that exists by this very name, such as a folder called `docs[1]`, has none.
    """
    parts = path.split(os.sep)
    for index, part in enumerate(parts):
        if _WILDCARD.search(part) and not os.path.lexists(os.sep.join(parts[: index + 1])):
            return os.sep.join(parts[:index]) or os.sep, parts[index:]
    return None


class Pattern:
    """The parts of a glob."""

    def __init__(self, parts: Iterable[str]) -> None:
        self._parts = list(parts)
        self._names = [re.compile(fnmatch.translate(unicodedata.normalize("NFC", part))) for part in self._parts]

    def step(self, states: frozenset[int], name: str) -> frozenset[int]:
        """The states behind a file or folder called `name`; empty if neither it nor anything below it can match."""
        name = unicodedata.normalize("NFC", name)
        after: set[int] = set()
        for state in self._closed(states) - {len(self._parts)}:
            part = self._parts[state]
            if name.startswith(".") and not part.startswith("."):
                continue
            if part == "**":
                after.add(state)
            elif self._names[state].match(name):
                after.add(state + 1)
        return frozenset(after)

    def matches(self, path: str) -> bool:
        """Whether a path, with `/` between its parts, is matched as a whole."""
        states = frozenset({0})
        for name in path.split("/"):
            states = self.step(states, name)
        return self.accepts(states)

    def accepts(self, states: frozenset[int]) -> bool:
        """Whether a file that led to `states` is matched."""
        return len(self._parts) in self._closed(states)

    def continues(self, states: frozenset[int]) -> bool:
        """Whether something below a folder that led to `states` can match."""
        return any(state < len(self._parts) for state in states)

    def _closed(self, states: frozenset[int]) -> set[int]:
        """`states` and those reached because `**` may stand for no folder at all."""
        closed = set(states)
        for state, part in enumerate(self._parts):
            if part == "**" and state in closed:
                closed.add(state + 1)
        return closed
