"""Which signals raise, and which are ignored."""

from __future__ import annotations

import signal
import threading

import pytest

from flows.stopping import no_keyboard, one_interruption, undisturbed

BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])


def handlers() -> list[object]:
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


@BOTH
def test_nothing_is_raised_while_undisturbed(number: signal.Signals) -> None:
    before = handlers()
    with undisturbed():
        signal.raise_signal(number)
    assert handlers() == before


@BOTH
def test_handlers_are_put_back_after_an_error(number: signal.Signals) -> None:
    before = handlers()
    with pytest.raises(ValueError, match="full"), undisturbed():
        raise ValueError("full")
    with pytest.raises(KeyboardInterrupt), one_interruption():
        signal.raise_signal(number)
    assert handlers() == before


@BOTH
def test_only_the_first_signal_interrupts(number: signal.Signals) -> None:
    interrupted = 0
    with one_interruption():
        for sent in (number, signal.SIGINT, signal.SIGTERM):
            try:
                signal.raise_signal(sent)
            except KeyboardInterrupt:
                interrupted += 1
    assert interrupted == 1


def test_another_thread_than_the_main_one_may_ask_for_it() -> None:
    before = handlers()
    inside = []

    def ask() -> None:
        with undisturbed(), one_interruption():
            inside.append(handlers())

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert inside == [before]


def test_without_a_keyboard_only_sigterm_gets_through() -> None:
    before = handlers()
    with one_interruption(), no_keyboard():
        signal.raise_signal(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
    assert handlers() == before
