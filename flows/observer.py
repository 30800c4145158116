"""How a run in this process tells its caller what it is doing, without passing objects through flow parameters.

The command line enters `observed(...)` around a run; the run reports to whoever is listening, and leaves its report there. In a
worker nobody listens, and nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from flows.report import Report

if TYPE_CHECKING:
    from flows.ingestion import Ingestion
    from flows.request import Request


class Observer:
    """Hears of progress; the base class keeps the report and ignores the rest."""

    report: Report | None = None

    def prepared(self, request: Request) -> Ingestion | None:
        """A run that the caller has opened for `request` already, to check it before a server was started for it."""
        return None

    def planned(self, strategies: dict[str, int]) -> None:
        """The run knows how many documents each strategy will write."""

    def advanced(self, strategy: str, documents: int) -> None:
        """A strategy is done with so many more documents. Called from several threads."""

    def noted(self, message: str) -> None:
        """Something that a person would want to know now, such as which models are used."""


_listening: ContextVar[Observer | None] = ContextVar("observer", default=None)


def current() -> Observer:
    """Whoever listens to runs in this context; somebody who ignores everything if nobody does."""
    return _listening.get() or Observer()


@contextmanager
def observed(observer: Observer) -> Iterator[Observer]:
    """Runs inside report to `observer`."""
    token = _listening.set(observer)
    try:
        yield observer
    finally:
        _listening.reset(token)
