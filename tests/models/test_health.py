"""When a failure is put to the test with a harmless text, and what comes of it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from chunkers import ModelError
from chunkers.models.health import Health

FAILURE = ModelError("the server broke", passing=True)


class Probe:
    """Counts what is asked, and fails with `trouble`."""

    def __init__(self, trouble: ModelError | None = None) -> None:
        self.asked = 0
        self.trouble = trouble

    def __call__(self) -> None:
        self.asked += 1
        if self.trouble:
            raise self.trouble


def test_a_failure_before_any_answer_is_put_to_the_test() -> None:
    probe = Probe()
    assert Health(probe).judged(FAILURE) is FAILURE
    assert probe.asked == 1


def test_a_failure_after_an_answer_is_not_but_the_next_is() -> None:
    probe = Probe()
    health = Health(probe)
    health.answered()
    assert health.judged(FAILURE) is FAILURE
    assert probe.asked == 0
    assert health.judged(FAILURE) is FAILURE
    assert probe.asked == 1
    # The harmless text was answered.
    assert health.judged(FAILURE) is FAILURE
    assert probe.asked == 1


@pytest.mark.parametrize("passing", [True, False])
def test_where_a_harmless_text_fares_no_better_no_text_does(passing: bool) -> None:
    judged = Health(Probe(ModelError("broke again"))).judged(ModelError("the server broke", passing=passing))
    assert (judged.fatal, judged.passing) == (True, passing)
    assert str(judged) == "the server broke; a short text fares no better"


def test_what_ends_the_run_at_the_harmless_text_is_told_instead() -> None:
    trouble = ModelError("the key was revoked", fatal=True)
    assert Health(Probe(trouble)).judged(FAILURE) is trouble


def test_a_fatal_failure_needs_no_test() -> None:
    probe = Probe()
    fatal = ModelError("a wrong key", fatal=True)
    assert Health(probe).judged(fatal) is fatal
    assert probe.asked == 0


def test_failures_at_the_same_time_are_put_to_one_test() -> None:
    asked: list[int] = []
    together, open_ = threading.Barrier(8), threading.Event()

    def probe() -> None:
        asked.append(1)
        open_.wait(10)
        raise ModelError("broke again")

    health = Health(probe)

    def fail(number: int) -> ModelError:
        together.wait(10)
        return health.judged(FAILURE)

    with ThreadPoolExecutor(8) as pool:
        judged = [pool.submit(fail, number) for number in range(8)]
        while health._failures < 9:
            pass
        open_.set()
        assert all(one.result().fatal for one in judged)
    assert len(asked) == 1
