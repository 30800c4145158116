"""Front matter: a block between `---` lines at the very start of a text. Only the line rules are here; what is in it is YAML.

The block opens with a first line of `---` and closes with a line of `---` or `...`; spaces and tabs may follow on either. A block
that is never closed is none, and neither is a first `---` with a blank line under it or without a key in the first line that is no
comment: that is a thematic break, and the text up to the next one must not vanish. Lines end at CR LF, LF or CR.
"""

from __future__ import annotations

import re

_OPEN = re.compile(r"---[ \t]*+(?:\r\n?|\n)(?![ \t]*+[\r\n])")
# Nothing at all, or blank lines and comments and then a key with its colon.
_KEY = re.compile(r"\s*+\Z|(?:[ \t]*+(?:#[^\r\n]*+)?[\r\n]++)*+[ \t]*+(?:[^\s#\-{\"'][^\r\n]*?:(?=[ \t\r\n])|[{\"'])")
_CLOSE = re.compile(r"(?<=[\r\n])(?:---|\.\.\.)[ \t]*+(?:\r\n?|\n|\Z)")


def front_matter_end(text: str) -> int:
    """The offset behind the line that closes the front matter, or 0 where there is none."""
    opened = _OPEN.match(text)
    closed = _CLOSE.search(text, opened.end()) if opened else None
    return closed.end() if opened and closed and _KEY.match(text, opened.end(), closed.start()) else 0
