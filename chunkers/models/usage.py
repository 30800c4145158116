"""What an endpoint counted, and what that costs: tokens of requests, a price for a million of them, and a budget that is never passed.

A `Meter` belongs to a run. Before a request is sent it is charged at the most that it can cost, so that requests which are under way
together cannot pass the budget together; its answer brings the charge down to what the endpoint counted. The first request that would
pass the budget closes the meter: nothing that costs money is sent after it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from chunkers.errors import ModelError


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of answered requests.

    Attributes:
        requests: how many were answered.
        prompt_tokens: sent, those in the endpoint's own prompt cache included.
        cached_tokens: of these, in that cache.
        answer_tokens: that came back as text.
        estimated: the endpoint did not say, so they were counted here.
    """

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    answer_tokens: int = 0
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            self.prompt_tokens + other.prompt_tokens,
            self.cached_tokens + other.cached_tokens,
            self.answer_tokens + other.answer_tokens,
            self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens; `cached` for those in the endpoint's prompt cache, as `prompt` unless given."""

    prompt: float
    answer: float = 0.0
    cached: float | None = None

    def of(self, usage: Usage) -> float:
        """What `usage` costs, in US dollars."""
        cached = self.prompt if self.cached is None else self.cached
        fresh = max(0, usage.prompt_tokens - usage.cached_tokens)
        return (fresh * self.prompt + usage.cached_tokens * cached + usage.answer_tokens * self.answer) / 1e6


class BudgetError(ModelError):
    """The next request could cost more than the run may."""

    def __init__(self, spent: float, most: float, model: str, more: float) -> None:
        super().__init__(
            f"the next request to {model} could cost ${more:.6f}, and ${spent:.6f} of ${most:g} are spent: not sent, since the run "
            "would cost more than it may (--max-cost)",
            fatal=True,
        )


class Charge:
    """What one request is charged until it is known what it cost."""

    def __init__(self, dollars: float) -> None:
        self.dollars = dollars
        self.usage: Usage | None = None

    def settle(self, usage: Usage) -> None:
        """The endpoint has answered, and counted so much."""
        self.usage = usage


class Meter:
    """The spending of a run, of all its models and threads.

    Args:
        price_of: the price of a model; None where it is not known.
        max_cost: US dollars that the run may cost; None for any.
    """

    def __init__(
        self, price_of: Callable[[str], Price | None] = lambda model: None, max_cost: float | None = None
    ) -> None:
        self._price_of = price_of
        self._max_cost = max_cost
        self._lock = threading.Lock()
        self._spent = 0.0
        self._held = 0.0
        self._closed: BudgetError | None = None

    @property
    def spent(self) -> float:
        """US dollars for what was answered, as far as prices are known."""
        return self._spent

    @contextmanager
    def charged(self, model: str, most: Usage) -> Iterator[Charge]:
        """While one request to `model` is under way.

        Args:
            model: which is asked.
            most: tokens that it may cost.

        Raises:
            BudgetError: it could pass the budget, or another one before it could.
        """
        price = self._price_of(model) or Price(0.0)
        charge = Charge(price.of(most))
        with self._lock:
            if self._max_cost is not None:
                if self._closed:
                    raise BudgetError(self._spent, self._max_cost, model, charge.dollars)
                if self._spent + self._held + charge.dollars > self._max_cost:
                    self._closed = BudgetError(self._spent, self._max_cost, model, charge.dollars)
                    raise self._closed
            self._held += charge.dollars
        try:
            yield charge
        finally:
            with self._lock:
                self._held -= charge.dollars
                if charge.usage is not None:
                    self._spent += price.of(charge.usage)

    def lost(self, model: str, most: Usage) -> None:
        """A request was sent and its answer never came: the endpoint may have charged it all the same."""
        with self._lock:
            self._spent += (self._price_of(model) or Price(0.0)).of(most)


def usage_of(answer: Any, most: Usage) -> Usage:
    """What a decoded answer says of its tokens; where it says nothing, `most`, marked as an estimate."""
    told = answer.get("usage") if isinstance(answer, dict) else None
    if not isinstance(told, dict) or not _count(told.get("prompt_tokens")):
        return Usage(1, most.prompt_tokens, 0, most.answer_tokens, estimated=True)
    details = told.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    prompt = _count(told.get("prompt_tokens"))
    return Usage(1, prompt, min(cached, prompt), _count(told.get("completion_tokens")))


def _count(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0
