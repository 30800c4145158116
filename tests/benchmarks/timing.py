"""Timing of several things against each other: rounds in turn, so that a busy machine is busy for all of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping

Run = Callable[[], object]


def best_seconds(prepared: Mapping[str, Callable[[], Run]], rounds: int) -> dict[str, float]:
    """The shortest time of each run over `rounds` rounds, every run once a round, after a round that does not count.

    Args:
        prepared: gives a new run for each round; making it is not timed, and what one round's run has cached is no help in the next.
    """
    best = dict.fromkeys(prepared, float("inf"))
    for number in range(rounds + 1):
        for name, prepare in prepared.items():
            run = prepare()
            gc.collect()
            began = time.perf_counter()
            result = run()
            seconds = time.perf_counter() - began
            del result
            if number:
                best[name] = min(best[name], seconds)
    return best
