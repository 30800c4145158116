"""Keys that some thread is asking a model about just now, so that others wait for its answer and do not ask the same.

A thread never waits while it holds a claim, so threads cannot wait for each other in a circle.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable


class Claims:
    """Claims on keys, each held by one thread at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[bytes, threading.Event] = {}

    def take(self, keys: Iterable[bytes]) -> tuple[list[bytes], dict[bytes, threading.Event]]:
        """Claims those of `keys` that nobody holds.

        Returns:
            The keys that are claimed now, in order, and for each of the others what is set as soon as it is released.
        """
        mine, others = [], {}
        released = threading.Event()
        with self._lock:
            for key in keys:
                if key in self._held:
                    others[key] = self._held[key]
                else:
                    self._held[key] = released
                    mine.append(key)
        return mine, others

    def release(self, keys: Iterable[bytes]) -> None:
        """Lets go of all keys that one call of `take` claimed."""
        with self._lock:
            events = {id(event): event for key in keys if (event := self._held.pop(key, None))}
        for event in events.values():
            event.set()
