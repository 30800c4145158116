"""Turns of a model: how many at a time, how many a minute, and what an endpoint says of it."""

from __future__ import annotations

import pytest

from chunkers.errors import SettingError
from chunkers.models.pace import Pace, SpentError, duration, rate_limit


class Watch:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch() -> Watch:
    return Watch()


def enter(pace: Pace, tokens: int = 1, *, held: bool = True) -> float:
    return pace.enter(tokens, held=held)[0]


def test_no_more_requests_are_under_way_than_are_allowed(watch: Watch) -> None:
    pace = Pace(2, clock=watch)
    assert (enter(pace), enter(pace)) == (0, 0)
    assert enter(pace) > 0
    pace.leave(0, good=True)
    assert enter(pace) == 0


def test_requests_a_minute_are_waited_for(watch: Watch) -> None:
    pace = Pace(99, requests_per_minute=3, clock=watch)
    assert [enter(pace) for _ in range(4)] == [0, 0, 0, pytest.approx(20)]
    watch.now += 20
    assert (enter(pace), enter(pace)) == (0, pytest.approx(20))


def test_tokens_a_minute_are_waited_for(watch: Watch) -> None:
    pace = Pace(99, tokens_per_minute=600, clock=watch)
    assert (enter(pace, 500), enter(pace, 200)) == (0, pytest.approx(10))
    watch.now += 10
    assert enter(pace, 200) == 0


def test_a_request_over_the_limit_of_a_minute_waits_for_all_of_it_and_holds_up_the_next(watch: Watch) -> None:
    pace = Pace(99, tokens_per_minute=60, clock=watch)
    assert enter(pace, 180) == 0
    assert enter(pace, 60) == pytest.approx(180)


def test_a_busy_endpoint_halves_the_requests_under_way_once_for_those_together(watch: Watch) -> None:
    pace = Pace(8, clock=watch)
    epochs = [pace.enter(1)[1] for _ in range(8)]
    for epoch in epochs:
        pace.leave(epoch, busy=True)
    assert pace.allowed == 4


def test_good_answers_bring_the_requests_back(watch: Watch) -> None:
    pace = Pace(4, clock=watch)
    pace.leave(pace.enter(1)[1], busy=True)
    assert pace.allowed == 2
    for _ in range(30):
        pace.leave(pace.enter(1)[1], good=True)
    assert pace.allowed == 4


def test_one_request_is_always_allowed(watch: Watch) -> None:
    pace = Pace(2, clock=watch)
    for _ in range(5):
        pace.leave(pace.enter(1)[1], busy=True)
    assert pace.allowed == 1


def test_an_endpoint_that_wants_to_be_left_alone_is_left_alone_by_all_but_who_has_waited(watch: Watch) -> None:
    pace = Pace(4, clock=watch)
    pace.leave(pace.enter(1)[1], busy=True, after=7.0)
    assert enter(pace) == pytest.approx(7)
    assert enter(pace, held=False) == 0
    watch.now += 7
    assert enter(pace) == 0


def test_what_is_left_by_the_headers_is_not_passed(watch: Watch) -> None:
    pace = Pace(99, clock=watch)
    pace.learn({"x-ratelimit-limit-requests": "60", "x-ratelimit-remaining-requests": "1"})
    assert (enter(pace), enter(pace)) == (0, pytest.approx(1))


def test_a_limit_of_the_endpoint_s_that_is_spent_for_long_is_not_waited_for(watch: Watch) -> None:
    pace = Pace(99, longest_wait=600, clock=watch)
    spent = {"x-ratelimit-limit-requests": "200", "x-ratelimit-remaining-requests": "0"}
    pace.learn({**spent, "x-ratelimit-reset-requests": "24h0m0s"})
    assert enter(pace) == pytest.approx(432)
    pace.learn({**spent, "x-ratelimit-limit-requests": "100", "x-ratelimit-reset-requests": "24h0m0s"})
    with pytest.raises(SpentError, match="no requests left for 864 s"):
        enter(pace)


def test_a_limit_of_the_endpoint_s_for_a_minute_is_kept_to_also_by_who_waits_for_nothing(watch: Watch) -> None:
    pace = Pace(99, longest_wait=0, clock=watch)
    pace.learn({"x-ratelimit-limit-requests": "1", "x-ratelimit-remaining-requests": "0"})
    assert enter(pace) == pytest.approx(60)


def test_a_limit_of_our_own_is_waited_for_however_long_it_takes(watch: Watch) -> None:
    pace = Pace(99, tokens_per_minute=10, longest_wait=600, clock=watch)
    assert enter(pace, 1000) == 0
    assert enter(pace, 10) > 600


def test_an_answer_that_comes_late_gives_nothing_back(watch: Watch) -> None:
    pace = Pace(99, clock=watch)
    told = {"x-ratelimit-limit-tokens": "600", "x-ratelimit-remaining-tokens": "100"}
    pace.learn(told)
    assert enter(pace, 100) == 0
    pace.learn(told)
    assert enter(pace, 100) == pytest.approx(10)


@pytest.mark.parametrize(
    ("limit", "remaining", "reset", "told"),
    [
        ("60", "59", "1s", (60, 59, 1.0)),
        ("60", "0", "30s", (60, 0, 2.0)),
        ("10000", "9999", "8.64s", (10000, 9999, 1 / 8.64)),
        ("60", "60", "0s", (60, 60, 1.0)),
        ("60", "30", None, (60, 30, 1.0)),
        ("60", "30", "soon", (60, 30, 1.0)),
        ("60", "90", "1s", (60, 60, 1.0)),
        ("60", "-5", "65s", (60, 0, 60 / 65)),
        ("0", "0", "1s", None),
        ("many", "1", "1s", None),
        ("nan", "1", "1s", None),
        ("60", None, "1s", None),
        (None, "5", "1s", None),
    ],
)
def test_headers_are_read_as_a_limit_what_is_left_and_a_rate(
    limit: str | None, remaining: str | None, reset: str | None, told: tuple[float, float, float] | None
) -> None:
    names = {"limit": limit, "remaining": remaining, "reset": reset}
    headers = {f"x-ratelimit-{name}-requests": value for name, value in names.items() if value is not None}
    found = rate_limit(headers, "requests")
    assert found == (pytest.approx(told) if told else None)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1s", 1),
        ("6m0s", 360),
        ("20ms", 0.02),
        ("1h2m3.5s", 3723.5),
        ("2", 2),
        ("0.5", 0.5),
        ("-1", 0),
        ("soon", None),
        ("1s later", None),
        ("", None),
        (None, None),
    ],
)
def test_durations_are_read(text: str | None, seconds: float | None) -> None:
    assert duration(text) == (pytest.approx(seconds) if seconds is not None else None)


@pytest.mark.parametrize("name", ["requests_per_minute", "tokens_per_minute"])
def test_a_rate_below_one_is_refused(name: str) -> None:
    with pytest.raises(SettingError, match=name):
        Pace(1, **{name: 0})  # type: ignore[arg-type]
