"""A request that is under way when the run is stopped: its answer counts, and one that hangs is given up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from chunkers.errors import ModelError
from chunkers.models.endpoint import Endpoint
from chunkers.models.openai_client import Answer, OpenAIClient
from chunkers.models.usage import Usage
from tests.models.conftest import SMALL
from tests.openai_server import Gate, OpenAIServer

# Against a test that hangs.
BOUND = 30


@pytest.fixture
def held(openai_server: OpenAIServer) -> Iterator[Gate]:
    openai_server.always = held = Gate(1)
    yield held
    held.opened.set()


def answered(client: OpenAIClient) -> Answer:
    answers: list[Answer] = []

    def ask(stop: threading.Event) -> None:
        answers.append(client.ask("/embeddings", {"model": SMALL, "input": ["a", "b"]}, Usage(1, 2), stop=stop))

    client.side_by_side([ask])
    (answer,) = answers
    return answer


@pytest.fixture
def asking(openai_server: OpenAIServer) -> Iterator[Callable[..., Future[Answer]]]:
    """Starts a request of a client that ends at `cancelled`; a future of its answer."""
    endpoint = Endpoint(openai_server.key, openai_server.url)
    with ThreadPoolExecutor(1) as pool:

        def ask(cancelled: threading.Event, last_answer: float) -> Future[Answer]:
            client = OpenAIClient(SMALL, endpoint, cancelled=cancelled, last_answer=last_answer)
            return pool.submit(answered, client)

        yield ask


def test_an_answer_that_comes_after_the_stop_counts(held: Gate, asking: Callable[..., Future[Answer]]) -> None:
    cancelled = threading.Event()
    answer = asking(cancelled, last_answer=BOUND)
    assert held.reached.wait(BOUND)
    cancelled.set()
    held.opened.set()
    assert len(answer.result(BOUND).body["data"]) == 2


def test_a_request_that_hangs_is_given_up_after_the_stop(
    held: Gate, asking: Callable[..., Future[Answer]], openai_server: OpenAIServer
) -> None:
    cancelled = threading.Event()
    answer = asking(cancelled, last_answer=0.01)
    assert held.reached.wait(BOUND)
    cancelled.set()
    with pytest.raises(ModelError, match="did not answer before the run was stopped") as caught:
        answer.result(BOUND)
    assert caught.value.fatal
    assert len(openai_server.requests) == 1


def test_without_a_stop_a_late_answer_is_awaited(held: Gate, asking: Callable[..., Future[Answer]]) -> None:
    answer = asking(threading.Event(), last_answer=0.0)
    assert held.reached.wait(BOUND)
    held.opened.set()
    assert len(answer.result(BOUND).body["data"]) == 2


def test_errors_of_the_server_pass_through(openai_server: OpenAIServer) -> None:
    client = OpenAIClient(SMALL, Endpoint("sk-wrong", openai_server.url), cancelled=threading.Event())
    with pytest.raises(ModelError, match="check OPENAI_API_KEY") as caught:
        answered(client)
    assert "sk-wrong" not in str(caught.value)
