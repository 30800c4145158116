"""The packer: every input once, in order, within three caps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkers.errors import ModelError, SettingError
from chunkers.models.requests import InputTooLongError, Limits, pack

SMALL = Limits(max_inputs=3, max_input_tokens=10, max_request_tokens=20)


@pytest.mark.parametrize(
    ("counts", "packed"),
    [
        ([], []),
        ([5], [(0, 1)]),
        ([10], [(0, 1)]),
        ([1, 1, 1], [(0, 3)]),
        ([1, 1, 1, 1], [(0, 3), (3, 4)]),
        ([10, 10], [(0, 2)]),
        ([10, 10, 1], [(0, 2), (2, 3)]),
        ([10, 9, 2], [(0, 2), (2, 3)]),
        ([0, 0, 0, 0], [(0, 3), (3, 4)]),
        ([10, 10, 10, 10], [(0, 2), (2, 4)]),
    ],
)
def test_requests_are_filled_in_order(counts: list[int], packed: list[tuple[int, int]]) -> None:
    assert [(request.start, request.stop) for request in pack(counts, SMALL)] == packed


@pytest.mark.parametrize(
    ("counts", "requests"),
    [([1] * 2048, 1), ([1] * 2049, 2), ([1] * 5000, 3), ([8000] * 35, 1), ([8000] * 36, 2), ([8191], 1)],
)
def test_the_default_limits_are_those_of_openai(counts: list[int], requests: int) -> None:
    assert len(pack(counts)) == requests


def test_an_input_over_the_cap_is_named_and_not_cut() -> None:
    with pytest.raises(InputTooLongError, match=r"8,192 tokens .* at most 8,191") as caught:
        pack([1, 8192, 1])
    assert (caught.value.index, caught.value.tokens, caught.value.cap) == (1, 8192, 8191)
    assert isinstance(caught.value, ModelError)
    assert not caught.value.fatal


@pytest.mark.parametrize(
    "limits",
    [{"max_inputs": 0}, {"max_input_tokens": 0}, {"max_request_tokens": 0}, {"max_request_tokens": 8190}],
)
def test_limits_that_admit_nothing_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(SettingError, match=next(iter(limits))):
        Limits(**limits)


@given(
    counts=st.lists(st.integers(0, 50)),
    max_inputs=st.integers(1, 9),
    max_request_tokens=st.integers(50, 120),
)
def test_every_input_is_in_one_request_within_the_caps(
    counts: list[int], max_inputs: int, max_request_tokens: int
) -> None:
    packed = pack(counts, Limits(max_inputs, 50, max_request_tokens))
    assert [row for request in packed for row in request] == list(range(len(counts)))
    for request in packed:
        assert request
        assert len(request) <= max_inputs
        assert sum(counts[row] for row in request) <= max_request_tokens


@given(counts=st.lists(st.integers(0, 50), min_size=1), max_inputs=st.integers(1, 9))
def test_no_request_could_have_taken_the_next_input(counts: list[int], max_inputs: int) -> None:
    limits = Limits(max_inputs, 50, 100)
    packed = pack(counts, limits)
    for request in packed[:-1]:
        tokens = sum(counts[row] for row in request) + counts[request.stop]
        assert len(request) == max_inputs or tokens > limits.max_request_tokens
