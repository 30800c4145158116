"""Calls over a network, tried again while that can help.

What an error means is decided elsewhere, by a pure function of the model or the store at hand: it turns an exception into a
`Verdict`. This module only waits and counts. Waits double from half a second with full jitter, or are what the server asked for.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do about an error.

    Attributes:
        again: the same call may succeed later.
        after: seconds that the server asked us to wait, or None.
        fatal: every other call would fail too, so the run should stop.
        smaller: the request is larger than is taken; parts of it may succeed.
    """

    again: bool
    after: float | None = None
    fatal: bool = False
    smaller: bool = False

    @property
    def passing(self) -> bool:
        """Whether the other side was away or too busy, for any call: all of them may succeed later."""
        return self.again and self.fatal


def call(
    function: Callable[[], T],
    classify: Callable[[BaseException], Verdict],
    *,
    attempts: int = 5,
    longest_wait: float = 120.0,
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """`function()`, called up to `attempts` times while `classify` says that another try may help.

    Raises:
        Exception: the last error of `function`, unchanged.
    """

    def wait(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = classify(error).after if error else None
        if asked is not None:
            return min(asked, longest_wait)
        return random.uniform(0.1, min(longest_wait, 0.5 * 2.0**state.attempt_number))

    def again(error: BaseException) -> bool:
        return isinstance(error, Exception) and classify(error).again

    return Retrying(
        stop=stop_after_attempt(attempts),
        wait=wait,
        retry=retry_if_exception(again),
        sleep=sleep,
        reraise=True,
    )(function)
