"""How a run's documents are grouped into batches: a pure rule.

A batch is one task per strategy, and a task costs the run some 12 ms and Prefect's server some 40 ms of a processor, so their number
does not grow with the number of documents: batches do. They are bounded in bytes too, since a batch's documents are in memory together,
so a corpus of gigabytes has more of them; a document larger than the bound is a batch of its own. Documents that were in hand when a run
was killed are tried in smaller batches, and alone the next time, so that the one that kills is found and its neighbours are not parked
with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeVar

from stores import DocumentState

# Task runs of one flow run, about; what a small Prefect server digests without falling behind.
TASK_RUNS = 240
SMALLEST_BATCH = 128
LARGEST_BYTES = 16_000_000


class Sized(Protocol):
    """Anything that knows its size in bytes."""

    @property
    def size(self) -> int: ...


T = TypeVar("T", bound=Sized)


def batch_size(documents: int, strategies: int) -> int:
    """Documents a batch, so that a run of `documents` has at most about `TASK_RUNS` tasks for `strategies` strategies."""
    batches = max(1, TASK_RUNS // (strategies + 1))
    return max(SMALLEST_BATCH, -(-documents // batches))


def batches(entries: Iterable[T], documents: int) -> Iterator[list[T]]:
    """`entries` in order, in lists of at most `documents` entries and `LARGEST_BYTES` bytes, never an empty one."""
    batch: list[T] = []
    total = 0
    for entry in entries:
        if batch and (len(batch) == documents or total + entry.size > LARGEST_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(entry)
        total += entry.size
    if batch:
        yield batch


def careful_batches(
    entries: Iterable[T], documents: int, states: Callable[[T], Iterable[DocumentState]]
) -> Iterator[list[T]]:
    """As `batches`: what was tried more often comes later, and what was in hand in runs that were killed comes last and in smaller batches.

    Args:
        entries: what is to be written.
        documents: entries of a batch at most.
        states: of an entry in the journals.
    """

    def most(entry: T, what: str) -> int:
        return max((getattr(state, what) for state in states(entry)), default=0)

    by_kills: dict[int, list[T]] = {}
    for entry in sorted(entries, key=lambda entry: most(entry, "attempts")):
        by_kills.setdefault(min(most(entry, "kills"), 2), []).append(entry)
    for number, sizes in ((0, documents), (1, math.isqrt(documents)), (2, 1)):
        yield from batches(by_kills.get(number, []), sizes)
