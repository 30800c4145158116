"""Names of corpora, aliases and collections: pure rules, and the only place that puts such a name together or takes it apart.

    docs__recursive       the alias that readers use
    docs__recursive__3    the third physical collection built for it

A corpus name holds no double underscore, so a name can be taken apart in one way only, and one corpus's collections are never mistaken
for another's whose name ends alike.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from chunkers import STRATEGIES, SettingError

LONGEST_CORPUS = 64
_CORPUS = re.compile(r"[a-z0-9]+(?:[-_][a-z0-9]+)*")
_COLLECTION = re.compile(rf"({_CORPUS.pattern})__({'|'.join(STRATEGIES)})__([1-9][0-9]*)")
_ALIAS = re.compile(rf"({_CORPUS.pattern})__({'|'.join(STRATEGIES)})")


class CollectionName(NamedTuple):
    """The parts of a physical collection's name."""

    corpus: str
    strategy: str
    build: int


def corpus_slug(text: str) -> str:
    """A corpus name made from any text, such as a folder's name: lower case, ASCII where it can be, `corpus` if nothing is left."""
    folded = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    words = re.findall(r"[a-z0-9]+", folded)
    return "-".join(words)[:LONGEST_CORPUS].strip("-") or "corpus"


def check_corpus(name: str) -> str:
    """`name`, if a corpus may be called so.

    Raises:
        SettingError: it may not; the message offers one that may.
    """
    if len(name) > LONGEST_CORPUS or not _CORPUS.fullmatch(name):
        raise SettingError(
            "corpus",
            name,
            "lower-case letters and digits with single '-' or '_' between, "
            f"at most {LONGEST_CORPUS} characters, such as {corpus_slug(name)!r}",
        )
    return name


def alias_name(corpus: str, strategy: str) -> str:
    """The alias that readers of a corpus and strategy use."""
    return f"{corpus}__{strategy}"


def collection_name(corpus: str, strategy: str, build: int) -> str:
    """The physical collection of a build, numbered from 1."""
    return f"{corpus}__{strategy}__{build}"


def parse_collection(name: str) -> CollectionName | None:
    """The parts of a physical collection's name, or None if it is none of ours."""
    matched = _COLLECTION.fullmatch(name)
    return CollectionName(matched[1], matched[2], int(matched[3])) if matched else None


def parse_alias(name: str) -> tuple[str, str] | None:
    """(corpus, strategy) of an alias, or None if it is none of ours."""
    matched = _ALIAS.fullmatch(name)
    return (matched[1], matched[2]) if matched else None
