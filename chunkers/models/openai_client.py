"""One OpenAI-compatible server and one of its models: the client, our own retry, pace and meter, and errors that name no key.

The client library's own retry is off: it neither tells a spent quota from a busy server nor says when it gave up.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import httpx2
import openai

from chunkers import retrying
from chunkers.errors import ModelError
from chunkers.models.endpoint import Endpoint
from chunkers.models.pace import Pace, SpentError
from chunkers.models.parallel import LeftAlone, Request, side_by_side
from chunkers.models.retry_rules import (
    LONGEST_WAIT,
    classify,
    is_refusal,
    is_too_long,
    retry_after,
    unknown_field,
)
from chunkers.models.texts import fold, shorten
from chunkers.models.usage import Meter, Usage, usage_of
from chunkers.redaction import redacted

T = TypeVar("T")

TIMEOUT = 60.0
ATTEMPTS = 5
PARALLEL = 8
# Seconds that an answer is still awaited after the run was stopped.
LAST_ANSWER = 10.0
# Seconds between two looks at whether it was, and at what else ends a wait.
_GLANCE = 0.2

# Characters of a server's complaint that are passed on: some answer with a page of HTML.
LONGEST_PROBLEM = 300

_ADVICE = {
    401: "check OPENAI_API_KEY",
    403: "the key may not use this model",
    404: "check the model's name and OPENAI_BASE_URL",
}


class RefusedError(ModelError):
    """A content filter turned the text down before the model saw it."""


class TooLargeError(ModelError):
    """The server takes no request of that size; parts of it may do."""


class TooLongError(ModelError):
    """The model has no room for so long a prompt."""


class UnknownFieldError(ModelError):
    """The server does not know, or take, a field of the request.

    Attributes:
        field: its name.
    """

    def __init__(self, message: str, field: str, *, fatal: bool) -> None:
        super().__init__(message, fatal=fatal)
        self.field = field


@dataclass(frozen=True, slots=True)
class Manners:
    """How an endpoint's model is asked, whatever it is asked for.

    Attributes:
        timeout: seconds a request may take to connect, and to send each next piece.
        attempts: how often a request is sent at most.
        longest_wait: seconds; a server that asks for a longer wait will not answer in this run.
        parallel: requests under way at most, over all threads.
        requests_per_minute, tokens_per_minute: None for as many as the endpoint takes.
        meter: of the run's spending.
    """

    timeout: float = TIMEOUT
    attempts: int = ATTEMPTS
    longest_wait: float = LONGEST_WAIT
    parallel: int = PARALLEL
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    meter: Meter = field(default_factory=Meter)


class Answer(NamedTuple):
    """A decoded answer and what it used."""

    body: Any
    usage: Usage


class OpenAIClient:
    """Asks `model` at `endpoint`. Safe to use from several threads; nothing is opened before the first request.

    Args:
        manners: how it is asked.
        sleep: stands in for the waits between attempts, in seconds.
        cancelled: once set, the run is over: nothing more is sent, a wait between attempts ends, and the answers to what `side_by_side`
            sent are awaited for `last_answer` seconds more.
        last_answer: see there.
    """

    def __init__(
        self,
        model: str,
        endpoint: Endpoint,
        *,
        manners: Manners | None = None,
        sleep: Callable[[float], None] | None = None,
        cancelled: threading.Event | None = None,
        last_answer: float = LAST_ANSWER,
    ) -> None:
        self.manners = manners = manners or Manners()
        self._pace = Pace(
            manners.parallel,
            requests_per_minute=manners.requests_per_minute,
            tokens_per_minute=manners.tokens_per_minute,
            longest_wait=manners.longest_wait,
        )
        self.model = model
        self._cancelled = cancelled
        self._last_answer = last_answer
        self._endpoint = endpoint
        self._sleep = sleep
        self._lock = threading.Lock()
        self._opened: openai.OpenAI | None = None

    def ask(self, path: str, body: Mapping[str, Any], most: Usage, *, stop: threading.Event | None = None) -> Answer:
        """The decoded answer to a request, tried again while that can help.

        Args:
            path: of the request, below the base URL.
            body: of the request, to be sent as JSON.
            most: tokens that it may use.
            stop: once set, nothing more is sent and no wait lasts.

        Raises:
            BudgetError: it could cost more than the run may.
            TooLargeError: the server takes no request of that size.
            TooLongError: the model has no room for so long a prompt.
            RefusedError: a content filter turned it down.
            ModelError: the server could not be reached, or refused; `fatal` when every text would fare the same.
        """
        longest = self.manners.longest_wait
        told_to_wait = False

        def attempt() -> Answer:
            nonlocal told_to_wait
            # Who was told to wait has waited.
            epoch = self._enter(most, stop, held=not told_to_wait)
            good, busy, after = False, False, None
            try:
                answer = self._sent(path, body, most)
                good = True
                return answer
            except openai.APIStatusError as error:
                busy = error.status_code in (429, 503)
                after = retry_after(error.response.headers)
                if after is not None and after > longest:
                    # Nobody waits so long: who asks next is told the same, and stops.
                    after = None
                told_to_wait = busy and after is not None
                raise
            finally:
                self._pace.leave(epoch, busy=busy, after=after, good=good)

        def pause(seconds: float) -> None:
            if self._sleep:
                self._sleep(seconds)
            else:
                _wait(seconds, [event for event in (stop, self._cancelled) if event])

        try:
            return retrying.call(
                attempt,
                lambda error: classify(error, longest),
                attempts=self.manners.attempts,
                longest_wait=longest,
                sleep=pause,
            )
        except openai.OpenAIError as error:
            failure = self._model_error(error)
        # Raised out here so that no traceback carries the original error, whose text may hold the key.
        raise failure

    def side_by_side(self, requests: Sequence[Request]) -> None:
        """Makes requests that `ask`, as many at a time as may be under way; see `parallel.side_by_side`.

        Raises:
            ModelError: they did not end in time after the run was stopped.
            Exception: the first failure.
        """
        try:
            side_by_side(requests, self.manners.parallel, stopped=self._cancelled, patience=self._last_answer)
        except LeftAlone:
            raise self.error("did not answer before the run was stopped", fatal=True) from None

    def error(self, problem: str, *, fatal: bool = False, passing: bool = False) -> ModelError:
        """A `ModelError` about this model, with the key taken out of `problem`."""
        return ModelError(self._message(problem), fatal=fatal, passing=passing)

    def _enter(self, most: Usage, stop: threading.Event | None, *, held: bool) -> int:
        """Waits for a turn."""
        while True:
            if self._cancelled and self._cancelled.is_set():
                raise self.error("not asked, since the run was stopped", fatal=True)
            if stop and stop.is_set():
                raise self.error("not asked, since another request of the batch failed")
            try:
                delay, epoch = self._pace.enter(most.prompt_tokens + most.answer_tokens, held=held)
            except SpentError as spent:
                problem = f"its limit leaves no {spent.unit} for {spent.seconds:,.0f} s more, longer than QUARRY_RETRY_MAX_WAIT"
                raise self.error(problem, fatal=True) from None
            if not delay:
                return epoch
            self._pace.rest(min(delay, _GLANCE))

    def _sent(self, path: str, body: Mapping[str, Any], most: Usage) -> Answer:
        """One request, metered. It runs to its end also where nobody waits for it any more."""
        meter = self.manners.meter
        with meter.charged(self.model, most) as charge:
            try:
                # The bare answer: the library takes 50 times as long to build its objects, and a good part of a request to look at ours.
                response = self._client().post(path, body=body, cast_to=httpx2.Response)
            except openai.APIConnectionError as error:
                if not isinstance(error.__cause__, httpx2.ConnectError | httpx2.ConnectTimeout):
                    meter.lost(self.model, most)
                raise
            self._pace.learn(response.headers)
            try:
                answer = json.loads(response.content)
            except ValueError as error:
                charge.settle(usage_of(None, most))
                raise self.error(f"gave an answer that is no JSON: {error}") from None
            usage = usage_of(answer, most)
            charge.settle(usage)
        return Answer(answer, usage)

    def _client(self) -> openai.OpenAI:
        with self._lock:
            if self._opened is None:
                self._opened = openai.OpenAI(
                    api_key=self._endpoint.key, base_url=self._endpoint.url, timeout=self.manners.timeout, max_retries=0
                )
            return self._opened

    def _message(self, problem: str) -> str:
        # Before the cut, which could leave the half of a key.
        return f"{self.model} at {self._endpoint.shown}: {shorten(redacted(problem), LONGEST_PROBLEM)}"

    def _model_error(self, error: openai.OpenAIError) -> ModelError:
        problem = fold(str(error))
        if isinstance(error, openai.APIStatusError):
            advice = _ADVICE.get(error.status_code)
            problem = f"{problem} ({advice})" if advice else problem
        elif error.__cause__ is not None:
            problem = f"{problem} {error.__cause__}"
        if is_refusal(error):
            return RefusedError(self._message(problem))
        verdict = classify(error, self.manners.longest_wait)
        unknown = unknown_field(error)
        if unknown is not None:
            return UnknownFieldError(self._message(problem), unknown, fatal=verdict.fatal)
        if verdict.smaller:
            return TooLargeError(self._message(problem))
        if is_too_long(error) and not verdict.fatal:
            return TooLongError(self._message(problem))
        return self.error(problem, fatal=verdict.fatal, passing=verdict.again)


def _wait(seconds: float, events: Sequence[threading.Event]) -> None:
    """Waits so long, or until one of the events is set."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not any(event.is_set() for event in events):
        pause = min(left, _GLANCE)
        if events:
            events[0].wait(pause)
        else:
            time.sleep(left)
