from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable

import httpx
import pytest
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from chunkers.retrying import Verdict
from stores import StoreError
from stores.errors import RequestTooLarge
from stores.transport import NotApplied, classify, reason, send


def answered(status: int, error: str = "why") -> UnexpectedResponse:
    body = json.dumps({"status": {"error": error}, "time": 0.0}).encode()
    return UnexpectedResponse(status, "reason", body, httpx.Headers())


def unanswered(error: Exception) -> ResponseHandlingException:
    return ResponseHandlingException(error)


def rate_limit(retry_after: str) -> Exception:
    """What the client library makes of a 429 with this header."""
    try:
        return ResourceExhaustedResponse("slow down", retry_after)  # type: ignore[arg-type]
    except QdrantException as error:
        return error


OVER_LIMIT = "Payload error: JSON payload (40000000 bytes) is larger than allowed (limit: 33554432 bytes)."
UNSTATED = "Payload error: JSON payload has exceeded limit (33554432 bytes)."

PERMANENT = Verdict(again=False)
FATAL = Verdict(again=False, fatal=True)
AGAIN = Verdict(again=True)
AGAIN_THEN_FATAL = Verdict(again=True, fatal=True)
SMALLER = Verdict(again=False, smaller=True)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (answered(400), PERMANENT),
        (answered(400, "Wrong input: Vector dimension error"), PERMANENT),
        (answered(400, OVER_LIMIT), SMALLER),
        (answered(400, UNSTATED), SMALLER),
        (answered(413), SMALLER),
        (answered(422), PERMANENT),
        (answered(401), FATAL),
        (answered(403), FATAL),
        (answered(404, "Not found: Collection `x` doesn't exist!"), FATAL),
        (answered(404, "Not found: No point with id 7 found"), PERMANENT),
        (UnexpectedResponse(404, "Not Found", b"404 page not found", httpx.Headers()), FATAL),
        (answered(408), AGAIN),
        (answered(409), AGAIN),
        (answered(500), AGAIN),
        (answered(500, OVER_LIMIT), AGAIN),
        (answered(502), AGAIN_THEN_FATAL),
        (answered(503), AGAIN_THEN_FATAL),
        (answered(504), AGAIN_THEN_FATAL),
        (answered(429), AGAIN_THEN_FATAL),
        (rate_limit("7"), Verdict(again=True, after=7.0, fatal=True)),
        (rate_limit("0"), Verdict(again=True, after=0.0, fatal=True)),
        (rate_limit("120"), Verdict(again=True, after=120.0, fatal=True)),
        (rate_limit("121"), Verdict(again=False, after=121.0, fatal=True)),
        (rate_limit("Wed, 21 Oct 2026 07:28:00 GMT"), AGAIN_THEN_FATAL),
        (unanswered(httpx.ReadTimeout("slow")), AGAIN_THEN_FATAL),
        (unanswered(httpx.ConnectError("refused")), AGAIN_THEN_FATAL),
        (unanswered(httpx.RemoteProtocolError("dropped")), AGAIN_THEN_FATAL),
        (unanswered(ValueError("bad answer")), PERMANENT),
        (NotApplied("wait_timeout"), AGAIN),
        (sqlite3.OperationalError("database or disk is full"), FATAL),
        (OSError(28, "No space left on device"), FATAL),
        (ValueError("Collection x not found"), FATAL),
        (ValueError("a dimension not found in Collection x"), PERMANENT),
        (KeyError("id"), PERMANENT),
    ],
)
def test_what_an_error_means(error: BaseException, verdict: Verdict) -> None:
    assert classify(error) == verdict


def failing(*errors: Exception) -> Callable[[], str]:
    left = list(errors)

    def call() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return call


def test_what_may_pass_is_tried_again() -> None:
    waits: list[float] = []
    call = failing(ResourceExhaustedResponse("slow", 7), NotApplied("no"))
    assert send("write", call, sleep=waits.append) == "done"
    assert waits[0] == 7
    assert 0 < waits[1] <= 2


def test_what_will_not_pass_is_one_line_after_one_try() -> None:
    call = failing(answered(400), answered(400))
    with pytest.raises(StoreError, match=r'^write to x: Qdrant answered 400 reason: \{"status": \{"error": "why"\}, '):
        send("write to x", call)


def test_a_request_that_is_too_large_is_told_apart() -> None:
    with pytest.raises(RequestTooLarge, match=r"^write to x: Qdrant answered 413"):
        send("write to x", failing(answered(413)))


def test_tries_are_bounded_and_waits_double_with_jitter() -> None:
    waits: list[float] = []
    calls = failing(*(answered(500) for _ in range(9)))
    with pytest.raises(StoreError, match="Qdrant answered 500"):
        send("write", calls, sleep=waits.append)
    assert len(waits) == 4
    assert all(0.1 <= wait <= most for wait, most in zip(waits, (1, 2, 4, 8), strict=True))


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (unanswered(httpx.ReadTimeout("timed out")), r"no answer from Qdrant \(ReadTimeout: timed out\)"),
        (
            unanswered(ValueError("3 errors\nin it")),
            r"an answer that cannot be read from Qdrant \(ValueError: 3 errors in it\)",
        ),
        (
            json.JSONDecodeError("Expecting value", "<html>", 0),
            r"an answer that cannot be read from Qdrant \(Expecting",
        ),
        (rate_limit("121"), r"Qdrant is over its rate limit and asks for a wait of 121 seconds"),
        (rate_limit("tomorrow"), r"QdrantException: Retry-After header value is not a valid integer: tomorrow"),
    ],
)
def test_an_error_is_told_in_one_line(error: Exception, told: str) -> None:
    with pytest.raises(StoreError, match=f"^write: {told}"):
        send("write", failing(*[error] * 5), sleep=lambda seconds: None)


def test_an_error_of_ours_passes_unchanged() -> None:
    with pytest.raises(StoreError, match=r"^as it is$"):
        send("write", failing(StoreError("as it is")))


def test_a_log_without_room_for_its_index_is_told_as_a_disk_that_may_be_full() -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_SHMSIZE
    assert reason(error) == "OperationalError: disk I/O error (the disk is full, or fails)"
    assert "full" not in reason(sqlite3.OperationalError("database is locked"))
