"""Timing of several things against each other: rounds in turn, so that a busy machine is busy for all of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

Run = Callable[[], object]


class Seconds(NamedTuple):
    """The shortest of several rounds: by the clock, and of processor time, which counts every thread."""

    wall: float
    processor: float


def best_seconds(prepared: Mapping[str, Callable[[], Run]], rounds: int) -> dict[str, Seconds]:
    """The seconds of each run, every run once a round, after a round that does not count.

    Args:
        prepared: gives a new run for each round. Making it is not timed, and what the objects of one round keep is no help in the next.
    """
    best = {name: Seconds(float("inf"), float("inf")) for name in prepared}
    for number in range(rounds + 1):
        for name, prepare in prepared.items():
            run = prepare()
            gc.collect()
            wall, processor = time.perf_counter(), time.process_time()
            result = run()
            spent = Seconds(time.perf_counter() - wall, time.process_time() - processor)
            del result
            if number:
                best[name] = Seconds(*map(min, best[name], spent))
    return best
