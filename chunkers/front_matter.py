"""Front matter: a block between `---` lines at the very start of a text. Only the line rules are here; what is in it is YAML."""

from __future__ import annotations

import re

_OPEN = re.compile(r"---[ \t]*(?:\r\n?|\n)")
_CLOSE = re.compile(r"^(?:---|\.\.\.)[ \t]*(?:\r\n?|\n|\Z)", re.MULTILINE)


def front_matter_end(text: str) -> int:
    """The offset behind the line that closes the front matter, or 0 where there is none."""
    opened = _OPEN.match(text)
    closed = _CLOSE.search(text, opened.end()) if opened else None
    return closed.end() if closed else 0
