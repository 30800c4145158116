"""The characters of a text as an array, for what is asked of all of them at once."""

from __future__ import annotations

import sys
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


def code_points(text: str) -> NDArray[np.uint8 | np.uint32]:
    """The code point of each character, shape (len(text),)."""
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), dtype=np.uint8)
    return np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)


@lru_cache(maxsize=1)
def white_space() -> NDArray[np.bool_]:
    """For each code point whether `str.isspace` takes it for white space."""
    white = np.zeros(sys.maxunicode + 1, dtype=np.bool_)
    white[[point for point in range(0x10000) if chr(point).isspace()]] = True
    return white
