"""BM25 as sparse vectors: a text's words as (term id, weight), of which a store that knows how common each term is makes BM25 scores.

Robertson and Zaragoza, "The Probabilistic Relevance Framework: BM25 and Beyond", 2009: a term's part of the score is its inverse
document frequency, which Qdrant puts in at query time (`Modifier.IDF`), times

    f (k + 1) / (f + k (1 - b + b n / average))

for a term that is f times among the n words of a text. The average is a constant, since the true one changes with every document. Ids
and constants are those of Qdrant's own model, so a query that FastEmbed or the server makes of English words finds the same points.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import mmh3

from chunkers.models import words

NAME = "bm25"
K = 1.2
B = 0.75
AVERAGE_LENGTH = 256.0
# Stop words of one language that a question holds, beyond those of any other, before it is taken to be asked in it.
_SURE = 2


@dataclass(frozen=True, slots=True)
class SparseVector:
    """Weights by term: `indices` are ids of 31 bits, each once, and `values` their weights, in the same order."""

    indices: list[int]
    values: list[float]


def parameters() -> dict[str, Any]:
    """All that decides which vector a text gets, for a fingerprint."""
    return {"model": NAME, "k": K, "b": B, "average_length": AVERAGE_LENGTH, "words": words.RULES}


def document_vector(text: str, language: str) -> SparseVector:
    """The vector of a text that is stored; without an entry for a text of nothing but stop words and signs.

    Args:
        text: what is embedded.
        language: of its document, an ISO 639-1 code.
    """
    counts: dict[int, int] = {}
    for word, count in Counter(words.words(text, language)).items():
        term = _term(word, language)
        if term is not None:
            counts[term] = counts.get(term, 0) + count
    norm = K * (1 - B + B * sum(counts.values()) / AVERAGE_LENGTH)
    return SparseVector([*counts], [count * (K + 1) / (count + norm) for count in counts.values()])


def query_vector(text: str, languages: Iterable[str] = ("en",)) -> SparseVector:
    """The vector of a question: 1 for each term.

    A word is stemmed as each of the corpus's languages would, since it may stand in a document of any of them, and left out where it is
    a stop word of that language. It is left out of all if the question is surely asked in a language of which it is a stop word.

    Args:
        text: the question.
        languages: of the documents, ISO 639-1 codes; of FastEmbed's default, English.
    """
    seen = {language: words.words(text, language) for language in dict.fromkeys(languages)}
    asked_in = _asked_in(seen)
    stops = words.stop_words(asked_in) if asked_in else frozenset[str]()
    # Of a question that is nothing but stop words of one language, those that another one has no such use for are better than nothing.
    terms = _distinct(seen, stops) or _distinct(seen, frozenset())
    return SparseVector([*terms], [1.0] * len(terms))


def _asked_in(seen: Mapping[str, Iterable[str]]) -> str | None:
    """The language that a question is surely asked in, by the stop words among its words: two more than of any other language, since one
    may be a word that matters, as "care" is a stop word of Romanian. None where it is not clear."""
    counts = Counter(
        {language: sum(word in words.stop_words(language) for word in own) for language, own in seen.items()}
    )
    (best, most), (_, next_most) = (*counts.most_common(2), ("", 0), ("", 0))[:2]
    return best if most - next_most >= _SURE else None


def _distinct(seen: Mapping[str, Iterable[str]], stops: frozenset[str]) -> dict[int, None]:
    """The terms of words by language, each once, but for `stops`."""
    found = (_term(word, language) for language, own in seen.items() for word in own if word not in stops)
    return {term: None for term in found if term is not None}


@lru_cache(maxsize=2**16)
def _term(word: str, language: str) -> int | None:
    """The id of a word's stem; None for a word that does not count."""
    found = words.stem(word, language)
    return abs(mmh3.hash(found)) if found else None
