"""A guess at the encoding of text that is neither UTF-8 nor UTF-16: by the language that it gives.

Almost any bytes are text of some kind in almost any old encoding, so validity alone says little. Each candidate decodes the lines that
are not plain ASCII; a language detector names the language of the result; and the score is the share of non-ASCII characters that
this language writes. French read as cp1250 is still French, but with `č` for `è`, which French does not write. Of candidates with
the same score the earlier one wins: cp1252, the commonest, stands first and is the declared fall-back where nothing can be told.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Callable

from charset_normalizer import from_bytes

from flows.language import most_likely

_CANDIDATES = (
    "cp1252",
    "cp1250",
    "iso8859-2",
    "cp1254",
    "cp1257",
    "cp1251",
    "koi8-r",
    "cp1253",
    "cp1255",
    "cp1256",
    "cp932",
    "euc_jp",
    "cp949",  # Before gb18030, in which Hangul would be common Chinese characters.
    "gb18030",
    "big5",
    "cp874",  # Last, since in it almost any bytes are Thai.
)
_FALL_BACK = "cp1252"
_SAMPLE = 4_096
# With a fifth of its characters wrong it is no text in that encoding.
PLAUSIBLE = 0.8

_PUNCTUATION = set("“”„‘’‚‹›«»–—…•·€£§°©®™¿¡´×\xa0\xad　、。，！？：；（）「」『』《》【】〜～ー・“”％＂＇")
_WESTERN = "äöüßàâæçèéêëîïôœùûÿñáíóúìòãõåøðþý"
# What languages write beyond ASCII, in lower case; a language that is not here is taken for a western one.
_LETTERS = {
    "de": "äöüßé",
    "fr": "àâæçèéêëîïôœùûüÿ",
    "es": "áéíñóúüºª",
    "pt": "àáâãçéêíóôõúüºª",
    "it": "àèéìíîòóùúºª",
    "nl": "éëïóöüèêáíúç",
    "sv": "åäöéàü",
    "da": "æøåéäöü",
    "no": "æøåéòôóäö",
    "fi": "äöåšž",
    "is": "áðéíóúýþæö",
    "ca": "àçèéíïòóúü",
    "pl": "ąćęłńóśźż",
    "cs": "áčďéěíňóřšťúůýž",
    "sk": "áäčďéíĺľňóôŕšťúýž",
    "hu": "áéíóöőúüű",
    "ro": "ăâîșțşţ",
    "hr": "čćđšž",
    "bs": "čćđšž",
    "sl": "čšžćđ",
    "tr": "çğıöşüâîû",
    "et": "äöõüšž",
    "lv": "āčēģīķļņšūž",
    "lt": "ąčęėįšųūž",
    "sq": "çë",
}
_SCRIPTS: dict[str, Callable[[str], bool]] = {
    **dict.fromkeys(("ru", "uk", "be", "bg", "sr", "mk"), lambda letter: "Ѐ" <= letter <= "ӿ"),
    "el": lambda letter: "Ͱ" <= letter <= "Ͽ",
    "he": lambda letter: "\u0590" <= letter <= "\u05ff",
    **dict.fromkeys(("ar", "fa", "ur"), lambda letter: "\u0600" <= letter <= "\u06ff"),
    "th": lambda letter: "\u0e00" <= letter <= "\u0e7f",
    **dict.fromkeys(("hi", "mr", "ne"), lambda letter: "\u0900" <= letter <= "\u097f"),
    "ja": lambda letter: "ぁ" <= letter <= "ヿ" or _is_common(letter, "euc_jp", 0xB0, 0xCF),
    "zh": lambda letter: _is_common(letter, "gb2312", 0xB0, 0xD7) or _is_common(letter, "big5", 0xA4, 0xC6),
    "ko": lambda letter: _is_common(letter, "euc_kr", 0xB0, 0xC8),
}


def guess(data: bytes) -> list[str]:
    """Encodings of `data`, the likeliest first; none when it is not text."""
    sample = _sample(data)
    scores: dict[str, float] = {}
    for encoding in (*_CANDIDATES, *_detected(sample)):
        score = _score(sample, encoding)
        if score is not None and encoding not in scores:
            scores[encoding] = score
    ranked = sorted((name for name in scores if scores[name] >= PLAUSIBLE), key=lambda name: -scores[name])
    return [*ranked, _FALL_BACK] if _FALL_BACK in scores and _FALL_BACK not in ranked else ranked


def _sample(data: bytes) -> bytes:
    """The lines of `data` that are not ASCII. No encoding here has a line feed inside a character."""
    lines: list[bytes] = []
    size = 0
    for line in data.splitlines(keepends=True):
        if not line.isascii():
            lines.append(line)
            size += len(line)
            if size >= _SAMPLE:
                break
    return b"".join(lines)[:_SAMPLE]


def _detected(sample: bytes) -> list[str]:
    best = from_bytes(sample).best()
    return [best.encoding] if best else []


def _score(sample: bytes, encoding: str) -> float | None:
    """How plausible `sample` is in `encoding`; None if it is no text in it."""
    try:
        return plausibility(codecs.getincrementaldecoder(encoding)().decode(sample))
    except (UnicodeDecodeError, LookupError):
        return None


def plausibility(text: str) -> float | None:
    """The share of non-ASCII characters that the text's language writes, from 0 to 1; 1 without any. None with odd controls."""
    if any(
        unicodedata.category(character) in ("Cc", "Cn", "Co") and character not in "\t\n\r\f" for character in set(text)
    ):
        return None
    language = most_likely(text)[0]
    western = _LETTERS.get(language, _WESTERN)
    writes = _SCRIPTS.get(language, lambda letter: letter.lower() in western)
    good = total = ascii_letters = 0
    before = " "
    for character in text:
        if character.isascii():
            ascii_letters += character.isalpha()
        else:
            total += 1
            # A capital inside a word is what the Cyrillic encodings make of each other's small letters.
            swapped = character.isupper() and before.islower()
            good += character in _PUNCTUATION or (writes(character) and not swapped)
        before = character
    if not total:
        return 1.0
    # No language in Latin letters has more of them beyond ASCII than in it.
    return good / total if language in _SCRIPTS or total <= ascii_letters else good / total / 2


def _is_common(letter: str, encoding: str, first: int, last: int) -> bool:
    """Whether `letter` is in the rows of `encoding` that hold the common characters: mistaken bytes give the rare ones too."""
    try:
        return first <= letter.encode(encoding)[0] <= last
    except UnicodeEncodeError:
        return False
