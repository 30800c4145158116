"""Checks of parameters, made when a chunker is built: each raises one `SettingError` that says what is legal."""

from __future__ import annotations

import math

from chunkers.errors import SettingError

ABSOLUTE, PERCENTILE = "absolute", "percentile"
WINDOW, DOCUMENT = "window", "document"


def whole(name: str, value: object, minimum: int) -> int:
    """`value` as a whole number of at least `minimum`. Floats are refused even when they are whole: 1.5 must not pass as 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise SettingError(name, value, f"a whole number of at least {minimum}")
    return value


# Tokens that neighbouring windows share where nothing else is asked for.
DEFAULT_OVERLAP = 50


def overlap(name: str, value: object, size_name: str, size: int) -> int:
    """`value` as a whole number from 0 to `size` - 1; None is 50, or a tenth of `size` where 50 would not be less than it."""
    if value is None:
        return DEFAULT_OVERLAP if size > DEFAULT_OVERLAP else size // 10
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < size:
        raise SettingError(name, value, f"a whole number from 0 to {size - 1}, less than {size_name} ({size})")
    return value


def context_scope(value: object) -> str:
    """`window` (the characters before and after a chunk) or `document` (the whole text)."""
    if value not in (WINDOW, DOCUMENT):
        raise SettingError("context_scope", value, f"{WINDOW!r} or {DOCUMENT!r}")
    return str(value)


def threshold_mode(value: object) -> str:
    """`absolute` (a cosine) or `percentile` (of the document's own similarities)."""
    if value not in (ABSOLUTE, PERCENTILE):
        raise SettingError("semantic_threshold_mode", value, f"{ABSOLUTE!r} or {PERCENTILE!r}")
    return str(value)


def threshold(value: object, mode: str) -> float | None:
    """A cosine from -1 to 1, a percentile from 0 to 100, or None for the model's own default."""
    if value is None:
        return None
    low, high = (-1.0, 1.0) if mode == ABSOLUTE else (0.0, 100.0)
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not math.isfinite(value)
        or not low <= value <= high
    ):
        raise SettingError(
            "semantic_threshold",
            value,
            f"a number from {low:g} to {high:g} when the mode is {mode!r}, or unset",
        )
    return float(value)
