"""Small things done to texts on their way into a model and out of one."""

from __future__ import annotations

import re
from collections.abc import Sequence

from chunkers.document import replace_surrogates

_SPACE_OR_CONTROL = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")


def checked(texts: Sequence[str]) -> list[str]:
    """The texts, ready to be encoded: lone surrogates (a query may hold them, a document cannot) become U+FFFD.

    Raises:
        ValueError: a text is blank. Models answer with an error or with NaN.
        TypeError: one string instead of several.
    """
    if isinstance(texts, str):
        raise TypeError("embed takes a sequence of texts, not one text")
    for position, text in enumerate(texts):
        if not text.strip():
            raise ValueError(f"text {position} of {len(texts)} is blank and has no embedding")
    return [replace_surrogates(text)[0] for text in texts]


def fold(text: str) -> str:
    """`text` on one line: each run of white space and control characters is one space, none at the ends."""
    return _SPACE_OR_CONTROL.sub(" ", text).strip()


def shorten(text: str, characters: int) -> str:
    """`text` in at most `characters` (2 or more), cut after a word where there is one, with an ellipsis if anything was cut."""
    if len(text) <= characters:
        return text
    kept = text[: characters - 1]
    return (kept.rpartition(" ")[0] or kept).rstrip() + "…"
