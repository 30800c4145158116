"""What can go wrong with a store, as one error with a message that a person can act on."""

from __future__ import annotations


class StoreError(RuntimeError):
    """The store could not do what was asked. The message says what, where and what to do, in one line.

    Args:
        message: for a person.
        fatal: nothing else in this store would work either, so the strategy should stop.
    """

    def __init__(self, message: str, *, fatal: bool = False) -> None:
        super().__init__(" ".join(message.split()))
        self.fatal = fatal


class SettingsChanged(StoreError):
    """A collection exists and was made with other settings than those asked for."""
