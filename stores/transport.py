"""Calls to Qdrant: what an error means, and requests that are tried again while that helps.

`classify` is the pure rule. Everything the client may raise comes out of `send` as a `StoreError` with one line for a person.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Callable
from typing import TypeVar

import httpx
from qdrant_client import models
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from chunkers import retrying
from chunkers.redaction import redacted
from chunkers.retrying import Verdict
from stores.errors import RequestTooLarge, StoreError

T = TypeVar("T")

_AGAIN = frozenset({408, 409, 429, 500, 502, 503, 504})
# Refused whatever is asked, or, when tries run out, away or too busy for any other request too. A 500 may be about one point.
_FATAL = frozenset({401, 403, 429, 502, 503, 504})
# A server that asks for more is not waited for.
LONGEST_WAIT = 120.0
# Of a body over its limit Qdrant says so with 400; a proxy before it answers 413.
_TOO_LARGE = re.compile(rb"payload.* (is larger than allowed|has exceeded limit)", re.IGNORECASE)
# Any other 404 says that the collection, or Qdrant itself, is not there.
_NO_POINT = b"No point with id"
_NO_COLLECTION = re.compile(r"Collection \S+ not found")


class NotApplied(RuntimeError):
    """The server took a write but did not confirm that it is applied. The same write again is harmless."""


def classify(error: BaseException) -> Verdict:
    """Whether the same call may succeed later, when, and whether anything else in this store would."""
    if isinstance(error, ResourceExhaustedResponse):
        after = float(error.retry_after_s)
        return Verdict(again=after <= LONGEST_WAIT, after=after, fatal=True)
    if isinstance(error, QdrantException):
        # A rate limit whose Retry-After is not in seconds.
        return Verdict(again=True, fatal=True)
    if isinstance(error, UnexpectedResponse):
        return _answered(error.status_code or 0, error.content or b"")
    if isinstance(error, ResponseHandlingException):
        return Verdict(
            again=isinstance(error.source, httpx.TransportError), fatal=isinstance(error.source, httpx.TransportError)
        )
    if isinstance(error, NotApplied):
        return Verdict(again=True)
    # Embedded: a full disk or a damaged file, which no later call mends, or a collection that somebody dropped.
    gone = isinstance(error, ValueError) and _NO_COLLECTION.match(str(error)) is not None
    return Verdict(again=False, fatal=gone or isinstance(error, sqlite3.Error | OSError))


def _answered(status: int, content: bytes) -> Verdict:
    if status == 413 or (status == 400 and _TOO_LARGE.search(content)):
        return Verdict(again=False, smaller=True)
    if status == 404:
        return Verdict(again=False, fatal=_NO_POINT not in content)
    return Verdict(again=status in _AGAIN, fatal=status in _FATAL)


def send(what: str, call: Callable[[], T], *, attempts: int = 5, sleep: Callable[[float], None] = time.sleep) -> T:
    """`call()`, tried again while that can help.

    Args:
        what: what is being done and to which collection, for the message.
        call: one request; it must be harmless when done twice.
        attempts: tries at most.
        sleep: waits between tries.

    Raises:
        RequestTooLarge: the server takes only smaller requests.
        StoreError: it did not succeed.
    """
    try:
        return retrying.call(call, classify, attempts=attempts, sleep=sleep)
    except StoreError:
        raise
    except (
        UnexpectedResponse,
        ResponseHandlingException,
        QdrantException,
        NotApplied,
        ValueError,
        KeyError,
        RuntimeError,
        OSError,
        sqlite3.Error,
    ) as error:
        verdict = classify(error)
        if isinstance(error, UnexpectedResponse) and error.content:
            # A traceback shows it as the cause.
            error.content = redacted(error.content.decode("utf-8", "replace")).encode()
        kind = RequestTooLarge if verdict.smaller else StoreError
        raise kind(f"{what}: {reason(error)}", fatal=verdict.fatal, passing=verdict.passing) from error


def confirm(result: models.UpdateResult | None) -> None:
    """Raises NotApplied for a write that the server took but did not apply: `wait_timeout` comes with HTTP 200."""
    if result is None or result.status != models.UpdateStatus.COMPLETED:
        raise NotApplied(f"the write was taken but not applied ({result.status.value if result else 'no answer'})")


def agreed(result: bool) -> None:
    """Raises NotApplied where the server says that it did not do something about a collection or an alias."""
    if not result:
        raise NotApplied("the server says that it was not done")


def reason(error: BaseException) -> str:
    """The cause of an error in one line, without what only a developer wants, and without a key."""
    return redacted(_reason(error))


def _reason(error: BaseException) -> str:
    if isinstance(error, UnexpectedResponse):
        # Before the cut, which could leave the half of a key.
        body = redacted((error.content or b"").decode("utf-8", "replace"))[:300]
        return f"Qdrant answered {error.status_code} {error.reason_phrase}: {body}"
    if isinstance(error, ResponseHandlingException):
        what = "no answer" if isinstance(error.source, httpx.TransportError) else "an answer that cannot be read"
        return f"{what} from Qdrant ({type(error.source).__name__}: {error.source})"
    if isinstance(error, ResourceExhaustedResponse):
        return f"Qdrant is over its rate limit and asks for a wait of {error.retry_after_s} seconds"
    if isinstance(error, json.JSONDecodeError):
        return f"an answer that cannot be read from Qdrant ({error})"
    told = f"{type(error).__name__}: {error}" if not isinstance(error, NotApplied | ValueError) else str(error)
    # SQLite calls it that, too, when there is no room for the index of its log.
    failing = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_IOERR
    return f"{told} (the disk is full, or fails)" if failing else told
