"""Sentences: they tile what was asked for, end where the language says, and are found a window at a time."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import sentencex

from chunkers import Document, chunk
from chunkers import sentences as sentence_rules
from chunkers.sentences import LONGEST_WINDOW, MARGIN, WINDOW


def sentences(text: str, language: str = "en") -> list[str]:
    document = Document(text=text, language=language)
    return [text[start:end] for start, end in document.analysis.sentences(0, len(text))]


def test_the_stop_and_the_space_after_it_stay_with_their_sentence() -> None:
    assert sentences("One. Two?  Three!") == ["One. ", "Two?  ", "Three!"]


def test_abbreviations_end_no_sentence() -> None:
    text = "Dr. Smith of Acme Inc. met the U.S. team at 9 a.m. on Jan. 5. They agreed."
    assert sentences(text) == ["Dr. Smith of Acme Inc. met the U.S. team at 9 a.m. on Jan. 5. ", "They agreed."]


def test_addresses_and_versions_are_not_parted() -> None:
    text = "Mail a@b.co, see https://x.y/z?q=1.2, take v1.2.3 now. Then go."
    assert sentences(text) == ["Mail a@b.co, see https://x.y/z?q=1.2, take v1.2.3 now. ", "Then go."]


@pytest.mark.parametrize(
    ("language", "text", "expected"),
    [
        ("zh", "今天天气很好。我们去公园吧！好吗？", ["今天天气很好。", "我们去公园吧！", "好吗？"]),
        ("ja", "これは文です。次の文？はい！", ["これは文です。", "次の文？", "はい！"]),
        ("hi", "नमस्ते दुनिया। यह हिन्दी है।", ["नमस्ते दुनिया। ", "यह हिन्दी है।"]),
        ("ar", "مرحبا بالعالم؟ نعم.", ["مرحبا بالعالم؟ ", "نعم."]),
    ],
)
def test_other_scripts_end_sentences_with_their_own_stops(language: str, text: str, expected: list[str]) -> None:
    assert sentences(text, language) == expected


def test_an_unknown_language_is_read_like_english() -> None:
    assert sentences("One. Two.", "xx") == ["One. ", "Two."]


def test_a_blank_line_ends_a_sentence_and_belongs_to_it() -> None:
    assert sentences("no stop here\n\n\nnext line") == ["no stop here\n\n\n", "next line"]


def test_a_newline_ends_no_sentence() -> None:
    assert sentences("a line\ngoes on. Then") == ["a line\ngoes on. ", "Then"]


def test_white_space_at_the_start_belongs_to_the_first_sentence() -> None:
    assert sentences("\n\n  One. Two.") == ["\n\n  One. ", "Two."]


def test_a_text_without_a_stop_is_one_sentence() -> None:
    text = "word " * 5000
    assert sentences(text) == [text]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The lengths of the texts that sentencex is shown."""
    lengths: list[int] = []
    real = sentencex.get_sentence_boundaries

    def counted(language: str, text: str) -> list[dict[str, Any]]:
        lengths.append(len(text))
        return real(language, text)

    monkeypatch.setattr(sentence_rules.sentencex, "get_sentence_boundaries", counted)
    return lengths


