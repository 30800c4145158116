"""One OpenAI-compatible server and one of its models: the client, our own retry, and errors that name no key.

The client library's own retry is off: it neither tells a spent quota from a busy server nor says when it gave up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import TypeVar

import openai

from chunkers import retrying
from chunkers.errors import ModelError
from chunkers.models.endpoint import NO_KEY, Endpoint
from chunkers.models.retry_rules import LONGEST_WAIT, classify, is_refusal
from chunkers.models.texts import fold, shorten

T = TypeVar("T")

TIMEOUT = 60.0
ATTEMPTS = 5
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


class OpenAIClient:
    """Asks `model` at `endpoint`. Safe to use from several threads; nothing is opened before the first request.

    Args:
        timeout: seconds a request may take to connect, and to send each next piece.
        attempts: how often a request is sent at most.
        sleep: waits between attempts, in seconds.
        cancelled: once set, the run is over: nothing more is sent, a wait between attempts ends, and the answer to what was sent is
            awaited for `last_answer` seconds more.
        last_answer: see there.
    """

    def __init__(
        self,
        model: str,
        endpoint: Endpoint,
        *,
        timeout: float = TIMEOUT,
        attempts: int = ATTEMPTS,
        sleep: Callable[[float], None] = time.sleep,
        cancelled: threading.Event | None = None,
        last_answer: float = LAST_ANSWER,
    ) -> None:
        self.model = model
        self._cancelled = cancelled
        self._last_answer = last_answer
        self._endpoint = endpoint
        self._timeout = timeout
        self._attempts = attempts
        self._sleep = sleep
        self._lock = threading.Lock()
        self._opened: openai.OpenAI | None = None

    def ask(self, send: Callable[[openai.OpenAI], T], *, stop: threading.Event | None = None) -> T:
        """`send(client)`, tried again while that can help.

        Args:
            send: makes one request.
            stop: once set, nothing more is sent and no wait lasts.

        Raises:
            ModelError: the server could not be reached, or refused; `fatal` when every text would fare the same.
        """

        def attempt() -> T:
            if self._cancelled and self._cancelled.is_set():
                raise self.error("not asked, since the run was stopped", fatal=True)
            if stop and stop.is_set():
                raise self.error("not asked, since another request of the batch failed")
            return self._awaited(lambda: send(self._client()))

        def pause(seconds: float) -> None:
            events = [event for event in (stop, self._cancelled) if event]
            if events:
                _wait(seconds, events)
            else:
                self._sleep(seconds)

        try:
            return retrying.call(
                attempt,
                classify,
                attempts=self._attempts,
                longest_wait=LONGEST_WAIT,
                sleep=pause,
            )
        except openai.OpenAIError as error:
            failure = self._model_error(error)
        # Raised out here so that no traceback carries the original error, whose text may hold the key.
        raise failure

    def error(self, problem: str, *, fatal: bool = False, passing: bool = False) -> ModelError:
        """A `ModelError` about this model, with the key taken out of `problem`."""
        return ModelError(self._message(problem), fatal=fatal, passing=passing)

    def _awaited(self, request: Callable[[], T]) -> T:
        """`request()`, in a thread that is left alone when it has not answered some time after the run was stopped.

        A request cannot be taken back, and one that hangs would keep a stopped run waiting for a minute.
        """
        cancelled = self._cancelled
        if cancelled is None:
            return request()
        answer: Future[T] = Future()

        def answered() -> None:
            try:
                answer.set_result(request())
            except BaseException as error:
                answer.set_exception(error)

        # A daemon, since nobody waits for it at the end.
        threading.Thread(target=answered, name="request", daemon=True).start()
        while not cancelled.is_set():
            if wait([answer], _GLANCE).done:
                return answer.result()
        if not wait([answer], self._last_answer).done:
            raise self.error("did not answer before the run was stopped", fatal=True)
        return answer.result()

    def _client(self) -> openai.OpenAI:
        with self._lock:
            if self._opened is None:
                self._opened = openai.OpenAI(
                    api_key=self._endpoint.key, base_url=self._endpoint.url, timeout=self._timeout, max_retries=0
                )
            return self._opened

    def _message(self, problem: str) -> str:
        if self._endpoint.key != NO_KEY:
            problem = problem.replace(self._endpoint.key, "***")
        return f"{self.model} at {self._endpoint.shown}: {shorten(problem, LONGEST_PROBLEM)}"

    def _model_error(self, error: openai.OpenAIError) -> ModelError:
        problem = fold(str(error))
        if isinstance(error, openai.APIStatusError):
            advice = _ADVICE.get(error.status_code)
            problem = f"{problem} ({advice})" if advice else problem
        elif error.__cause__ is not None:
            problem = f"{problem} {error.__cause__}"
        if is_refusal(error):
            return RefusedError(self._message(problem))
        verdict = classify(error)
        return self.error(problem, fatal=verdict.fatal, passing=verdict.passing)


def _wait(seconds: float, events: Sequence[threading.Event]) -> None:
    """Waits so long, or until one of the events is set."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not any(event.is_set() for event in events):
        events[0].wait(min(left, _GLANCE))
