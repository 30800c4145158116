"""What an error of an OpenAI-compatible server means: a pure function from exception to `Verdict`.

`again` and `fatal` answer two questions. A server that is too busy (429) or cannot be reached is worth another try, and if tries run
out no other text would fare better either: both are set. A bad key is only fatal. A refused request (400) is neither: that
text cannot be embedded, the next may. A 5xx is tried again and then counts against its text, since a text can crash a server.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from math import isfinite

import httpx2
import openai

from chunkers.retrying import Verdict

# A server that asks for a longer wait than this (a daily quota) will not answer in this run, unless it is told to wait longer.
LONGEST_WAIT = 600.0

_FATAL_STATUS = frozenset({401, 402, 403, 404, 405, 410})
_AGAIN_STATUS = frozenset({408, 409, 429})
# Said with several status codes (400, 403, 404, 429), and true for every text.
_FATAL_CODES = frozenset(
    {
        "insufficient_quota",
        "billing_hard_limit_reached",
        "billing_not_active",
        "account_deactivated",
        "invalid_api_key",
        "model_not_found",
        "unsupported_parameter",
        "unsupported_value",
    }
)
# A complaint about one of these request fields is about settings, not about a text.
_SETTING_FIELDS = frozenset({"model", "dimensions", "encoding_format", "temperature", "max_tokens"})


# What servers say of a request with too many inputs, or too many tokens in all. A single input that is too long says otherwise.
_TOO_LARGE_CODES = frozenset({"max_tokens_per_request", "token_limit_exceeded", "request_too_large"})
_TOO_LARGE = re.compile(
    r"tokens per request|batch size|too many inputs|(max|maximum) (number|amount) of inputs|input array|request (entity )?too large",
    re.IGNORECASE,
)
# What they say of one prompt that the model has no room for.
_TOO_LONG_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_TOO_LONG = re.compile(r"context (length|size|window)|prompt is too long|prompt too long", re.IGNORECASE)
# OpenAI answers 429 to a request that is over the tokens of a whole minute: no wait makes room for it.
_OVER_MINUTE = re.compile(r"request too large", re.IGNORECASE)
# llama.cpp answers 500 to an input that is longer than its batch.
_OVER_BATCH = re.compile(r"too large to process", re.IGNORECASE)


def classify(error: BaseException, longest_wait: float = LONGEST_WAIT) -> Verdict:
    """What to do about `error`.

    Args:
        error: of a request.
        longest_wait: seconds that a server may ask to wait.
    """
    if isinstance(error, openai.APIConnectionError):
        # A connection that could not be made concerns every text; one that broke or fell silent perhaps only this one.
        return Verdict(again=True, fatal=isinstance(error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout))
    if not isinstance(error, openai.APIStatusError):
        return Verdict(again=False)
    status = error.status_code
    if is_too_large(error):
        return Verdict(again=False, smaller=True)
    if status in _FATAL_STATUS or _FATAL_CODES & _codes(error):
        return Verdict(again=False, fatal=True)
    if status in _AGAIN_STATUS or status >= 500:
        after = retry_after(error.response.headers)
        if after is not None and after > longest_wait:
            return Verdict(again=False, after=after, fatal=True)
        return Verdict(again=True, after=after, fatal=status == 429)
    return Verdict(again=False, fatal=str(error.param) in _SETTING_FIELDS)


def is_too_large(error: BaseException) -> bool:
    """Whether a request held more than the server takes at once."""
    if not isinstance(error, openai.APIStatusError) or error.status_code not in (400, 413, 422, 429, 500):
        return False
    if error.status_code == 429:
        return bool(_OVER_MINUTE.search(str(error)))
    if error.status_code == 500:
        return bool(_OVER_BATCH.search(str(error)))
    return error.status_code == 413 or bool(_codes(error) & _TOO_LARGE_CODES) or bool(_TOO_LARGE.search(str(error)))


def is_too_long(error: BaseException) -> bool:
    """Whether a prompt was longer than the model can read."""
    if not isinstance(error, openai.APIStatusError) or error.status_code not in (400, 413, 422):
        return False
    return bool(_codes(error) & _TOO_LONG_CODES) or bool(_TOO_LONG.search(str(error)))


def unknown_field(error: BaseException) -> str | None:
    """The request field that a server does not know or take, such as `max_tokens`; None for any other complaint."""
    if not isinstance(error, openai.APIStatusError) or error.status_code not in (400, 422):
        return None
    if _codes(error) & {"unsupported_parameter", "unsupported_value"}:
        return str(error.param)
    return "encoding_format" if "encoding_format" in f"{error.param} {error}" else None


def is_refusal(error: BaseException) -> bool:
    """Whether a content filter in front of the model turned the prompt down."""
    if not isinstance(error, openai.APIStatusError) or error.status_code not in (400, 403):
        return False
    return bool(_codes(error) & {"content_filter", "content_policy_violation"})


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait: `retry-after-ms`, or `retry-after` in seconds or as a date; None if it does not say."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * unit
        except ValueError:
            continue
        return seconds if isfinite(seconds) and seconds >= 0 else None
    return _seconds_until(headers.get("retry-after"), headers.get("date"))


def _seconds_until(moment: str | None, sent: str | None) -> float | None:
    """From the server's own clock, where it says the time, to `moment`; never negative."""
    try:
        until = parsedate_to_datetime(moment or "").timestamp()
    except ValueError:
        return None
    try:
        now = parsedate_to_datetime(sent or "").timestamp()
    except ValueError:
        now = time.time()
    return max(0.0, until - now)


def _codes(error: openai.APIStatusError) -> set[str]:
    # Compatible servers put numbers, null or nothing where OpenAI has two strings.
    return {str(error.code), str(error.type)}
