"""Blocks, headings and structure of markdown, as spans of the text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chunkers import Document, markdown
from chunkers.markdown import LONGEST_TITLE, Block, Kind, blocks, plain_title
from tests.chunkers.texts import DOCUMENT


def outline(text: str) -> list[tuple[str, str]]:
    return [(block.kind.value, text[block.start : block.end]) for block in blocks(text)]


def titles(text: str) -> list[tuple[int, str]]:
    return [(block.level, block.title) for block in blocks(text) if block.kind is Kind.HEADING]


def kinds(text: str) -> list[str]:
    return [block.kind.value for block in blocks(text)]


def test_every_kind_of_block_is_found_in_order() -> None:
    expected = "paragraph heading paragraph heading list fence table heading paragraph heading quote paragraph"
    assert kinds(DOCUMENT) == expected.split()


def test_blocks_are_slices_of_whole_lines() -> None:
    assert outline("# One\n\ntext\nmore\n\n- item\n") == [
        ("heading", "# One\n"),
        ("paragraph", "text\nmore\n"),
        ("list", "- item\n"),
    ]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_lines_end_at_any_of_the_three_line_ends(newline: str) -> None:
    text = newline.join(["# One", "", "text", "", "Two", "===", "end"])
    assert outline(text) == [
        ("heading", f"# One{newline}"),
        ("paragraph", f"text{newline}"),
        ("heading", f"Two{newline}==={newline}"),
        ("paragraph", "end"),
    ]


@pytest.mark.parametrize("character", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c"])
def test_other_separators_end_no_line(character: str) -> None:
    assert outline(f"text{character}# no heading\n\n# Yes\n") == [
        ("paragraph", f"text{character}# no heading\n"),
        ("heading", "# Yes\n"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "```\n# x\n```\n",
        "~~~\n# x\n~~~\n",
        "````\n```\n# x\n```\n````\n",
        "    # x\n",
        "<pre>\n# x\n</pre>\n",
        "<!--\n\n# x\n\n-->\n",
        "#no space\n",
        "####### seven\n",
        "\\# x\n",
        "> # in a quote\n",
        "- # in an item\n",
    ],
)
def test_what_looks_like_a_heading_is_none(text: str) -> None:
    assert titles(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# One", (1, "One")),
        ("###### Six ######\n", (6, "Six")),
        ("Setext\n===\n", (1, "Setext")),
        ("Two\nlines\n---\n", (2, "Two lines")),
        ("   # Indented\n", (1, "Indented")),
        ("#\ttab\n", (1, "tab")),
        ("#\n", (1, "")),
        ("## 24/7 support\n", (2, "24/7 support")),
        ("# A\x00b\n", (1, "A\ufffdb")),
        ("\ufeff# After a byte-order mark\n", (1, "After a byte-order mark")),
    ],
)
def test_headings_have_level_and_title(text: str, expected: tuple[int, str]) -> None:
    assert titles(text) == [expected]


@pytest.mark.parametrize(
    ("content", "title"),
    [
        ("**Bold** and `code`", "Bold and code"),
        ("[link](https://x.y) ![image](z.png)", "link image"),
        ("a \\* b &amp; c", "a * b & c"),
        ("snake_case_name", "snake_case_name"),
        ("  folded \t white  space ", "folded white space"),
        ("<b>tag</b> text", "tag text"),
    ],
)
def test_a_title_is_plain_text(content: str, title: str) -> None:
    assert plain_title(content) == title


def test_a_title_is_cut_off_where_it_is_too_long() -> None:
    title = plain_title("word " * 100_000)
    assert title == ("word " * 60)[: LONGEST_TITLE - 1].rstrip() + "…"
    assert plain_title("x" * LONGEST_TITLE) == "x" * LONGEST_TITLE


def test_an_unclosed_fence_runs_to_the_end() -> None:
    assert outline("# H\n\n```\ncode\n\n# code too\n") == [("heading", "# H\n"), ("fence", "```\ncode\n\n# code too\n")]


def test_link_definitions_are_a_block_of_their_own() -> None:
    assert outline("text\n\n[a]: http://x\n[b]: http://y\n\nmore") == [
        ("paragraph", "text\n"),
        ("other", "\n[a]: http://x\n[b]: http://y\n\n"),
        ("paragraph", "more"),
    ]


def test_link_definitions_alone_are_a_block() -> None:
    assert outline("[a]: http://x\n") == [("other", "[a]: http://x\n")]


@pytest.mark.parametrize("text", ["", " ", "\n\n", " \n\t\r\n"])
def test_a_blank_text_has_no_blocks(text: str) -> None:
    assert blocks(text) == []


def test_front_matter_is_a_block_and_no_heading() -> None:
    assert outline("---\ntitle: x\n---\n# H\n") == [("other", "---\ntitle: x\n---\n"), ("heading", "# H\n")]


def test_front_matter_behind_a_byte_order_mark_is_a_block_and_no_heading() -> None:
    text = "\ufeff---\ntitle: x\n---\ntext\n"
    assert outline(text) == [("other", "\ufeff---\ntitle: x\n---\n"), ("paragraph", "text\n")]


@pytest.mark.parametrize("text", ["---\n\ntitle: x\n\n---\n", "---\n"])
def test_a_thematic_break_is_no_front_matter(text: str) -> None:
    assert outline(text)[0] == ("other", "---\n")


@pytest.mark.parametrize("text", [DOCUMENT, "- a\n\n- b\n  > c\n\n\nz", "[a]: x\n# H\n[b]: y", "\n\n  x\n"])
def test_blocks_are_in_order_and_leave_out_blank_lines_only(text: str) -> None:
    reached = 0
    for block in blocks(text):
        assert block.start >= reached
        assert not text[reached : block.start].strip()
        reached = block.end
    assert not text[reached:].strip()


def nested(block: Block, text: str) -> object:
    if not block.children:
        return text[block.start : block.end].strip()
    return block.kind.value, [nested(child, text) for child in block.children]


def test_lists_and_quotes_hold_their_blocks() -> None:
    text = "- one\n- two\n  - deep\n\n> quote\n"
    assert [nested(block, text) for block in blocks(text)] == [
        ("list", [("item", ["- one"]), ("item", ["- two", ("list", [("item", ["- deep"])])])]),
        ("quote", ["> quote"]),
    ]


def test_a_table_holds_its_rows_without_the_delimiter_row() -> None:
    text = "| a | b |\n|---|---|\n| 1 | 2 |\n| *3* | `4` |\n"
    (table,) = blocks(text)
    assert table.kind is Kind.TABLE
    assert [text[row.start : row.end] for row in table.children] == ["| a | b |\n", "| 1 | 2 |\n", "| *3* | `4` |\n"]


def test_a_heading_right_after_a_table_is_found() -> None:
    assert kinds("| a |\n|---|\n| 1 |\n# H\ntext\n") == ["table", "heading", "paragraph"]


def test_a_fence_inside_an_item_is_found() -> None:
    text = "- item\n\n  ```\n  # x\n  ```\n"
    (found,) = blocks(text)
    assert [child.kind for child in found.children[0].children] == [Kind.PARAGRAPH, Kind.FENCE]


def test_nesting_beyond_the_parsers_depth_loses_nothing() -> None:
    text = "".join("> " * depth + f"level {depth}\n\n" for depth in range(60))
    found = blocks(text)
    assert found[0].start == 0
    assert "level 59" in text[found[-1].start : found[-1].end]


def test_plain_text_has_paragraphs_only() -> None:
    text = "# no heading\nline\n \t\n\n- no item\r\n\r\nend"
    found = blocks(text, "text/plain")
    assert [(block.kind, text[block.start : block.end]) for block in found] == [
        (Kind.PARAGRAPH, "# no heading\nline\n \t\n\n"),
        (Kind.PARAGRAPH, "- no item\r\n\r\n"),
        (Kind.PARAGRAPH, "end"),
    ]


def path_at(text: str, word: str) -> tuple[str, ...]:
    return Document(text=text).analysis.headings_at(text.index(word))


@pytest.mark.parametrize(
    ("word", "path"),
    [
        ("Preamble", ()),
        ("# Title", ("Title",)),
        ("Introduction", ("Title",)),
        ("nested item", ("Title", "24/7 support")),
        ("no heading", ("Title", "24/7 support")),
        ("Text under deep", ("Title", "24/7 support", "Deep")),
        ("quoted", ("Title", "Second")),
    ],
)
def test_a_place_stands_under_its_path_of_headings(word: str, path: tuple[str, ...]) -> None:
    assert path_at(DOCUMENT, word) == path


def test_a_heading_closes_all_that_are_deeper_or_its_equal() -> None:
    text = "# A\n#### B\n### C\n## D\nhere\n"
    assert path_at(text, "here") == ("A", "D")


def test_a_path_may_start_at_any_level_and_leaves_out_empty_titles() -> None:
    assert path_at("### Deep first\n#\n## Sub\nhere", "here") == ("Sub",)


def structure_of(text: str) -> tuple[list[int], list[int]]:
    """The positions at which a cut would break a bond; the joints."""
    found = Document(text=text).analysis.structure
    return [cut for cut in range(len(text) + 1) if found.holds(cut)], found.joints


def test_a_heading_is_bound_to_the_start_of_what_follows() -> None:
    assert structure_of("# A\n\ntext\n") == ([1, 2, 3, 4, 5], [5])


def test_a_fences_opener_and_closer_are_bound_to_the_line_beside_them() -> None:
    text = "```\na\nb\nc\n```\n"
    assert structure_of(text) == ([1, 2, 3, 4, 10], [4, 10])


def test_a_tables_header_is_bound_to_its_first_row() -> None:
    text = "|a|\n|-|\n|1|\n|2|\n"
    assert structure_of(text) == (list(range(1, 12)), [4, 8])


def test_a_heading_inside_a_quote_is_bound_to_what_follows() -> None:
    text = "> # A\n> text\n"
    assert structure_of(text) == ([1, 2, 3, 4, 5, 6], [6])


def test_the_last_heading_is_bound_to_nothing() -> None:
    assert structure_of("text\n\n# A\n") == ([], [])


# What lines may begin with, marks and what only looks like them.
STARTS = re.split(
    "¦",
    "word¦two words.¦¦ ¦   ¦\t¦#¦# T¦=¦===¦- ¦-¦* y¦*b¦**b**¦***¦__¦_ _ _¦1.¦12) x¦1.5¦a|b¦|¦|-|¦-|-¦:-¦:¦<div>¦<unk> x¦<x y>¦</p>¦<!--¦<¦"
    "[¦[a]: /u¦[foo¦]: /u¦[x] y¦[a\\]b]: /u¦~~~¦~~¦```¦``¦+¦+ z¦>¦\u00a0¦\x0b¦\x1c¦\u2028¦\0¦é¦字¦    code¦...",
)
LINES = st.tuples(
    st.sampled_from(["", "", " ", "   "]),
    st.sampled_from(STARTS),
    st.sampled_from(["\n", "\n", "\n\n", "\r\n", "\r", ""]),
)
TEXTS = st.lists(LINES.map("".join), max_size=8).map("".join)


@settings(max_examples=1500, deadline=None)
@given(TEXTS)
def test_a_text_without_marks_has_the_blocks_that_the_parser_gives(text: str) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(markdown, "has_marks", lambda _: True)
        parsed = blocks(text)
    assert blocks(text) == parsed
    if not markdown.may_have_headings(text):
        assert not any(block.kind is Kind.HEADING for block in parsed)


@pytest.mark.parametrize(
    "text",
    [
        "Prose.\n\nMore of it.",
        " = Title = \n",
        "<unk> is a word",
        "[{'content': 'x'}]",
        "**Bold** words",
        "5 - 3 is 2",
        "1.5 and\r\n2.5",
    ],
)
def test_prose_is_read_without_the_parser(text: str) -> None:
    assert not markdown.has_marks(text)
    assert {block.kind for block in blocks(text)} == {Kind.PARAGRAPH}


@pytest.mark.parametrize(
    "deep",
    ["* * * * * * * * * * NOTICE * * * *", "1. 2. 3. 4. 5. 6. 7. 8. 9. 10. 11. x", "> " * 40 + "x", "- " * 40 + "x"],
)
def test_what_follows_a_deep_list_is_read(deep: str) -> None:
    found = blocks(f"{deep}\n\n# License\n\nThe terms.\n\n```\ncode\n```\n")
    assert [block.kind for block in found[-3:]] == [Kind.HEADING, Kind.PARAGRAPH, Kind.FENCE]


@pytest.mark.parametrize(
    ("title", "plain"),
    [
        ("[1.2.0] - 2024-01-01", "1.2.0 - 2024-01-01"),
        ("[Site][1.2.0] now", "Site now"),
        ("[unknown] stays", "[unknown] stays"),
        ("~~Old~~ New", "Old New"),
        ("QR [![Build][1.2.0]][1.2.0]", "QR Build"),
    ],
)
def test_titles_are_without_reference_links_and_struck_marks(title: str, plain: str) -> None:
    (heading, *_) = blocks(f"## {title}\n\nFixed.\n\n[1.2.0]: https://x.y/z\n")
    assert heading.title == plain


def test_text_between_two_thematic_breaks_at_the_start_is_no_front_matter() -> None:
    text = "---\n# Guide\n\nSome text.\n\n## Setup\n\nDo it.\n\n---\n\n## More\n\ntext"
    assert [title for _, title in titles(text)] == ["Guide", "Setup", "More"]
