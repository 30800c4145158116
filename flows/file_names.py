"""What a file's name tells: whether it is read, as which media type, and how to show a name that is not text."""

from __future__ import annotations

import os
import re

from chunkers.markdown import MARKDOWN, PLAIN

MEDIA_TYPES = {
    ".md": MARKDOWN,
    ".markdown": MARKDOWN,
    ".mdown": MARKDOWN,
    ".mkd": MARKDOWN,
    ".txt": PLAIN,
    ".text": PLAIN,
}
_READ = ", ".join(MEDIA_TYPES)
_CONVERT = {
    ".rst": "reStructuredText has block rules of its own, which nothing here knows; convert it to markdown",
    ".mdx": "MDX mixes code into markdown; convert it to markdown",
    ".html": "HTML is not read; convert it to markdown",
    ".htm": "HTML is not read; convert it to markdown",
    ".pdf": "PDF is not read; convert it to markdown or text",
    ".docx": "Word files are not read; convert them to markdown",
}
# Bytes of a name that are no text in the file system's encoding come as lone surrogates.
_SURROGATE = re.compile("[\ud800-\udfff]")


def media_type(name: str) -> str | None:
    """The media type of a file that is read, by its extension in any case; None for other files."""
    return MEDIA_TYPES.get(os.path.splitext(name)[1].lower())


def reason_to_skip(name: str) -> str | None:
    """Why a file of this name is not read, or None."""
    suffix = os.path.splitext(name)[1].lower()
    if undecodable(name) or suffix in MEDIA_TYPES:
        return undecodable(name)
    if suffix in _CONVERT:
        return _CONVERT[suffix]
    return f"{f'the type {shown(suffix)}' if suffix else 'a name without a type'} is not read (only {_READ})"


def undecodable(name: str) -> str | None:
    """Why a name cannot stand in a uri, or None."""
    return "its name is not text in the file system's encoding; rename it" if _SURROGATE.search(name) else None


def shown(name: str) -> str:
    """`name` for a message: what is not text as an escape."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")
