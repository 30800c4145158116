from __future__ import annotations

import sqlite3
from collections.abc import Callable

import httpx
import pytest
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

from chunkers.retrying import Verdict
from stores import StoreError
from stores.transport import NotApplied, classify, send


def answered(status: int) -> UnexpectedResponse:
    return UnexpectedResponse(status, "reason", b'{"status":{"error":"why"}}', httpx.Headers())


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (answered(400), Verdict(again=False)),
        (answered(404), Verdict(again=False)),
        (answered(413), Verdict(again=False)),
        (answered(401), Verdict(again=False, fatal=True)),
        (answered(403), Verdict(again=False, fatal=True)),
        (answered(408), Verdict(again=True)),
        (answered(429), Verdict(again=True)),
        (answered(500), Verdict(again=True)),
        (answered(503), Verdict(again=True)),
        (ResourceExhaustedResponse("slow down", 7), Verdict(again=True, after=7.0)),
        (ResponseHandlingException(httpx.ReadTimeout("slow")), Verdict(again=True, fatal=True)),
        (ResponseHandlingException(httpx.ConnectError("refused")), Verdict(again=True, fatal=True)),
        (ResponseHandlingException(ValueError("bad answer")), Verdict(again=False)),
        (NotApplied("wait_timeout"), Verdict(again=True)),
        (sqlite3.OperationalError("database or disk is full"), Verdict(again=False, fatal=True)),
        (ValueError("Collection x not found"), Verdict(again=False)),
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
    with pytest.raises(StoreError, match=r'^write to x: Qdrant answered 400 reason: \{"status":\{"error":"why"\}\}$'):
        send("write to x", call)


def test_an_error_of_ours_passes_unchanged() -> None:
    with pytest.raises(StoreError, match=r"^as it is$"):
        send("write", failing(StoreError("as it is")))
