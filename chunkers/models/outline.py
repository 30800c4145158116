"""The built-in context: where a section stands, in the document's own words. No model, no key, no network.

The document's title, the headings above the section and its most telling terms, on one line. It claims nothing that it did not
count, and is the same for the same request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from chunkers.markdown import plain_title
from chunkers.models.base import Context, ContextRequest
from chunkers.models.terms import telling_terms
from chunkers.models.texts import fold, shorten

LONGEST_OUTLINE = 300
_LONGEST_TITLE = 90
_LONGEST_PATH = 120
_SEPARATOR = " > "
_HEADING_MARKS = re.compile(r"^\s*#+|\s#+\s*$")


class OutlineWriter:
    """Writes contexts such as `From "Leave policy", section Parental leave > Notice. Terms: employer, weeks.`

    At most 300 characters; empty where there is neither title nor heading nor term.
    """

    name = "outline"
    prompt_version = "2"
    document_prompt_version = None

    def write(self, requests: Sequence[ContextRequest]) -> list[Context]:
        """One context per request, in order. Never fails."""
        return [Context(outline(request), self.name) for request in requests]


def outline(request: ContextRequest) -> str:
    """The context of one section."""
    title = fold(request.title)
    headings = [heading for heading in map(fold, request.headings) if heading]
    if headings and headings[0].casefold() == title.casefold():
        del headings[0]
    known = (title, *headings)
    # What the section itself begins with is not told twice.
    begins = _first_line(request.text)
    if headings and headings[-1].casefold() == begins:
        del headings[-1]
    elif title.casefold() == begins:
        title = ""
    terms = telling_terms(request.text, f"{request.preceding}\n{request.following}", known)
    place = _place(title, headings)
    while terms:
        listed = f"Terms: {', '.join(terms)}."
        whole = f"{place} {listed}" if place else listed
        if len(whole) <= LONGEST_OUTLINE:
            return whole
        terms.pop()
    return place


def _first_line(text: str) -> str:
    """The first line of a section, case folded, without the marks of a heading."""
    line = next(filter(str.strip, text.splitlines()), "")
    return plain_title(_HEADING_MARKS.sub("", line)).casefold()


def _place(title: str, headings: list[str]) -> str:
    parts = [f'From "{shorten(title, _LONGEST_TITLE)}"'] if title else []
    if headings:
        parts.append(f"{'section' if title else 'Section'} {_path(headings)}")
    return f"{', '.join(parts)}." if parts else ""


def _path(headings: list[str]) -> str:
    """The headings, outermost first. Where they are too long together the outer ones go: the innermost says most."""
    kept = [shorten(headings[-1], _LONGEST_PATH)]
    for heading in reversed(headings[:-1]):
        if len(_SEPARATOR.join([heading, *kept])) > _LONGEST_PATH:
            break
        kept.insert(0, heading)
    return _SEPARATOR.join(kept)
