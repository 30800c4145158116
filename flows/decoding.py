"""Bytes to text, without a character lost in silence.

In this order: a byte-order mark says what the encoding is; else text that is valid UTF-8 is UTF-8; else UTF-16 without a mark is
known by its zero bytes; else UTF-8 with a few damaged places is still UTF-8, each of them a U+FFFD that is counted; else the encoding
is guessed (`flows.encodings`). Content that none of them explains is binary, which is an error. The mark is no part of the text.
"""

from __future__ import annotations

import codecs
import unicodedata
from dataclasses import dataclass

from chunkers.document import replace_surrogates
from flows.encodings import PLAUSIBLE, guess, plausibility

UTF_8 = "utf-8"

# The longer marks first: that of UTF-32 LE begins with that of UTF-16 LE.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, UTF_8),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE = 8_192


class DecodeError(ValueError):
    """Bytes that are no text; the message says why."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A text and the encoding it came in.

    Attributes:
        text: without a byte-order mark, NUL or lone surrogates; line ends as they were.
        encoding: Python's name for it; `utf-8` with a mark or without.
        replaced: how many characters or undecodable bytes became U+FFFD.
    """

    text: str
    encoding: str
    replaced: int


def decode(data: bytes) -> Decoded:
    """The text that `data` holds.

    Raises:
        DecodeError: it is binary, or in no encoding that can be told.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                return _cleaned(data[len(mark) :].decode(encoding, "surrogatepass"), encoding)
            except UnicodeDecodeError as error:
                if encoding.startswith("utf-16"):
                    raise DecodeError(
                        f"its byte-order mark says {encoding}, but {error.reason} at byte {error.start}"
                    ) from error
                # Perhaps UTF-16 that begins with a NUL after all, or UTF-8 that is only damaged.
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        # Lone surrogates written as if they were characters are let through, to be replaced one by one.
        text: str | None = data.decode(UTF_8, "surrogatepass")
    except UnicodeDecodeError:
        text = None
    # Every second byte of Latin text in UTF-16 is zero, and every second one of Cyrillic is 4: both are valid UTF-8 too.
    zeros = data.count(0)
    if zeros and (text is None or zeros * 5 > len(data) * 2 or _is_binary(text)):
        wide = _utf16_without_mark(data)
        if wide:
            return wide
    if text is not None:
        return _cleaned(text, UTF_8)
    if zeros:
        raise DecodeError("binary content: zero bytes, and no encoding explains them")
    damaged = _damaged_utf8(data)
    if damaged:
        return damaged
    for encoding in guess(data):
        try:
            return _cleaned(data.decode(encoding), encoding)
        except UnicodeDecodeError:
            continue
    raise DecodeError("binary content, or an encoding that cannot be told; convert it to UTF-8")


def _cleaned(text: str, encoding: str, replaced: int = 0) -> Decoded:
    if _is_binary(text):
        raise DecodeError("binary content: control characters all over")
    text, surrogates = replace_surrogates(text)
    zeros = text.count("\0")
    return Decoded(text.replace("\0", "\ufffd"), encoding, replaced + surrogates + zeros)


def _utf16_without_mark(data: bytes) -> Decoded | None:
    """UTF-16 in the byte order that gives plausible text, with the more ASCII (at least a space or a line end) if both do."""
    found = []
    for encoding in ("utf-16-le", "utf-16-be"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        sample = text[:_SAMPLE]
        if (plausibility(sample) or 0) >= PLAUSIBLE:
            found.append((sum(map(str.isascii, sample)), encoding, text))
    most, encoding, text = max(found, default=(0, "", ""))
    return _cleaned(text, encoding) if most else None


def _is_binary(text: str) -> bool:
    """Whether controls and unassigned characters are too many to be a fault in a text. A short text may have more of them."""
    sample = text[:_SAMPLE]
    odd = {character for character in set(sample) if unicodedata.category(character) in ("Cc", "Cn")} - set("\t\n\r\f")
    share = 0.3 if len(sample) >= 32 else 0.6
    return sum(sample.count(character) for character in odd) > share * len(sample)


def _damaged_utf8(data: bytes) -> Decoded | None:
    """UTF-8 in which good characters of several bytes outnumber the bad places by far, which no other encoding gives."""
    text = data.decode(UTF_8, "replace")
    bad = text.count("\ufffd") - data.count("\ufffd".encode())
    good = len(text) - len(text.encode("ascii", "ignore")) - text.count("\ufffd")
    return _cleaned(text, UTF_8, bad) if good >= 10 * bad else None
