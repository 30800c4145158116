"""How fast one model of an endpoint is asked: so many requests at a time, so many requests and tokens a minute.

Limits come from settings and from what the endpoint says in its `x-ratelimit-*` headers. Each is a token bucket: it fills at a rate,
a request takes out what it needs, and waits while there is less. An endpoint that is too busy (429) halves how many requests are
under way, once for those that were under way together; each good answer brings back a part of one. While it wants to be left alone
nobody else begins a request. Nothing here sleeps: `enter` says how long to wait.
"""

from __future__ import annotations

import math
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from chunkers.errors import SettingError

# Seconds that are always waited for a limit of the endpoint's: most are of a minute, and to keep to them is what a pace is for.
ONE_MINUTE = 60.0
# Seconds after which somebody who waits for another's turn to end looks again.
GLANCE = 0.05

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class SpentError(Exception):
    """What the endpoint says it allows leaves no room for a request for longer than is waited.

    Attributes:
        unit: of the limit, requests or tokens.
        seconds: until there is room.
    """

    def __init__(self, unit: str, seconds: float) -> None:
        super().__init__(f"no {unit} left for {seconds:.0f} s")
        self.unit, self.seconds = unit, seconds


@dataclass
class Bucket:
    """A token bucket.

    Attributes:
        capacity: what it holds when full.
        rate: what flows in, a second.
        level: what is in it at the time `at`; below 0 after a request that is larger than the bucket.
    """

    capacity: float
    rate: float
    level: float
    at: float

    def wait(self, amount: float, now: float) -> float:
        """Seconds until `amount` can be taken, or, where that is more than it ever holds, until it is full."""
        self._fill(now)
        lacking = min(amount, self.capacity) - self.level
        return lacking / self.rate if lacking > 1e-9 else 0.0

    def take(self, amount: float, now: float) -> None:
        self._fill(now)
        self.level -= amount

    def _fill(self, now: float) -> None:
        self.level = min(self.capacity, self.level + max(0.0, now - self.at) * self.rate)
        self.at = now


class Pace:
    """Turns of one model, over all threads.

    Args:
        parallel: requests under way at most.
        requests_per_minute, tokens_per_minute: None for as many as the endpoint takes.
        longest_wait: seconds that are waited for a limit which the endpoint told, a minute at least; for one of ours it is as long as
            it takes.
        clock: seconds.

    Raises:
        SettingError: one of the limits is below 1.
    """

    def __init__(
        self,
        parallel: int,
        *,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        longest_wait: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        limits = {
            "parallel": parallel,
            "requests_per_minute": requests_per_minute,
            "tokens_per_minute": tokens_per_minute,
        }
        for name, value in limits.items():
            if value is not None and value < 1:
                raise SettingError(name, value, "at least 1")
        self.parallel = parallel
        self._longest_wait = max(longest_wait, ONE_MINUTE)
        self._clock = clock
        self._changed = threading.Condition()
        self._allowed = float(parallel)
        self._under_way = 0
        self._epoch = 0
        self._held_until = 0.0
        now = clock()
        self._buckets: dict[tuple[str, str], Bucket] = {}
        for unit, limit in (("requests", requests_per_minute), ("tokens", tokens_per_minute)):
            if limit is not None:
                self._buckets["set", unit] = Bucket(limit, limit / 60, limit, now)

    @property
    def allowed(self) -> int:
        """Requests that may be under way now."""
        return max(1, int(self._allowed))

    def enter(self, tokens: int, *, held: bool = True) -> tuple[float, int]:
        """Takes a turn for a request of so many tokens, if there is one.

        Args:
            tokens: of the request.
            held: wait, too, while the endpoint wants to be left alone; not for whoever it told so.

        Returns:
            0 and what `leave` wants to be told; or the seconds after which to ask again, and nothing of meaning.

        Raises:
            SpentError: by what the endpoint told there is no turn for longer than is waited.
        """
        with self._changed:
            now = self._clock()
            if self._under_way >= self.allowed:
                return GLANCE, 0
            amounts = {"requests": 1, "tokens": tokens}
            waits = {key: bucket.wait(amounts[key[1]], now) for key, bucket in self._buckets.items()}
            for (source, unit), wait in waits.items():
                if source == "told" and wait > self._longest_wait:
                    raise SpentError(unit, wait)
            delay = max(waits.values(), default=0.0)
            if held:
                delay = max(delay, self._held_until - now)
            if delay > 0:
                return delay, 0
            for (_, unit), bucket in self._buckets.items():
                bucket.take(amounts[unit], now)
            self._under_way += 1
            return 0.0, self._epoch

    def leave(self, epoch: int, *, busy: bool = False, after: float | None = None, good: bool = False) -> None:
        """Ends a turn.

        Args:
            epoch: what `enter` gave.
            busy: the endpoint had too much to do.
            after: seconds for which it wants to be left alone.
            good: it answered.
        """
        with self._changed:
            self._under_way -= 1
            if busy:
                if epoch == self._epoch:
                    self._epoch += 1
                    self._allowed = max(1.0, self._allowed / 2)
                if after is not None:
                    self._held_until = max(self._held_until, self._clock() + after)
            elif good:
                if epoch == self._epoch:
                    # Whoever it told to wait has asked again since, and was answered.
                    self._held_until = 0.0
                self._allowed = min(float(self.parallel), self._allowed + 1 / self._allowed)
            self._changed.notify_all()

    def rest(self, seconds: float) -> None:
        """Waits so long, or until a turn has ended."""
        with self._changed:
            self._changed.wait(seconds)

    def learn(self, headers: Mapping[str, str]) -> None:
        """Takes an answer's `x-ratelimit-*` headers for what the endpoint allows."""
        with self._changed:
            now = self._clock()
            for unit in ("requests", "tokens"):
                told = rate_limit(headers, unit)
                if told is None:
                    continue
                limit, remaining, rate = told
                known = self._buckets.get(("told", unit))
                level = float(remaining)
                if known is not None and known.capacity == limit:
                    # Answers come in any order, and what is under way was counted here already.
                    known._fill(now)
                    level = min(level, known.level)
                self._buckets["told", unit] = Bucket(float(limit), rate, level, now)


def rate_limit(headers: Mapping[str, str], unit: str) -> tuple[float, float, float] | None:
    """What headers say of `requests` or `tokens`: the limit, what is left of it, and how much of it comes back, a second.

    None where they say nothing of use. A limit is for a minute unless the time until it is whole again says otherwise.
    """
    limit = _number(headers.get(f"x-ratelimit-limit-{unit}"))
    remaining = _number(headers.get(f"x-ratelimit-remaining-{unit}"))
    if not limit or limit <= 0 or remaining is None:
        return None
    remaining = min(max(remaining, 0.0), limit)
    reset = duration(headers.get(f"x-ratelimit-reset-{unit}"))
    rate = (limit - remaining) / reset if reset and remaining < limit else limit / 60
    return limit, remaining, rate


def duration(text: str | None) -> float | None:
    """Seconds of a duration such as `6m0s`, `20ms` or `8.64s`, or of a bare number of seconds; None for anything else."""
    if text is None:
        return None
    text = text.strip().lower()
    bare = _number(text)
    if bare is not None:
        return max(0.0, bare)
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if abs(number) < 1e15 else None
