"""The cascade and the strategy `recursive`: which boundary is taken, what is merged, what is never parted while it fits."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from chunkers import STRATEGIES, Document, chunk
from chunkers.cascade import split
from chunkers.encoding import count_tokens
from chunkers.spans import Limit
from tests.chunkers.cases import chunks_of
from tests.chunkers.texts import DOCUMENT
from tests.doubles import HashEmbedder

STRUCTURED = [name for name in STRATEGIES if name not in ("fixed_size", "contextual_retrieval")]


def recursive(text: str, characters: int, tokens: int = 10_000) -> list[str]:
    return [c.text for c in chunk(text, "recursive", recursive_chunk_chars=characters, chunk_size=tokens)]


def texts_of(text: str, strategy: str, size: int, **more: Any) -> list[str]:
    if strategy == "sentence":
        more["sentence_overlap"] = 0
    if strategy in ("semantic", "semantic_parent_child"):
        more["embedder"] = HashEmbedder()
    return [c.text for c in chunk(text, strategy, chunk_size=size, **more)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# One\n\naaa bbb\n\n# Two\n\nccc ddd", ["# One\n\naaa bbb", "# Two\n\nccc ddd"]),
        ("## One\n\naaa bbb\n\n# Two\n\nccc ddd", ["## One\n\naaa bbb", "# Two\n\nccc ddd"]),
        ("aaa bbb ccc\n\nddd eee fff", ["aaa bbb ccc", "ddd eee fff"]),
        ("- aaa bbb ccc\n- ddd eee fff", ["- aaa bbb ccc", "- ddd eee fff"]),
        ("aaa bbb ccc\nddd eee fff", ["aaa bbb ccc", "ddd eee fff"]),
        ("Aaa bbb ccc. Ddd eee fff.", ["Aaa bbb ccc.", "Ddd eee fff."]),
        ("aaa bbb ccc ddd eee", ["aaa bbb ccc", "ddd eee"]),
        ("abcdefghijklmnopqrstuvwxyz", ["abcdefghijklmnopqr", "stuvwxyz"]),
    ],
)
def test_the_strongest_boundary_inside_is_taken(text: str, expected: list[str]) -> None:
    assert recursive(text, 18) == expected


def test_a_code_fences_blank_lines_come_before_its_lines() -> None:
    text = "```\naaaa = 1\nbbbb = 2\n\ncccc = 3\ndddd = 4\n```"
    assert recursive(text, 30) == ["```\naaaa = 1\nbbbb = 2", "cccc = 3\ndddd = 4\n```"]


def test_neighbours_that_fit_together_are_merged() -> None:
    assert recursive("aa\n\nbb\n\ncc\n\ndd", 6) == ["aa\n\nbb", "cc\n\ndd"]


def test_both_limits_hold() -> None:
    text = "word " * 100
    assert max(len(part) for part in recursive(text, 30)) == 29
    assert max(count_tokens(part) for part in recursive(text, 10_000, 7)) == 7


def test_the_last_piece_of_a_large_part_goes_with_what_follows() -> None:
    text = "aaaa bbbb cccc dddd eeee\n\nff\n\ngg"
    assert recursive(text, 20) == ["aaaa bbbb cccc", "dddd eeee\n\nff\n\ngg"]


def test_a_crumb_goes_with_the_first_piece_of_a_large_part() -> None:
    assert recursive("Intro:\n\n" + "- item words\n" * 8, 40) == [
        "Intro:\n\n- item words\n- item words",
        "- item words\n- item words\n- item words",
        "- item words\n- item words\n- item words",
    ]


def test_a_crumb_at_the_end_gets_parts_of_the_span_before_it() -> None:
    paragraphs = ["aaaa bbbb cccc"] * 5 + ["zz"]
    assert recursive("\n\n".join(paragraphs), 46) == [
        "\n\n".join(paragraphs[:3]),
        "\n\n".join(paragraphs[3:]),
    ]
    assert recursive("\n\n".join(paragraphs[2:]), 46) == ["\n\n".join(paragraphs[2:4]), "\n\n".join(paragraphs[4:])]


def test_white_space_at_the_end_is_no_chunk() -> None:
    assert recursive("para" + " " * 200, 4) == ["para"]


def test_a_paragraph_exactly_at_the_limit_is_one_chunk() -> None:
    assert recursive("abcd\n\nefgh\n\n", 4) == ["abcd", "efgh"]


def test_indentation_of_a_first_line_is_kept() -> None:
    text = "para para para\n\n    code one\n    code two\n"
    assert recursive(text, 30) == ["para para para", "    code one\n    code two"]


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("size", range(8, 60, 3))
def test_a_heading_stays_with_the_first_words_under_it(strategy: str, size: int) -> None:
    text = "\n\n".join(f"{'#' * (1 + n % 3)} Head {n}\n\n{'Some words stand here. ' * (n + 1)}" for n in range(12))
    assert not [part for part in texts_of(text, strategy, size) if part.splitlines()[-1].startswith("#")]


@pytest.mark.parametrize("strategy", STRUCTURED)
def test_a_run_of_headings_is_parted_between_them_and_the_last_keeps_its_text(strategy: str) -> None:
    text = "".join(f"# Heading number {n}\n\n" for n in range(10)) + "text"
    parts = texts_of(text, strategy, 14)
    assert parts[-1].endswith("# Heading number 9\n\ntext")
    assert all(part.startswith("# Heading number") for part in parts)


@pytest.mark.parametrize("strategy", STRUCTURED)
def test_a_heading_inside_a_quote_stays_with_its_text(strategy: str) -> None:
    text = "> # Quoted heading\n> Words of the quote. More words of the quote follow here.\n"
    assert texts_of(text, strategy, 14)[0].startswith("> # Quoted heading\n> Words of the quote")


def test_a_heading_too_large_for_the_cap_is_cut_like_any_text() -> None:
    parts = texts_of("# " + "long heading words " * 20 + "\n\nbody", "recursive", 10)
    assert len(parts) > 5
    assert parts[-1].endswith("body")


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("size", [24, 40, 60])
def test_a_fence_that_fits_is_not_cut(strategy: str, size: int) -> None:
    fence = "```python\nx = 1\n\n# no heading\ny = 2\n```"
    text = f"{'Some words stand here. ' * 9}\n\n{fence}\n\n{'Some words stand here. ' * 9}\n\n{fence}"
    assert count_tokens(fence) <= 24
    assert sum(part.count(fence) for part in texts_of(text, strategy, size)) == 2


@pytest.mark.parametrize("strategy", STRUCTURED)
def test_a_fence_over_the_cap_keeps_opener_and_closer_with_a_line(strategy: str) -> None:
    code = "".join(f"value_{n} = {n}\n" for n in range(60))
    parts = texts_of(f"# Code\n\n```python\n{code}```\n", strategy, 64)
    assert parts[0].startswith("# Code\n\n```python\nvalue_0 = 0\n")
    assert parts[-1].endswith("value_59 = 59\n```")
    assert all(line.startswith(("value_", "```", "#")) or not line for part in parts for line in part.splitlines())


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("size", [8, 12, 20, 40])
def test_a_table_row_is_not_cut(strategy: str, size: int) -> None:
    rows = [f"| n{n} | v{n} |" for n in range(30)]
    text = "# T\n\n| name | value |\n|---|---|\n" + "\n".join(rows) + "\n\nafter"
    whole = "\n".join(texts_of(text, strategy, size)).splitlines()
    assert [line for line in whole if line.startswith("| n") and line != "| name | value |"] == rows


@pytest.mark.parametrize("strategy", STRUCTURED)
def test_a_tables_header_stays_with_its_first_row(strategy: str) -> None:
    text = "Words before it. " * 8 + "\n\n| name | value |\n|---|---|\n" + "| n | v |\n" * 30
    part = next(part for part in texts_of(text, strategy, 30) if "| name" in part)
    assert "| name | value |\n|---|---|\n| n | v |" in part


@pytest.mark.parametrize("strategy", STRUCTURED)
def test_chunks_inside_a_table_carry_its_header(strategy: str) -> None:
    text = "para\n\n| name | value |\n|---|---|\n" + "".join(f"| n{n} | v{n} |\n" for n in range(60)) + "\nafter"
    embedder = {"embedder": HashEmbedder()} if strategy.startswith("semantic") else {}
    chunks = chunk(text, strategy, chunk_size=64, **embedder)
    inside = [c for c in chunks if c.text.startswith("| n") and not c.text.startswith("| name")]
    assert len(inside) > 5
    for c in chunks:
        expected = ("| name | value |\n|---|---|", "table_header") if c in inside else (None, None)
        assert (c.context, c.context_source) == expected
    assert inside[0].embedding_text == f"| name | value |\n|---|---|\n\n{inside[0].text}"


def test_a_header_over_the_cap_is_not_carried() -> None:
    header = "|" + "|".join(f"column {n}" for n in range(12)) + "|\n" + "|-" * 12 + "|\n"
    text = header + ("|c" * 12 + "|\n") * 30
    tokens = count_tokens(header.strip())
    assert chunk(text, "recursive", chunk_size=tokens)[-1].context == header.strip()
    assert chunk(text, "recursive", chunk_size=tokens - 1)[-1].context is None


@pytest.mark.parametrize("strategy", STRUCTURED)
def test_a_list_item_that_fits_is_not_cut(strategy: str) -> None:
    items = [f"- Item {n} has a sentence. And one more\n  line with a `b.c` in it." for n in range(12)]
    parts = texts_of("\n".join(items), strategy, 30)
    assert "\n".join(parts).split("\n- ")[0] == items[0]
    assert all(part.startswith("- ") and part.endswith("in it.") for part in parts)


def test_a_fence_inside_an_item_that_is_too_large_is_not_cut() -> None:
    fence = "  ```\n  one\n\n  two\n  ```"
    text = f"- {'words of the item ' * 8}\n\n{fence}\n\n  {'words of the item ' * 8}"
    assert sum(part.count(fence) for part in texts_of(text, "recursive", 24)) == 1


def test_two_thousand_words_without_a_stop_are_parted_at_spaces() -> None:
    parts = recursive("word " * 2000, 10_000, 100)
    assert {word for part in parts for word in part.split(" ")} == {"word"}
    assert [count_tokens(part) for part in parts] == [100] * 20


def test_files_of_lines_are_parted_at_lines() -> None:
    parts = recursive("key: some value\n" * 3000, 10_000, 64)
    assert all(part.startswith("key: ") and part.endswith(" value") for part in parts)
    assert min(count_tokens(part) for part in parts[:-1]) > 55


@pytest.mark.parametrize("size", range(1, 21))
@pytest.mark.parametrize("text", ["äöüßÄÖÜ" * 6, "🇩🇪🇫🇷🇯🇵" * 4, "👨‍👩‍👧‍👦" * 3, "x \u0301y\n\u0301z" * 8])
def test_hard_cuts_keep_cap_and_characters(text: str, size: int) -> None:
    document = Document(text=text)
    spans = split(document.analysis, 0, len(text), Limit(size))
    assert all(count_tokens(text[start:end]) <= size or end - start == 1 for start, end in spans)
    assert all(left[1] <= right[0] for left, right in pairwise(spans))
    assert "".join(text[start:end] for start, end in spans).replace("\n", "").replace(" ", "") == text.replace(
        "\n", ""
    ).replace(" ", "")


def test_one_character_over_the_cap_is_a_chunk_of_its_own() -> None:
    (rocket,) = chunk("🚀", "recursive", chunk_size=1)
    assert (rocket.text, rocket.token_count) == ("🚀", 3)


def test_headings_are_those_a_chunk_starts_under() -> None:
    found = {c.text.strip().splitlines()[0]: c.headings for c in chunk(DOCUMENT, "recursive", chunk_size=8)}
    assert found["Preamble before any heading."] == ()
    assert found["# Title"] == ("Title",)
    assert found["### Deep"] == ("Title", "24/7 support", "Deep")
    assert found["Last paragraph."] == ("Title", "Second")


def test_no_chunk_of_indentation_is_left_where_a_crumb_takes_parts() -> None:
    assert recursive("\t\t0\t﷽", 4, 12) == ["\t\t0", "﷽"]


def test_a_run_of_spaces_longer_than_any_token_is_no_chunk() -> None:
    assert recursive("a" + " " * 300_000 + "b", 2000, 512) == ["a", "b"]


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("between", ["---", "[a]: http://x.y", "***\n\n[a]: http://x.y", "---\n\n## Sub"])
def test_a_heading_goes_with_the_text_behind_a_thematic_break_or_definitions(strategy: str, between: str) -> None:
    found = texts_of(f"Before it all there are words.\n\n# Title\n\n{between}\n\nThe text of it goes on.", strategy, 30)
    assert f"# Title\n\n{between}\n\nThe text of it goes on." in found[-1]


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("marks", ["- ", "1. ", "> ", "- > - ", "* [ ] "])
def test_a_heading_is_not_kept_with_the_mark_of_a_list_alone(strategy: str, marks: str) -> None:
    item = f"{marks}https://example.com/a/b/c?d=e&f=g"
    size = count_tokens(item)
    found = texts_of(f"## Links\n\n{item}", strategy, size)
    assert found == ["## Links", item]


@pytest.mark.parametrize("strategy", STRUCTURED)
def test_blank_lines_of_a_quote_behind_a_fence_do_not_cut_it(strategy: str) -> None:
    fence = "> ```\n> aa bb cc\n> dd ee ff\n> ```"
    found = texts_of(f"> intro\n>\n{fence}\n>\n>\n>\n> after it", strategy, 15)
    assert any(fence in text for text in found)


@pytest.mark.parametrize("strategy", STRUCTURED)
def test_link_definitions_under_a_heading_are_cut_between_lines(strategy: str) -> None:
    lines = [f'[name {n}]: https://example.com/page/{n} "The title {n}"' for n in range(12)]
    text = "## Links\n\n" + "\n".join(lines) + "\n\n## Next\n\nText under next. And more.\n"
    found = texts_of(text, strategy, 64)
    assert all(line in "\n".join(found) and sum(line in chunk for chunk in found) == 1 for line in lines)
    assert found[-1].endswith("## Next\n\nText under next. And more.")


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("heading", ["# C", "## C"])
def test_a_break_at_the_end_of_a_section_does_not_bind_the_next_heading(strategy: str, heading: str) -> None:
    chunks = chunks_of(f"# A\n\nText of A.\n\n## B\n\n---\n\n{heading}\n\nText of C.\n", strategy, 12)
    assert chunks[-1].text == f"{heading}\n\nText of C."
    assert chunks[-1].headings == (("C",) if heading == "# C" else ("A", "C"))


def test_a_run_that_had_to_be_cut_takes_what_fits_of_the_text_behind_it() -> None:
    run = "https://example.org/" + "/".join(f"segment{n}" for n in range(10))
    following = "The second paragraph says one whole thing in a sentence that should stay whole."
    found = texts_of(f"{run}\n\n{following}\n", "recursive", 32)
    assert found[-1].endswith(following)
    assert count_tokens(found[0]) == 32