@pytest.mark.parametrize("unit", ["`word` ", "('alpha','beta'), ", "word ", "`", "word"])
def test_sentencex_is_shown_a_bounded_window(unit: str, shown: list[int]) -> None:
    text = unit * (150_000 // len(unit))
    assert "".join(sentences(text)) == text
    assert max(shown) <= LONGEST_WINDOW
    assert sum(shown) < 4 * len(text)


def test_an_empty_slice_has_no_sentence() -> None:
    assert Document(text="abc").analysis.sentences(2, 2) == []


def test_a_slice_has_offsets_of_the_whole_text() -> None:
    document = Document(text="Zero. One. Two. Three.")
    assert document.analysis.sentences(6, 15) == [(6, 11), (11, 15)]


def test_no_cut_falls_inside_a_cluster() -> None:
    assert sentences("One. \u0301Two. Three.") == ["One. \u0301Two. ", "Three."]


@pytest.mark.parametrize("separator", [" ", "\n", "\n\n"])
def test_sentences_beyond_one_window_are_all_found(separator: str) -> None:
    parts = [f"This is sentence number {n} of a long text.{separator}" for n in range(1000)]
    assert sentences("".join(parts)) == parts


def test_a_sentence_longer_than_the_window_is_whole() -> None:
    long = "word " * WINDOW + "end. "
    assert sentences("First. " + long + "Last.") == ["First. ", long, "Last."]


def test_a_quotation_across_the_end_of_the_window_is_not_parted() -> None:
    before = ["A sentence. "] * ((WINDOW - MARGIN // 2) // len("A sentence. "))
    quotation = 'He said "one thing. Another thing. ' + "More and more of it. " * 10 + 'All of it" and left. '
    found = sentences("".join(before) + quotation + "After it. " * 100)
    assert quotation in found


@pytest.mark.parametrize("text", ["今天天气很好。我们去公园吧！", "A short one. ", '"Quoted one." ', "no stop "])
def test_spans_tile_a_long_text(text: str) -> None:
    document = Document(text=text * 2000)
    spans = document.analysis.sentences(0, len(document.text))
    assert spans[0][0] == 0
    assert spans[-1][1] == len(document.text)
    assert all(left[1] == right[0] < right[1] for left, right in pairwise(spans))


def test_what_sentencex_is_shown_grows_with_the_length_of_a_paragraph(shown: list[int]) -> None:
    text = "今天天气很好。我们去公园吧！" * 10_000
    sentences(text, "zh")
    assert max(shown) == WINDOW
    assert sum(shown) < 2 * len(text)


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("zh", ["他来了；", "她走了；", "我们留下。"]),
        ("zh", ["等等……", "他走了。"]),
        ("zh", ["（一；二）三；", "四。"]),
        ("ja", ["もう一つ…", "最後です。"]),
        ("ja", ["３．５です。", "はい。"]),
        ("km", ["ខ្ញុំទៅ។ ", "អ្នកមក។"]),
    ],
)
def test_stops_that_sentencex_does_not_know_end_sentences(language: str, expected: list[str]) -> None:
    assert sentences("".join(expected), language) == expected


def test_a_closing_quote_stays_with_its_sentence() -> None:
    assert sentences("『本。』を読む？はい。", "ja") == ["『本。』", "を読む？", "はい。"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Then run ./a.out now. It works.", ["Then run ./a.out now. ", "It works."]),
        ("Use foo.bar.Baz and x.Y. It works.", ["Use foo.bar.Baz and x.Y. ", "It works."]),
        ("Node.js and .NET are here. It works.", ["Node.js and .NET are here. ", "It works."]),
        ("One.[1] Two.(2) Three. It works.", ["One.[1] ", "Two.(2) Three. ", "It works."]),
    ],
)
def test_an_ascii_stop_ends_a_sentence_only_before_white_space(text: str, expected: list[str]) -> None:
    assert sentences(text) == expected


@pytest.mark.parametrize(
    ("language", "first"),
    [
        ("en", "Ms. Fox left."),
        ("en", "Then Ms. Fox left."),
        ("en", "See Vol. 2 now."),
        ("en", "At max. 3 of them."),
        ("en", "About approx. 5 km."),
        ("en", "It is vs. No. 7."),
        ("fr", "M. Dupont est là."),
        ("fr", "Le Dr. Roy est là."),
        ("fr", "Mme. Roy est là."),
        ("de", "Siehe Abb. 3 und Kap. Vier."),
        ("pt", "Veja p. 5 agora."),
        ("ru", "Т. е. он дома."),
    ],
)
def test_more_abbreviations_end_no_sentence(language: str, first: str) -> None:
    assert sentences(f"{first} Next one.", language) == [f"{first} ", "Next one."]


def test_an_abbreviation_before_a_capital_may_end_a_sentence() -> None:
    assert sentences("The order is max. Then they left.") == ["The order is max. ", "Then they left."]


@pytest.mark.parametrize(
    "expected",
    [
        ["Intro. ", "![Logo](a.png) of it."],
        ["**Note.** ", "Read this. ", "It matters.[^1] ", "Go on. ", "_All of it._"],
        ["It is <b>bold.</b> ", "Next one."],
        ["She said “Stop.” ", "He stopped."],
        ["Then `a.b` is. ", "So."],
    ],
)
def test_marks_behind_a_stop_belong_to_the_sentence_before(expected: list[str]) -> None:
    assert sentences("".join(expected)) == expected


@pytest.mark.parametrize(
    ("language", "known"),
    [("de-DE", "de"), ("DE", "de"), ("-", "en"), (" ", "en"), ("pt_BR", "pt"), ("", "en"), (None, "en")],
)
def test_a_language_is_known_without_its_region(language: str | None, known: str) -> None:
    assert Document(text="x", language=language).language == known  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("language", "expected"),
    [
        ("zh", ["你好吗?", "我很好!", "谢谢你.", "今天天气不错?", "是的!"]),
        ("th", ["ใช่!", "ดี"]),
        ("ar", ["نعم.", "لا!", "حسنا"]),
        ("en", ["Needs 3.8+.<br>\n", "Note that."]),
    ],
)
def test_an_ascii_stop_in_a_script_without_spaces_ends_a_sentence(language: str, expected: list[str]) -> None:
    assert sentences("".join(expected), language) == expected


@pytest.mark.parametrize("text", ["*Bold end.*\n\nNext one.", "**注意！**\n\n下一段。", "Fin.</b>\n\nNext."])
def test_no_sentence_is_empty(text: str) -> None:
    assert all(sentence.strip() for sentence in sentences(text))
    assert "".join(sentences(text)) == text


def test_the_indentation_of_a_paragraph_stays_with_its_first_sentence() -> None:
    text = "Install with:\n\n   $ pip install x\n   $ x --help\n\nThen run it.\n"
    found = chunk(text, "sentence", chunk_size=12, sentence_overlap=0)
    assert [c.text for c in found] == ["Install with:", "   $ pip install x\n   $ x --help", "Then run it."]
