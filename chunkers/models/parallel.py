"""Several requests of one call side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed


def side_by_side(requests: Sequence[Callable[[threading.Event], None]], workers: int) -> None:
    """Calls each of `requests`, so many at a time.

    After a failure those that have not begun are not called, and those under way come to their end.

    Args:
        requests: each keeps its own result, and is given an event that is set after a failure, so that it can cut a wait short.
        workers: threads at most.

    Raises:
        Exception: the first failure.
    """
    stop = threading.Event()
    if len(requests) == 1:
        requests[0](stop)
        return
    failure: Exception | None = None
    with ThreadPoolExecutor(max(1, min(workers, len(requests))), thread_name_prefix="model") as pool:
        futures: list[Future[None]] = [pool.submit(request, stop) for request in requests]
        try:
            for future in as_completed(futures):
                if future.cancelled():
                    continue
                error = future.exception()
                if error is None:
                    continue
                if not isinstance(error, Exception):
                    raise error
                if failure is None:
                    failure = error
                    stop.set()
                    for other in futures:
                        other.cancel()
        except BaseException:
            # Also at Ctrl-C: leaving the pool waits for its threads, which must then neither wait nor begin anything.
            stop.set()
            for other in futures:
                other.cancel()
            raise
    if failure is not None:
        raise failure
