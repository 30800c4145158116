"""What answers cost, and the budget that no request passes."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from chunkers.models.usage import BudgetError, Meter, Price, Usage, usage_of

A_DOLLAR = Usage(1, 1_000_000)


def meter(most: float | None) -> Meter:
    return Meter({"model": Price(1.0, 4.0)}.get, most)


def test_a_price_is_for_a_million_tokens_and_cached_ones_have_their_own() -> None:
    usage = Usage(3, prompt_tokens=1_000_000, cached_tokens=400_000, answer_tokens=500_000)
    assert Price(1.0, 4.0, cached=0.5).of(usage) == pytest.approx(0.6 + 0.2 + 2.0)
    assert Price(1.0, 4.0).of(usage) == pytest.approx(1.0 + 2.0)


def test_a_request_that_could_pass_the_budget_is_refused_with_what_it_would_cost() -> None:
    own = meter(1.5)
    with own.charged("model", A_DOLLAR) as charge:
        charge.settle(A_DOLLAR)
    with pytest.raises(BudgetError, match=r"could cost \$1\.000000, and \$1\.000000 of \$1\.5 are spent") as caught:
        own.charged("model", A_DOLLAR).__enter__()
    assert caught.value.fatal
    assert not caught.value.passing


def test_a_budget_may_be_spent_to_the_last_dollar() -> None:
    own = meter(2.0)
    for _ in range(2):
        with own.charged("model", A_DOLLAR) as charge:
            charge.settle(A_DOLLAR)
    assert own.spent == pytest.approx(2.0)


def test_after_the_first_refusal_nothing_that_costs_money_is_sent() -> None:
    own = meter(0.5)
    with pytest.raises(BudgetError):
        own.charged("model", A_DOLLAR).__enter__()
    with pytest.raises(BudgetError):
        own.charged("model", Usage(1, 1)).__enter__()


def test_an_answer_brings_the_charge_down_to_what_was_counted() -> None:
    own = meter(1.5)
    with own.charged("model", A_DOLLAR) as charge:
        charge.settle(Usage(1, 100))
    assert own.spent == pytest.approx(0.0001)


def test_a_request_that_failed_costs_nothing_and_one_whose_answer_never_came_what_it_could() -> None:
    own = meter(None)
    with pytest.raises(OSError, match="refused"), own.charged("model", A_DOLLAR):
        raise OSError("refused")
    assert own.spent == 0
    own.lost("model", A_DOLLAR)
    assert own.spent == pytest.approx(1.0)


def test_requests_under_way_together_cannot_pass_the_budget_together() -> None:
    own = meter(3.0)
    ready = threading.Barrier(8)
    sent = []

    def ask() -> None:
        ready.wait(60)
        with own.charged("model", A_DOLLAR) as charge:
            sent.append(1)
            charge.settle(A_DOLLAR)

    with ThreadPoolExecutor(8) as pool:
        ended = [pool.submit(ask) for _ in range(8)]
    assert all(isinstance(one.exception(), BudgetError | None) for one in ended)
    assert len(sent) <= 3
    assert own.spent <= 3.0


def test_an_unknown_model_is_counted_at_no_price() -> None:
    own = Meter()
    with own.charged("odd", A_DOLLAR) as charge:
        charge.settle(A_DOLLAR)
    assert own.spent == 0


@pytest.mark.parametrize(
    ("answer", "usage"),
    [
        ({"usage": {"prompt_tokens": 7, "total_tokens": 7}}, Usage(1, 7)),
        ({"usage": {"prompt_tokens": 7, "completion_tokens": 3}}, Usage(1, 7, 0, 3)),
        (
            {"usage": {"prompt_tokens": 7, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 5}}},
            Usage(1, 7, 5, 3),
        ),
        ({"usage": {"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 9}}}, Usage(1, 7, 7)),
        ({"usage": {"prompt_tokens": 7, "prompt_tokens_details": None}}, Usage(1, 7)),
        ({"usage": {"prompt_tokens": 0}}, Usage(1, 99, 0, 50, estimated=True)),
        ({"usage": {"prompt_tokens": "7"}}, Usage(1, 99, 0, 50, estimated=True)),
        ({"usage": None}, Usage(1, 99, 0, 50, estimated=True)),
        ({}, Usage(1, 99, 0, 50, estimated=True)),
        (["odd"], Usage(1, 99, 0, 50, estimated=True)),
    ],
)
def test_the_endpoint_s_own_count_is_taken_where_it_gives_one(answer: Any, usage: Usage) -> None:
    assert usage_of(answer, Usage(1, 99, 0, 50)) == usage
