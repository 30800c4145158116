"""Requests side by side: what each gives back is asked next, and what happens after a failure."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from chunkers.models.parallel import LeftAlone, Request, side_by_side

BOUND = 20


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("chains", [1, 5])
def test_what_a_request_gives_back_is_asked_after_it(workers: int, chains: int) -> None:
    asked: list[tuple[int, int]] = []

    def ask(chain: int, depth: int, stop: threading.Event) -> list[Request]:
        asked.append((chain, depth))
        return [partial(ask, chain, depth + 1), partial(ask, chain, depth + 1)] if depth < 3 else []

    side_by_side([partial(ask, chain, 0) for chain in range(chains)], workers)
    for chain in range(chains):
        depths = [depth for own, depth in asked if own == chain]
        assert sorted(depths) == [0] + [1] * 2 + [2] * 4 + [3] * 8


def test_no_requests_are_no_threads() -> None:
    side_by_side([], 4)


def test_nothing_is_asked_after_a_failure() -> None:
    asked: list[str] = []
    failed = threading.Event()

    def fail(stop: threading.Event) -> None:
        asked.append("fails")
        raise ValueError("no")

    def wait(stop: threading.Event) -> list[Request]:
        asked.append("waits")
        assert stop.wait(BOUND)
        failed.set()
        return [partial(lambda stop: asked.append("after"))]

    with pytest.raises(ValueError, match="no"):
        side_by_side([wait, fail, *[lambda stop: asked.append("late")] * 50], 2)
    assert failed.is_set()
    assert "after" not in asked
    assert asked.count("late") < 50


def test_an_interrupt_in_a_request_reaches_the_caller() -> None:
    def interrupt(stop: threading.Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        side_by_side([interrupt, lambda stop: None], 2)


def test_a_request_that_hangs_is_left_alone_once_the_run_was_stopped() -> None:
    stopped, opened, began = threading.Event(), threading.Event(), threading.Event()
    asked: list[str] = []

    def hang(stop: threading.Event) -> None:
        began.set()
        stopped.set()
        assert opened.wait(BOUND)
        raise ValueError("too late")

    def wait(stop: threading.Event) -> None:
        assert began.wait(BOUND)
        asked.append("an answer that came in time")

    with pytest.raises(LeftAlone):
        side_by_side([hang, wait, *[hang] * 5], 2, stopped=stopped, patience=0.05)
    assert asked == ["an answer that came in time"]
    # Its thread, and the one that waits for work, end once it does.
    opened.set()
    for thread in threading.enumerate():
        if thread.name.startswith("model-"):
            thread.join(BOUND)
            assert not thread.is_alive()


def test_a_slow_request_holds_up_only_what_it_gives_back() -> None:
    quick_are_through = threading.Event()
    asked: list[str] = []

    def slow(stop: threading.Event) -> list[Request]:
        assert quick_are_through.wait(BOUND)
        return [lambda stop: asked.append("of the slow one")] * 20

    def second(stop: threading.Event) -> None:
        asked.append("quick")
        if len(asked) == 5:
            quick_are_through.set()

    side_by_side([slow, *[lambda stop: [second]] * 5], 2)
    assert asked == ["quick"] * 5 + ["of the slow one"] * 20
