"""Signals: the first one ends a run, and none disturbs its ending.

SIGINT and SIGTERM raise an exception in the main thread. One that came while a run is ending would close the store under threads that
still write the documents in hand, whose texts would then be embedded again by the next run. Prefect cancels a run of a deployment only
while its own handler of SIGTERM is in place, so that one stays until a run ends.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_BOTH = (signal.SIGINT, signal.SIGTERM)
_Handler = Callable[[int, FrameType | None], object]


def _ignore(number: int, frame: FrameType | None) -> None:
    """Unlike SIG_IGN, a function is not passed on to processes that are started meanwhile."""


@contextmanager
def undisturbed() -> Iterator[None]:
    """Inside, SIGINT and SIGTERM change nothing. In another thread than the main one, which gets no signals, it does nothing."""
    with _handled_by(_ignore):
        yield


@contextmanager
def one_interruption() -> Iterator[None]:
    """Inside, the first SIGINT or SIGTERM raises KeyboardInterrupt, and later ones change nothing."""

    def interrupt(number: int, frame: FrameType | None) -> NoReturn:
        for one in _BOTH:
            signal.signal(one, _ignore)
        raise KeyboardInterrupt

    with _handled_by(interrupt):
        yield


@contextmanager
def no_keyboard() -> Iterator[None]:
    """Inside, SIGINT changes nothing. A Ctrl-C at a terminal goes to all processes there, and this one is told by another what to do."""
    with _handled_by(_ignore, (signal.SIGINT,)):
        yield


@contextmanager
def _handled_by(handler: _Handler, numbers: Sequence[signal.Signals] = _BOTH) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, own in before.items():
            # None where the handler was not set from Python, so that it cannot be put back.
            signal.signal(number, signal.SIG_DFL if own is None else own)
