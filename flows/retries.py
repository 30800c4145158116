"""Which failures of a task are worth another try, and how long to wait for it: one pure rule, for tasks of Prefect and for plain runs.

Only what can pass is tried again: a store or a model that was away or too busy for any request. A single request is tried again at
once by whoever sends it (`stores.transport`, `chunkers.models.openai_client`), for some seconds; what gets here has outlasted that. A wrong
key, a full disk or a fault of ours would fail as before. What is stored already is left out of the next try.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt

T = TypeVar("T")

# Seconds before the second and the third try, about.
WAITS = (2.0, 8.0)


def may_pass(error: BaseException) -> bool:
    """Whether the same work may succeed later."""
    return bool(getattr(error, "passing", False))


def again(error: BaseException, tries: int) -> bool:
    """Whether work that failed with `error` at its `tries`-th try, counted from 1, is to be tried once more."""
    return tries <= len(WAITS) and may_pass(error)


def wait_before(tries: int) -> float:
    """Seconds to wait after so many tries. They differ by half, so that six strategies do not come back at the same moment."""
    return WAITS[min(tries, len(WAITS)) - 1] * random.uniform(0.75, 1.25)


def patiently(work: Callable[[], T], stop: threading.Event) -> T:
    """`work()`, tried again while that can help; a wait ends as soon as `stop` is set.

    Raises:
        Exception: the last error of `work`, unchanged.
    """
    return Retrying(
        stop=stop_after_attempt(len(WAITS) + 1),
        wait=lambda state: wait_before(state.attempt_number),
        retry=retry_if_exception(lambda error: may_pass(error) and not stop.is_set()),
        sleep=lambda seconds: _wait(stop, seconds),
        reraise=True,
    )(work)


def _wait(stop: threading.Event, seconds: float) -> None:
    stop.wait(seconds)
