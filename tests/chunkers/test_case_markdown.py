"""Markdown that other tools misread: fences in fences, tables without their header, openers on their own, headings that are none."""

from __future__ import annotations

import pytest

from chunkers import STRATEGIES, Document, chunk
from chunkers.encoding import count_tokens
from tests.chunkers.cases import STRUCTURED, WINDOWS, chunked, chunks_of, settings, texts_of
from tests.doubles import HashEmbedder

INNER = [
    "````md\n```py\n# x\n```\n````",
    "~~~\n# y\n```\n# z\n~~~",
    "```\n~~~\n# x\n````",
    "   ```\n   # x\n   ```",
    "> ```\n> # x\n> ```",
    "- item\n\n  ~~~~\n  # x\n  ~~~\n  # y\n  ~~~~",
    "    # indented code",
    "<pre>\n# x\n\n# y\n</pre>",
    "<!--\n\n# x\n\n-->",
    "<script>\n\n# x\n\n</script>",
]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("size", [12, 512])
def test_a_line_that_only_looks_like_a_heading_is_in_no_path(strategy: str, inner: str, size: int) -> None:
    text = f"# Real\n\n{inner}\n\nThen there are quite a few more words here."
    assert {c.headings for c in chunks_of(text, strategy, size)} == {("Real",)}


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("inner", INNER[:2])
def test_a_fence_that_holds_a_shorter_one_is_not_parted(strategy: str, inner: str) -> None:
    words = "Some words stand here. " * 3
    parts = texts_of(f"{words}\n\n{inner}\n\n{words}", strategy, count_tokens(inner) + 2)
    assert [part for part in parts if inner in part] == [inner]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "title", ["24/7 support", "a > b", "x/y/z", "1. First", "C:\\dir", "#hash", "a | b", "“quoted”"]
)
def test_a_path_is_a_list_of_titles_whatever_they_hold(strategy: str, title: str) -> None:
    chunks = chunks_of(f"# Help/FAQ\n\n## {title}\n\nWords of support.", strategy)
    last = chunks_of(f"# Help/FAQ\n\nWords.\n\n## {title}\n\nWords of support here.", strategy, 7)[-1]
    assert chunks[0].headings == ("Help/FAQ",)
    assert last.headings == ("Help/FAQ", title)


@pytest.mark.parametrize("strategy", [*STRUCTURED, "fixed_size"])
@pytest.mark.parametrize(
    "text", ["# Title\n\nOne line.", "Title\n=====\n\nOne line.", "## A\n\n### Title\n\nOne line."]
)
def test_a_heading_is_embedded_once(strategy: str, text: str) -> None:
    (only,) = chunk(Document(text=text, title="Title"), strategy, embedder=HashEmbedder(), **settings(strategy, 512))
    assert only.embedding_text == text


ROWS = [f"| name {n} | {n * 3} |" for n in range(60)]
HEADER = "| Name | Value |\n| :--- | ---: |"


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("prefix", ["", "> ", "  "])
def test_chunks_inside_a_table_carry_its_header_wherever_the_table_stands(
    strategy: str, newline: str, prefix: str
) -> None:
    lines = [*HEADER.splitlines(), *ROWS]
    table = newline.join(prefix + line for line in lines)
    text = f"- item{newline}{newline}{table}" if prefix == "  " else table
    chunks = chunks_of(text, strategy, 64)
    header = newline.join(prefix + line for line in HEADER.splitlines()).strip()
    assert len(chunks) > 5
    assert [c.context for c in chunks] == [None] + [header] * (len(chunks) - 1)
    assert newline.join(c.text for c in chunks) == text


@pytest.mark.parametrize("strategy", STRUCTURED)
def test_each_of_two_tables_gives_its_chunks_its_own_header(strategy: str) -> None:
    tables = [f"| {name} | x |\n|---|---|\n" + f"| row of {name} | y |\n" * 20 for name in ("cats", "dogs")]
    chunks = chunks_of("\n".join(tables) + "\nThe end.", strategy, 48)
    for c in chunks:
        name = "dogs" if "dogs" in c.text else "cats"
        begins_inside = c.text.startswith("| row")
        assert c.context == (f"| {name} | x |\n|---|---|" if begins_inside else None)


