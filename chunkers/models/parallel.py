"""Several requests of one call side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue

# It keeps its own result, and is given an event that is set after a failure, so that it can cut a wait short. What it gives back is what
# can be asked now that it has been answered.
Request = Callable[[threading.Event], "Iterable[Request] | None"]


def side_by_side(requests: Sequence[Request], workers: int) -> None:
    """Calls each of `requests`, and what they give back, so many at a time.

    After a failure those that have not begun are not called, or find the event set, and those under way come to their end.

    Args:
        requests: each keeps its own result.
        workers: threads at most.

    Raises:
        Exception: the first failure.
    """
    stop = threading.Event()
    while len(requests) == 1:
        requests = [*(requests[0](stop) or ())]
    if not requests:
        return
    failure: Exception | None = None
    under_way: set[Future[Iterable[Request] | None]] = set()
    ended: SimpleQueue[Future[Iterable[Request] | None]] = SimpleQueue()
    with ThreadPoolExecutor(max(1, workers), thread_name_prefix="model") as pool:

        def call(request: Request) -> Iterable[Request] | None:
            try:
                return request(stop)
            except BaseException:
                # At once, since this thread goes on to the next request before the failure is seen out here.
                stop.set()
                raise

        def submit(request: Request) -> None:
            future = pool.submit(call, request)
            under_way.add(future)
            future.add_done_callback(ended.put)

        def give_up() -> None:
            stop.set()
            for future in under_way:
                future.cancel()

        try:
            for request in requests:
                submit(request)
            while under_way:
                future = ended.get()
                under_way.remove(future)
                if future.cancelled():
                    continue
                error = future.exception()
                if error is None:
                    for request in (future.result() or ()) if failure is None else ():
                        submit(request)
                elif not isinstance(error, Exception):
                    raise error
                elif failure is None:
                    failure = error
                    give_up()
        except BaseException:
            # Also at Ctrl-C: leaving the pool waits for its threads, which must then neither wait nor begin anything.
            give_up()
            raise
    if failure is not None:
        raise failure
