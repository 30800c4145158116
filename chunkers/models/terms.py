"""The most telling terms of a section: words that it uses often and its surroundings seldom.

Counting is all there is: no corpus, no model. A word's weight is its count in the section over its count in the surroundings, times
its length, since short words tend to be common ones. Scripts without spaces between words are no list of words: of Chinese characters
(and kanji), only sequences that occur at least twice are taken; Thai, Lao, Khmer and Burmese give nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import regex

from chunkers.models.stop_words import STOP_WORDS

_URL = regex.compile(r"\b(?:https?://|www\.)\S+|\S+@\S+\.\S+")
_IDEOGRAPHS = regex.compile(r"\p{Han}{2,}")
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_WORD = regex.compile(rf"[\p{{L}}\p{{M}}--[{_UNSPACED}]]+(?:[-'’][\p{{L}}\p{{M}}--[{_UNSPACED}]]+)*", regex.VERSION1)

_SHORTEST, _SHORTEST_ABBREVIATION, _LONGEST = 4, 2, 40
_LONGEST_WEIGHT = 10
_LONGEST_SEQUENCE = 6

# Characters that hold Chinese sentences together; a sequence with one of them is a piece of grammar, not a term.
_STOP_CHARACTERS = frozenset("的了是在和與与及或不也就都而之其所被把這这那你我他她它们們個个若如则則让讓")


def telling_terms(text: str, around: str, excluded: Iterable[str] = (), limit: int = 5) -> list[str]:
    """At most `limit` terms of `text`, the most telling first; equally telling ones in the order of the text.

    Args:
        text: the section.
        around: what stands before and after it.
        excluded: texts whose words are not wanted, such as a title that is shown anyway.
    """
    unwanted = {word.casefold() for shown in excluded for word in _WORD.findall(shown)}
    shown_elsewhere = " ".join(excluded)
    text, around = _URL.sub(" ", text), _URL.sub(" ", around)
    forms: dict[str, Counter[str]] = {}
    for word in _WORD.findall(text):
        if _is_term(word) and word.casefold() not in unwanted:
            forms.setdefault(word.casefold(), Counter())[word] += 1
    outside = Counter(word.casefold() for word in _WORD.findall(around))
    scores = {_form(seen): _weight(key, seen.total(), outside[key]) for key, seen in forms.items()}
    for sequence, count in _sequences(text).items():
        if sequence not in shown_elsewhere:
            # Two characters are about as long a word as six letters.
            scores[sequence] = _weight(sequence * 3, count, around.count(sequence))
    return sorted(scores, key=lambda term: (-scores[term], text.find(term)))[:limit]


def _is_term(word: str) -> bool:
    abbreviation = word.isupper() and word.isascii()
    shortest = _SHORTEST_ABBREVIATION if abbreviation else _SHORTEST
    return shortest <= len(word) <= _LONGEST and word.casefold().replace("’", "'") not in STOP_WORDS


def _form(seen: Counter[str]) -> str:
    """How the word is mostly written; in lower case rather than as at the start of a sentence."""
    return max(seen, key=lambda form: (seen[form], form.islower(), form))


def _weight(term: str, inside: int, outside: int) -> float:
    return inside / (1 + outside) * min(len(term), _LONGEST_WEIGHT)


def _sequences(text: str) -> dict[str, int]:
    """Sequences of Chinese characters that occur at least twice, without those that only occur inside a longer one."""
    counts: Counter[str] = Counter()
    for run in _IDEOGRAPHS.findall(text):
        for length in range(2, _LONGEST_SEQUENCE + 1):
            counts.update(run[at : at + length] for at in range(len(run) - length + 1))
    repeated = {
        sequence: count for sequence, count in counts.items() if count > 1 and not _STOP_CHARACTERS & set(sequence)
    }
    inner = {
        part
        for sequence, count in repeated.items()
        for part in (sequence[1:], sequence[:-1])
        if repeated.get(part) == count
    }
    return {sequence: count for sequence, count in repeated.items() if sequence not in inner}
