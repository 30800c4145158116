"""The built-in context: title, headings and telling terms, in at most 300 characters."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chunkers.models.base import Context, ContextRequest, ContextWriter
from chunkers.models.outline import LONGEST_OUTLINE, OutlineWriter, outline
from chunkers.models.terms import telling_terms

Build = Callable[..., ContextRequest]


def test_title_headings_and_terms_are_named(section: Build) -> None:
    request = section(
        "Employers get notice eight weeks ahead. Employers reply.",
        headings=("Leave policy", "Parental leave", "Notice"),
    )
    assert outline(request) == (
        'From "Leave policy", section Parental leave > Notice. Terms: Employers, eight, weeks, ahead, reply.'
    )


@pytest.mark.parametrize(
    ("title", "headings", "place"),
    [
        ("Leave policy", (), 'From "Leave policy". '),
        ("Leave policy", ("Leave policy",), 'From "Leave policy". '),
        ("Leave policy", (" LEAVE  policy ", "Notice"), 'From "Leave policy", section Notice. '),
        ("Leave policy", ("Notice", "Leave policy"), 'From "Leave policy", section Notice > Leave policy. '),
        ("", ("Notice",), "Section Notice. "),
        ("", ("", " ", "Notice"), "Section Notice. "),
        ("", (), ""),
        ("two\nlines\x00", (), 'From "two lines". '),
    ],
)
def test_the_place_is_told_from_what_is_known(
    section: Build, title: str, headings: tuple[str, ...], place: str
) -> None:
    assert outline(section("Employers", title=title, headings=headings)) == f"{place}Terms: Employers."


def test_of_a_path_that_is_too_long_the_inner_headings_stay(section: Build) -> None:
    request = section("1 2 3", title="", headings=("outer " * 20, "middle " * 10, "inner"))
    assert outline(request) == f"Section {('middle ' * 10).strip()} > inner."


def test_a_section_without_anything_to_say_has_no_context(section: Build) -> None:
    assert OutlineWriter().write([section("1 2 3", title="", headings=())]) == [Context("", "outline")]


def test_it_plays_the_role(section: Build) -> None:
    writer = OutlineWriter()
    assert isinstance(writer, ContextWriter)
    assert [context.source for context in writer.write([section(), section()])] == ["outline", "outline"]


@given(
    text=st.text(max_size=300),
    title=st.text(max_size=400),
    headings=st.lists(st.text(max_size=200), max_size=5).map(tuple),
)
def test_it_is_one_bounded_line(text: str, title: str, headings: tuple[str, ...]) -> None:
    written = outline(ContextRequest(text, "", "", title, headings))
    assert len(written) <= LONGEST_OUTLINE
    assert written == " ".join(written.split())


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("Tax tax tax and the taxes of the state", ["state", "taxes"]),
        ("The Employer pays. An employer pays the employer.", ["employer", "pays"]),
        ("SLA and SLA, but NOT the VAT", ["SLA", "VAT"]),
        ("Die Elternzeit wird nicht geteilt. Die Elternzeit endet.", ["Elternzeit", "geteilt", "endet"]),
        ("see https://example.com/very/long/address or a@example.com for details", ["details"]),
        ("well-known client's data", ["well-known", "client's", "data"]),
        ("12345 67,890 !!! ----", []),
        ("x" * 41, []),
        ("员工的年假制度。员工的年假不得跨年。", ["员工", "年假"]),
        ("人力资源部审核，人力资源部负责。", ["人力资源部"]),
        ("只说一次的中文句子。", []),
        ("クラウドサービスは安全です。", ["クラウドサービス"]),
        ("ประเทศไทยมีประชากรมาก", []),
        ("휴가 정책은 직원에게 적용됩니다", ["적용됩니다", "직원에게"]),
        ("स्वास्थ्य के लिए फल", ["स्वास्थ्य"]),
        ("Политика отпусков, которая важна", ["отпусков", "Политика", "важна"]),
    ],
)
def test_terms_are_words_that_tell_something(text: str, terms: list[str]) -> None:
    assert sorted(telling_terms(text, "")) == sorted(terms)


def test_a_term_that_is_everywhere_tells_less() -> None:
    assert telling_terms("leave leave leave notice", "") == ["leave", "notice"]
    assert telling_terms("leave leave leave notice", "Leave is leave. " * 5) == ["notice", "leave"]


def test_words_of_title_and_headings_are_not_repeated() -> None:
    assert telling_terms("notice periods", "", ("Notice",)) == ["periods"]


def test_there_are_at_most_five_terms() -> None:
    assert len(telling_terms("alpha bravo charlie delta echoes foxtrot", "")) == 5


def test_equally_telling_terms_keep_the_order_of_the_text() -> None:
    assert telling_terms("zebra apple mango", "") == ["zebra", "apple", "mango"]
