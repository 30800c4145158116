"""Calls to Qdrant: what an error means, and requests that are tried again while that helps.

`classify` is the pure rule. Everything the client may raise comes out of `send` as a `StoreError` with one line for a person.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

import httpx
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from chunkers import retrying
from chunkers.retrying import Verdict
from stores.errors import StoreError

T = TypeVar("T")

_AGAIN = frozenset({408, 409, 429, 500, 502, 503, 504})
_FATAL = frozenset({401, 403})


class NotApplied(RuntimeError):
    """The server took a write but did not confirm that it is applied. The same write again is harmless."""


def classify(error: BaseException) -> Verdict:
    """Whether the same call may succeed later, when, and whether anything else in this store would."""
    if isinstance(error, ResourceExhaustedResponse):
        return Verdict(again=True, after=float(error.retry_after_s))
    if isinstance(error, UnexpectedResponse):
        status = error.status_code or 0
        return Verdict(again=status in _AGAIN, fatal=status in _FATAL)
    if isinstance(error, ResponseHandlingException):
        return Verdict(
            again=isinstance(error.source, httpx.TransportError), fatal=isinstance(error.source, httpx.TransportError)
        )
    if isinstance(error, NotApplied):
        return Verdict(again=True)
    # Embedded: a full disk or a damaged file, which no later call mends.
    return Verdict(again=False, fatal=isinstance(error, sqlite3.Error | OSError))


def send(what: str, call: Callable[[], T], *, attempts: int = 5, sleep: Callable[[float], None] = time.sleep) -> T:
    """`call()`, tried again while that can help.

    Args:
        what: what is being done and to which collection, for the message.
        call: one request; it must be harmless when done twice.
        attempts: tries at most.
        sleep: waits between tries.

    Raises:
        StoreError: it did not succeed.
    """
    try:
        return retrying.call(call, classify, attempts=attempts, sleep=sleep)
    except StoreError:
        raise
    except (
        UnexpectedResponse,
        ResponseHandlingException,
        ResourceExhaustedResponse,
        NotApplied,
        ValueError,
        KeyError,
        RuntimeError,
        OSError,
        sqlite3.Error,
    ) as error:
        raise StoreError(f"{what}: {reason(error)}", fatal=classify(error).fatal) from error


def reason(error: BaseException) -> str:
    """The cause of an error in one line, without what only a developer wants."""
    if isinstance(error, UnexpectedResponse):
        body = (error.content or b"").decode("utf-8", "replace")[:300]
        return f"Qdrant answered {error.status_code} {error.reason_phrase}: {body}"
    if isinstance(error, ResponseHandlingException):
        return f"no answer from Qdrant ({type(error.source).__name__}: {error.source})"
    if isinstance(error, ResourceExhaustedResponse):
        return "Qdrant is over its rate limit"
    return f"{type(error).__name__}: {error}" if not isinstance(error, NotApplied | ValueError) else str(error)
