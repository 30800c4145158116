from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkers import chunk
from stores.payloads import chunk_payload, clean, same_but_for_stamp
from tests.stores.conftest import document


@pytest.mark.parametrize(
    ("value", "cleaned"),
    [
        (float("nan"), "nan"),
        (float("inf"), "inf"),
        (2**70, str(2**70)),
        ("a\ud800b", "a\ufffdb"),
        (np.float32(0.5), 0.5),
        (np.int64(3), 3),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3, 4), "2026-01-02T03:04:00"),
        ({1: {"a": None}}, {"1": {"a": None}}),
        ((1, True), [1, True]),
        (b"x", "b'x'"),
    ],
)
def test_a_value_that_a_server_would_refuse_is_cleaned(value: object, cleaned: object) -> None:
    assert clean(value) == cleaned


anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(st.characters()), st.dates()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(st.text(), st.integers()), inner, max_size=3)
    ),
    max_leaves=20,
)


@given(anything)
def test_whatever_stands_in_front_matter_becomes_strict_json(value: object) -> None:
    json.dumps(clean(value), allow_nan=False).encode("utf-8")


def test_deep_nesting_ends_as_text() -> None:
    value: Any = "end"
    for _ in range(50):
        value = [value]
    cleaned = clean(value)
    depth = 0
    while isinstance(cleaned, list):
        (cleaned,) = cleaned
        depth += 1
    assert depth == 8
    assert "end" in cleaned


def test_front_matter_never_overwrites_what_we_say_ourselves() -> None:
    made = document("a.md", "Some text.", source="elsewhere", start_char=99, author="Ada")
    (piece,) = chunk(made, "recursive")
    metadata = chunk_payload(made, piece, "recursive", "now")["metadata"]
    assert (metadata["source"], metadata["start_char"], metadata["author"]) == ("a.md", 0, "Ada")


def test_payloads_that_differ_in_the_stamp_alone_are_the_same() -> None:
    made = document("a.md", "Some text.")
    (piece,) = chunk(made, "recursive")
    now, later = (chunk_payload(made, piece, "recursive", stamp) for stamp in ("now", "later"))
    assert same_but_for_stamp(now, later)
    assert not same_but_for_stamp(now, {**now, "text": "Other."})