@pytest.mark.parametrize("strategy", WINDOWS)
def test_windows_keep_every_row_of_a_table_once(strategy: str) -> None:
    table = "\n".join([HEADER, *ROWS])
    assert "".join(texts_of(table, strategy, 64)) == table


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize(
    ("opener", "prefix", "closer"),
    [
        ("```python", "", "```"),
        ("~~~ruby start=3", "", "~~~"),
        ("````", "", "````"),
        ("```", "> ", "```"),
        ("```", "  ", "```"),
    ],
)
def test_a_fence_opener_is_never_without_code(strategy: str, opener: str, prefix: str, closer: str) -> None:
    code = [f"line_{n} = call({n})" for n in range(60)]
    fence = "\n".join(prefix + line for line in [opener, *code, closer])
    text = f"- Intro words.\n\n{fence}" if prefix == "  " else f"Intro words.\n\n{fence}"
    parts = texts_of(text, strategy, 64)
    assert f"{prefix}{opener}\n{prefix}line_0 = call(0)" in next(part for part in parts if opener in part)
    assert parts[-1].endswith(f"{prefix}line_59 = call(59)\n{prefix}{closer}")


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("prefix", ["", "> "])
def test_a_fence_opener_stays_with_a_first_line_of_any_length(strategy: str, prefix: str) -> None:
    for words in range(2, 70):
        fence = f"{prefix}```python\n{prefix}code{' word' * words}\n{prefix}last line\n{prefix}```"
        for part in texts_of(f"Intro of some few words.\n\n{fence}", strategy, 64):
            assert "```python" not in part or f"```python\n{prefix}code" in part


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize("line", ['"key":1,' * 200, "QUJD" * 200, "word " * 200, "🚀" * 100])
def test_a_fence_opener_stays_with_the_start_of_a_line_over_the_cap(strategy: str, line: str) -> None:
    parts = texts_of(f"Intro here.\n\n```json\n{line}\n```\n\nEnd.", strategy, 64)
    opening = next(part for part in parts if "```json" in part)
    assert count_tokens(opening) > 48
    assert opening.endswith(line[: len(opening) - opening.index("json\n") - 5].rstrip())
    assert f"{line[-4:]}\n```" in next(part for part in reversed(parts) if "```" in part)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "table",
    [
        f"{HEADER}\n" + "\n".join(ROWS),
        "<table>\n" + "".join(f"<tr><td>name {n}</td></tr>\n" for n in range(60)) + "</table>",
        "<table><tr>" + "".join(f"<td>name {n}</td>" for n in range(60)) + "</tr></table>",
    ],
)
def test_a_table_between_long_texts_is_there_once_and_in_order(strategy: str, table: str) -> None:
    text = f"{'Early words stand here. ' * 40}\n\n{table}\n\n{'Late words stand here. ' * 40}"
    chunks, parents = chunked(text, strategy, 64)
    assert "".join("".join(c.text for c in chunks).split()) == "".join(text.split())
    if parents:
        assert "".join("".join(parent.text for parent in parents).split()) == "".join(text.split())


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("heading", "title"),
    [
        ("Title\n===", "Title"),
        ("Two lines\nof title\n---", "Two lines of title"),
        ("\ufeff# Title", "Title"),
        ("\ufeffTitle\n===", "Title"),
        ("# Title #", "Title"),
        ("   # Title", "Title"),
        ("#\tTitle", "Title"),
        ("# *Title* with `code`", "Title with code"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_a_heading_by_the_rules_is_in_the_path(strategy: str, heading: str, title: str, newline: str) -> None:
    text = f"{heading}\n\nWords of body that go on for a while here.".replace("\n", newline)
    chunks = chunks_of(text, strategy, 12)
    assert {c.headings for c in chunks} == {(title,)}
    assert chunks[0].start_char == 0
