"""What errors of a server mean."""

from __future__ import annotations

from typing import Any

import httpx2
import openai
import pytest

from chunkers.models.retry_rules import classify, is_refusal, is_too_long, retry_after
from chunkers.retrying import Verdict

REQUEST = httpx2.Request("POST", "http://127.0.0.1/v1/embeddings")
AGAIN = Verdict(again=True)
BUSY = Verdict(again=True, fatal=True)
PERMANENT = Verdict(again=False)
FATAL = Verdict(again=False, fatal=True)
SMALLER = Verdict(again=False, smaller=True)


def answered(code: int, body: Any = None, **headers: str) -> openai.APIStatusError:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return openai.APIStatusError("message", response=httpx2.Response(code, headers=names, request=REQUEST), body=body)


def said(code: int, message: str) -> openai.APIStatusError:
    return openai.APIStatusError(message, response=httpx2.Response(code, request=REQUEST), body=None)


def broken(cause: Exception) -> openai.APIConnectionError:
    error = openai.APIConnectionError(request=REQUEST)
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (answered(408), AGAIN),
        (answered(409), AGAIN),
        (answered(429), BUSY),
        (answered(500), AGAIN),
        (answered(503), AGAIN),
        (answered(529), AGAIN),
        (answered(400), PERMANENT),
        (answered(400, {"code": "context_length_exceeded", "param": "input"}), PERMANENT),
        (answered(413), SMALLER),
        (answered(400, {"code": "max_tokens_per_request"}), SMALLER),
        (answered(422, {"type": "token_limit_exceeded"}), SMALLER),
        (said(429, "Request too large for m on tokens per min (TPM): Limit 40000, Requested 90000."), SMALLER),
        (said(429, "Rate limit reached for m on tokens per min (TPM): Limit 40000, Used 39000."), BUSY),
        (said(500, "input (1202 tokens) is too large to process. increase the physical batch size"), SMALLER),
        (answered(422), PERMANENT),
        (answered(401), FATAL),
        (answered(402), FATAL),
        (answered(403), FATAL),
        (answered(404), FATAL),
        (answered(405), FATAL),
        (answered(429, {"code": "insufficient_quota"}), FATAL),
        (answered(429, {"code": None, "type": "insufficient_quota"}), FATAL),
        (answered(400, {"code": "billing_hard_limit_reached"}), FATAL),
        (answered(400, {"code": "unsupported_parameter", "param": "max_tokens"}), FATAL),
        (answered(400, {"param": "dimensions"}), FATAL),
        (answered(400, {"code": 17, "type": ["odd"], "param": {"odd": 1}}), PERMANENT),
        (answered(400, "<html>"), PERMANENT),
        (openai.APITimeoutError(request=REQUEST), AGAIN),
        (broken(httpx2.ReadError("reset")), AGAIN),
        (broken(httpx2.RemoteProtocolError("closed")), AGAIN),
        (broken(httpx2.ConnectError("refused")), BUSY),
        (broken(httpx2.ConnectTimeout("silent")), BUSY),
        (ValueError("a mistake of ours"), PERMANENT),
        (KeyboardInterrupt(), PERMANENT),
    ],
)
def test_an_error_is_classified(error: BaseException, verdict: Verdict) -> None:
    assert classify(error) == verdict


def test_the_wait_that_a_busy_server_asks_for_is_in_the_verdict() -> None:
    assert classify(answered(429, retry_after="7")) == Verdict(again=True, after=7.0, fatal=True)


def test_a_wait_of_hours_ends_the_run_instead() -> None:
    assert classify(answered(429, retry_after="3600")) == Verdict(again=False, after=3600.0, fatal=True)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "250"}, 0.25),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1.0),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "later"}, None),
        ({"retry-after": "Tue, 01 Dec 2026 10:00:09 GMT", "date": "Tue, 01 Dec 2026 10:00:00 GMT"}, 9.0),
        ({"retry-after": "Tue, 01 Dec 2026 09:00:00 GMT", "date": "Tue, 01 Dec 2026 10:00:00 GMT"}, 0.0),
        ({"retry-after": "Tue, 01 Dec 2020 09:00:00 GMT"}, 0.0),
    ],
)
def test_the_wait_is_read_from_the_headers(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@pytest.mark.parametrize(
    ("error", "refused"),
    [
        (answered(400, {"code": "content_filter"}), True),
        (answered(403, {"code": "content_policy_violation"}), True),
        (answered(400, {"code": "context_length_exceeded"}), False),
        (answered(500, {"code": "content_filter"}), False),
        (ValueError(), False),
    ],
)
def test_a_content_filter_is_told_from_other_errors(error: BaseException, refused: bool) -> None:
    assert is_refusal(error) is refused


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (answered(400, {"code": "context_length_exceeded", "param": "messages"}), True),
        (answered(400, {"type": "exceed_context_size_error"}), True),
        (said(400, "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens"), True),
        (said(400, "the request exceeds the available context size, try increasing it"), True),
        (said(413, "prompt is too long: 210000 tokens > 200000 maximum"), True),
        (said(400, "temperature must be positive"), False),
        (said(500, "This model's maximum context length is 4096 tokens"), False),
        (answered(429, {"code": "context_length_exceeded"}), False),
        (broken(httpx2.ReadError("context length")), False),
        (ValueError("context length"), False),
    ],
)
def test_a_prompt_that_the_model_has_no_room_for_is_told_apart(error: Exception, expected: bool) -> None:
    assert is_too_long(error) is expected
