from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkers.front_matter import front_matter_end
from flows.front_matter import LONGEST, split_front_matter

LINES = st.lists(
    st.sampled_from(["---", "--- ", "...", "a: 1", "- x", "", " ", "text", "--- x", "\u2028", "&a [*a]", "é: ["])
)


@pytest.mark.parametrize(
    ("text", "block"),
    [
        ("---\na: 1\n---\nText", "---\na: 1\n---\n"),
        ("---\r\na: 1\r\n---\r\nText", "---\r\na: 1\r\n---\r\n"),
        ("---\ra: 1\r---\rText", "---\ra: 1\r---\r"),
        ("--- \t\na: 1\n...  \nText", "--- \t\na: 1\n...  \n"),
        ("---\na: 1\n---", "---\na: 1\n---"),
        ("---\n---\nText", "---\n---\n"),
        ("---\na: 1\n----\n---\n", "---\na: 1\n----\n---\n"),
        ("---\na: 1\n --- \n", ""),
        ("---\na: 1\n", ""),
        ("---\n", ""),
        ("---", ""),
        ("", ""),
        ("\n---\na: 1\n---\n", ""),
        (" ---\na: 1\n---\n", ""),
        ("----\na: 1\n----\n", ""),
        ("---\n\nA rule above.\n\n---\n", ""),
        ("---\r\n\r\nA rule above.\r\n\r\n---\r\n", ""),
        ("---\n  \nA rule above.\n\n---\n", ""),
    ],
)
def test_a_block_opens_and_closes_by_its_lines(text: str, block: str) -> None:
    assert text[: front_matter_end(text)] == block


@given(LINES, st.sampled_from(["\n", "\r\n", "\r"]))
def test_a_block_always_ends_behind_a_closing_line(lines: list[str], newline: str) -> None:
    text = newline.join(lines)
    end = front_matter_end(text)
    if end:
        assert text[:end].splitlines()[0].rstrip() == "---"
        assert text[:end].splitlines()[-1].rstrip() in ("---", "...")
        assert end == len(text) or text[:end].endswith(newline)


@given(LINES, st.sampled_from(["\n", "\r\n", "\r"]))
def test_front_matter_never_takes_text_that_it_does_not_report(lines: list[str], newline: str) -> None:
    text = newline.join(lines)
    found, offset, error = split_front_matter(text)
    if error or not front_matter_end(text):
        assert (found, offset) == ({}, 0)
    else:
        assert offset == front_matter_end(text)
        assert found or not text[:offset].strip("-. \t\r\n\u2028")


def test_values_stay_what_yaml_makes_of_them() -> None:
    text = "---\ntitle: Größe\ndate: 2024-05-06\ntags: [a, b]\ndraft: false\n1: one\n---\n"
    assert split_front_matter(text)[0] == {
        "title": "Größe",
        "date": datetime.date(2024, 5, 6),
        "tags": ["a", "b"],
        "draft": False,
        "1": "one",
    }


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        ('"just a string"', "mapping"),
        ("{a, [}", "YAML"),
        ("a: [", "YAML"),
        ("a: b: c", "YAML"),
        ("a: 2024-13-45", "YAML"),
        ("a: !!python/object/apply:os.system [true]", "YAML"),
        ("a: !!bool maybe", "YAML"),
        ("a: " + "1" * 5000, "YAML"),
        ("a: !" + "x" * 5000 + " b", "YAML"),
        ("a: &x [1]\nb: *x", "aliases"),
        ("a: " + "[" * 5000, "deeply"),
        ("a: " + "x" * LONGEST, "longer"),
    ],
)
def test_what_is_no_mapping_stays_in_the_text_with_a_reason(inner: str, reason: str) -> None:
    found, offset, error = split_front_matter(f"---\n{inner}\n---\nText")
    assert (found, offset) == ({}, 0)
    assert error is not None
    assert reason in error
    assert "\n" not in error
    assert len(error) < 400


def test_an_empty_block_is_taken_off() -> None:
    assert split_front_matter("---\n---\nText") == ({}, 8, None)


@pytest.mark.parametrize(
    "inner", ["just a sentence", "- a\n- b", "# A heading between two rules", "# Guide\n\nSome text."]
)
def test_text_between_two_thematic_breaks_is_text(inner: str) -> None:
    assert split_front_matter(f"---\n{inner}\n---\nText") == ({}, 0, None)


@pytest.mark.parametrize(
    ("inner", "expected"),
    [
        ("dc:title: Foo", {"dc:title": "Foo"}),
        ("  title: Foo", {"title": "Foo"}),
        ("# note\n\na: 1", {"a": 1}),
        ("a b: 1", {"a b": 1}),
    ],
)
def test_a_key_may_have_a_colon_or_stand_indented(inner: str, expected: dict[str, object]) -> None:
    found, _, error = split_front_matter(f"---\n{inner}\n---\nText")
    assert (found, error) == (expected, None)
