"""Several requests of one call side by side, in threads that can be left alone.

A request cannot be taken back, and one that hangs would keep a stopped run waiting for a minute. So each is made in a daemon thread, and
once the run is stopped the caller waits for the answers that are under way only so long.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue

# It keeps its own result, and is given an event that is set after a failure, so that it can cut a wait short. What it gives back is what
# can be asked now that it has been answered.
Request = Callable[[threading.Event], "Iterable[Request] | None"]

# Seconds between two looks at whether the run was stopped.
_GLANCE = 0.2


class LeftAlone(Exception):
    """Requests that were under way did not end in time after the run was stopped."""


def side_by_side(
    requests: Sequence[Request], workers: int, *, stopped: threading.Event | None = None, patience: float = 0.0
) -> None:
    """Calls each of `requests`, and what they give back, so many at a time.

    After a failure those that have not begun are not called, and those under way come to their end.

    Args:
        requests: each keeps its own result.
        workers: threads at most.
        stopped: once set, the run is over, and what is under way is waited for no longer than `patience`.
        patience: seconds.

    Raises:
        LeftAlone: requests under way did not end in time.
        Exception: the first failure.
    """
    calls = _Calls(workers)
    if stopped is None:
        # Nothing can end the wait for a single request, so it needs no thread.
        while len(requests) == 1:
            requests = [*(requests[0](calls.stop) or ())]
    try:
        calls.submit(requests)
        calls.finish(stopped, patience)
    except BaseException:
        # Also at Ctrl-C: the threads must then neither wait nor begin anything, but an answer that is under way is paid for.
        calls.give_up()
        with suppress(LeftAlone):
            calls.finish(stopped, patience)
        raise
    finally:
        calls.end()
    if calls.failure is not None:
        raise calls.failure


class _Calls:
    """The requests of one call, and the threads that make them.

    Attributes:
        stop: set after a failure.
        failure: the first.
    """

    def __init__(self, workers: int) -> None:
        self.stop, self._over = threading.Event(), threading.Event()
        self._over.set()
        self.failure: BaseException | None = None
        self._workers = max(1, workers)
        self._threads = 0
        self._left = 0
        self._changing = threading.Lock()
        self._waiting: SimpleQueue[Request | None] = SimpleQueue()

    def submit(self, requests: Iterable[Request]) -> None:
        with self._changing:
            for request in requests:
                self._begin(request)

    def _begin(self, request: Request) -> None:
        self._left += 1
        self._over.clear()
        self._waiting.put(request)
        if self._threads < min(self._workers, self._left):
            self._threads += 1
            threading.Thread(target=self._work, name=f"model-{self._threads}", daemon=True).start()

    def finish(self, stopped: threading.Event | None, patience: float) -> None:
        """Waits until all have ended."""
        while not self._over.wait(_GLANCE if stopped else None):
            if stopped and stopped.is_set():
                if self._over.wait(patience):
                    return
                raise LeftAlone

    def give_up(self) -> None:
        """Calls nothing that has not begun."""
        with self._changing:
            self._give_up()

    def _give_up(self) -> None:
        self.stop.set()
        while True:
            try:
                request = self._waiting.get_nowait()
            except Empty:
                return
            if request is None:
                # Of a thread that was left alone and failed later: the others are to go, too.
                self._waiting.put(None)
                return
            self._end_one()

    def _end_one(self) -> None:
        self._left -= 1
        if not self._left:
            self._over.set()

    def end(self) -> None:
        """Lets the threads go."""
        for _ in range(self._threads):
            self._waiting.put(None)

    def _work(self) -> None:
        while (request := self._waiting.get()) is not None:
            more: Iterable[Request] = ()
            error: BaseException | None = None
            try:
                more = request(self.stop) or ()
            except BaseException as caught:
                error = caught
            with self._changing:
                if error is None and self.failure is None and not self.stop.is_set():
                    for one in more:
                        self._begin(one)
                elif error is not None and self.failure is None:
                    self.failure = error
                    self._give_up()
                self._end_one()
