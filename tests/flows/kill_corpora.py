"""Small corpora from a seed, and what becomes of them: documents are added, edited, shortened, lengthened, moved, swapped and deleted."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

Corpus = dict[str, str]

NOUNS = [
    "pump",
    "gate",
    "wire",
    "valve",
    "clock",
    "letter",
    "garden",
    "bridge",
    "ferry",
    "lamp",
    "engine",
    "roof",
    "mill",
]
VERBS = ["holds", "opens", "repairs", "watches", "carries", "follows", "measures", "paints", "closes", "turns"]
WHENS = ["before dawn", "in winter", "every second month", "after the storm", "on quiet days", "without a word"]


def sentence(rng: random.Random) -> str:
    one, other = rng.sample(NOUNS, 2)
    return f"The {one} {rng.choice(VERBS)} the {other} {rng.choice(WHENS)}, and nobody asks about number {rng.randrange(999)}."


def paragraph(rng: random.Random) -> str:
    return " ".join(sentence(rng) for _ in range(rng.randint(1, 4)))


def text(rng: random.Random) -> str:
    """A markdown document. Its title stands in the text, so that a context tells the same wherever the file lies."""
    front = f"---\ntags: [{rng.choice(NOUNS)}]\n---\n" if rng.random() < 0.3 else ""
    parts = [f"# The {rng.choice(NOUNS)} of {rng.randrange(99)}"]
    for _ in range(rng.randint(1, 6)):
        if rng.random() < 0.25:
            parts.append(f"## About the {rng.choice(NOUNS)}")
        parts.append(paragraph(rng))
    if rng.random() < 0.3:
        # Equal paragraphs have equal texts and different ids.
        parts.append(parts[1])
    return front + "\n\n".join(parts) + "\n"


def name(rng: random.Random, taken: Corpus) -> str:
    while True:
        folder = rng.choice(["", "", "notes/", "deep/er/"])
        uri = f"{folder}{rng.choice(NOUNS)}-{rng.randrange(99)}.md"
        if uri not in taken:
            return uri


def first(rng: random.Random) -> Corpus:
    """A corpus of five to eight documents, two of which have the same text."""
    corpus: Corpus = {}
    for _ in range(rng.randint(4, 7)):
        corpus[name(rng, corpus)] = text(rng)
    corpus[name(rng, corpus)] = rng.choice(list(corpus.values()))
    corpus["plain.txt"] = "\n\n".join(paragraph(rng) for _ in range(3)) + "\n"
    return corpus


def _parts(corpus: Corpus, uri: str) -> list[str]:
    return corpus[uri].rstrip("\n").split("\n\n")


def _store(corpus: Corpus, uri: str, parts: list[str]) -> None:
    corpus[uri] = "\n\n".join(parts) + "\n"


def _change(rng: random.Random, corpus: Corpus, uri: str) -> None:
    parts = _parts(corpus, uri)
    parts[rng.randrange(1, len(parts))] = paragraph(rng)
    _store(corpus, uri, parts)


def _shorten(rng: random.Random, corpus: Corpus, uri: str) -> None:
    parts = _parts(corpus, uri)
    _store(corpus, uri, parts[: rng.randint(2, max(2, len(parts) - 1))])


def _lengthen(rng: random.Random, corpus: Corpus, uri: str) -> None:
    parts = _parts(corpus, uri)
    for _ in range(rng.randint(1, 4)):
        parts.insert(rng.randint(1, len(parts)), paragraph(rng))
    _store(corpus, uri, parts)


def _retitle(rng: random.Random, corpus: Corpus, uri: str) -> None:
    """What every chunk tells changes, and few of the texts."""
    parts = _parts(corpus, uri)
    if not parts[0].startswith("# "):
        return
    _store(corpus, uri, [f"# A new name, {rng.randrange(999)}", *parts[1:]])


def _move(rng: random.Random, corpus: Corpus, uri: str) -> None:
    # The title of a plain text is its name, and a context that was paid for keeps the old one: no clean run would write that.
    if uri.endswith(".md"):
        corpus[name(rng, corpus)] = corpus.pop(uri)


def _move_over(rng: random.Random, corpus: Corpus, uri: str) -> None:
    others = [other for other in corpus if other.endswith(".md") and other != uri]
    if uri.endswith(".md") and others:
        corpus[rng.choice(others)] = corpus.pop(uri)


def _delete(rng: random.Random, corpus: Corpus, uri: str) -> None:
    del corpus[uri]


def _add(rng: random.Random, corpus: Corpus, uri: str) -> None:
    corpus[name(rng, corpus)] = text(rng)


def _copy(rng: random.Random, corpus: Corpus, uri: str) -> None:
    if uri.endswith(".md"):
        corpus[name(rng, corpus)] = corpus[uri]


def _empty(rng: random.Random, corpus: Corpus, uri: str) -> None:
    corpus[uri] = " \n"


CHANGES: list[Callable[[random.Random, Corpus, str], None]] = [
    _change,
    _shorten,
    _lengthen,
    _retitle,
    _move,
    _move_over,
    _delete,
    _add,
    _copy,
    _empty,
]


def edited(rng: random.Random, corpus: Corpus) -> Corpus:
    """The next version of a corpus: always something added, changed, deleted and moved as it is, and one to four other changes."""
    made = dict(corpus)
    for change in [_add, _change, _delete, *rng.sample(CHANGES, rng.randint(1, 4))]:
        full = [uri for uri in sorted(made) if made[uri].strip()]
        change(rng, made, rng.choice(full))
    # Last, so that nothing changes it again, and a text that is nowhere else, which a twin would stand in for.
    texts = list(made.values()) + list(corpus.values())
    still = [uri for uri in sorted(made) if corpus.get(uri) == made[uri] and texts.count(made[uri]) == 2]
    for uri in [uri for uri in still if uri.endswith(".md")][:1]:
        _move(rng, made, uri)
    return made


def write(corpus: Corpus, folder: Path) -> None:
    """Makes `folder` hold a corpus and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    for uri, own in corpus.items():
        (folder / uri).parent.mkdir(parents=True, exist_ok=True)
        (folder / uri).write_text(own, encoding="utf-8")
