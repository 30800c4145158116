"""The language of a text, as an ISO 639-1 code: what its front matter says, else what `py3langid` is sure of, else English.

The detector is sure of nothing on code and lists of names, and then prefers odd languages; so it sees prose only, needs some letters
of it, and must be nearly certain. Its model takes half a second to load and is loaded at the first question.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from chunkers import ModelError
from chunkers.markdown import Block, Kind

DEFAULT = "en"

_LETTERS = 30
_CERTAIN = 0.9
_SAMPLE = 2_000
_CODE = re.compile(r"([a-z]{2,3})(?:[-_][a-z0-9]+)*", re.IGNORECASE)
# Close relatives that the detector tells apart and nothing after it does.
_SAME = {
    "pcm": "en",
    "wuu": "zh",
    "yue": "zh",
    "nn": "no",
    "nb": "no",
    "ary": "ar",
    "arz": "ar",
    "sdh": "ku",
    "uzs": "uz",
}
_NO_PROSE = re.compile(r"`[^`\n]*`|<[^>\n]*>|\]\([^)\n]*\)|\bhttps?://\S+|\S+@\S+")
_PROSE = (Kind.HEADING, Kind.PARAGRAPH, Kind.LIST, Kind.QUOTE, Kind.TABLE)
_loading = threading.Lock()


def declared_language(metadata: Mapping[str, Any]) -> str | None:
    """The code in the front matter's `language` or `lang`, its region dropped (`de-AT` gives `de`); None without a code."""
    for name in ("language", "lang"):
        value = metadata.get(name)
        code = _CODE.fullmatch(value.strip()) if isinstance(value, str) else None
        if code:
            found = code[1].lower()
            return _SAME.get(found, found)
    return None


def detect_language(text: str, blocks: list[Block]) -> str:
    """The language of the prose in `blocks`, which are spans of `text`; English unless another is nearly certain."""
    sample: list[str] = []
    size = 0
    for block in blocks:
        if block.kind in _PROSE and size < _SAMPLE:
            sample.append(_NO_PROSE.sub(" ", text[block.start : min(block.end, block.start + _SAMPLE - size)]))
            size += len(sample[-1])
    prose = "\n".join(sample)
    # A Chinese or Japanese character says as much as three letters.
    if sum(3 if letter > "\u2e7f" else 1 for letter in prose if letter.isalpha()) < _LETTERS:
        return DEFAULT
    language, certainty = most_likely(prose)
    return language if certainty >= _CERTAIN and len(language) == 2 else DEFAULT


def most_likely(text: str) -> tuple[str, float]:
    """The likeliest language of `text` and its probability, close relatives taken together."""
    sums: dict[str, float] = {}
    for language, probability in _identifier().rank(text):
        language = _SAME.get(language, language)
        sums[language] = sums.get(language, 0.0) + probability
    best = max(sums, key=lambda language: sums[language])
    return best, sums[best]


def _identifier() -> Any:
    with _loading:
        return _load()


@lru_cache(maxsize=1)
def _load() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    try:
        return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    except OSError as error:
        # It is unpacked into a temporary file. Without it every document would be taken for English, which changes what is stored.
        raise ModelError(
            f"the language detector's model cannot be unpacked into the temporary folder ({error}); make room there, or set TMPDIR",
            fatal=True,
        ) from error
