"""Text that other tools lose or rewrite: blank lines, indentation, odd spaces, open fences, beginnings and ends."""

from __future__ import annotations

from itertools import pairwise

import pytest

from chunkers import STRATEGIES, Document, chunk
from chunkers.encoding import count_tokens
from tests.chunkers.cases import STRUCTURED, WINDOWS, chunked, chunks_of, texts_of
from tests.chunkers.test_semantic import AngleEmbedder, text_of

LIST = "- one\n  - two\n    - three\n      more of three\n  - four\n- five"
MAKEFILE = "```make\nall: main.o\n\tcc -o main main.o\n\n\t@echo\u00a0done\n```"


def whole(text: str, strategy: str) -> str:
    """The only chunk of a text under the cap, or its only parent."""
    chunks, parents = chunked(text, strategy)
    (only,) = parents or chunks
    return only.text


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "text",
    [
        "## Head\n\nFirst paragraph.\n\nSecond paragraph.\n\n\n\nThird after three blank lines.",
        f"Shopping:\n\n{LIST}",
        f"Build with:\n\n{MAKEFILE}\n\n10\u00a0km is\u2003far\u202faway.",
        "Two spaces at the end  \nof a line,\\\nand a backslash.\n\n    indented code\n\n\ttabbed code",
        "“Quotes”, 'quotes', an&nbsp;entity, <b>bold</b>, [link](x.y \"t\"), `a  b`, e\u0301, ﬁ, ½, İ, ſ",
        "line\r\nline\r\n\r\nparagraph\rold line",
        "zero\u200bwidth, soft\u00adhyphen, \u200fright to left\u200e, \x07bell, \x00nul",
        "1. one\n1. one again\n7. seven\n\n* star\n+ plus\n\n***\n\n| a|b |\n|-|:-:|\n|  1  | 2|",
    ],
)
def test_a_text_under_the_cap_is_kept_as_it_stands(strategy: str, text: str) -> None:
    assert whole(text, strategy) == text


@pytest.mark.parametrize("strategy", STRUCTURED)
def test_nested_items_keep_their_indentation_where_they_are_parted(strategy: str) -> None:
    parts = texts_of(LIST, strategy, 6)
    assert len(parts) > 3
    assert "\n".join(parts) == LIST


@pytest.mark.parametrize("strategy", STRUCTURED)
def test_tabs_and_odd_spaces_are_kept_where_code_is_parted(strategy: str) -> None:
    parts = texts_of(f"Build with:\n\n{MAKEFILE}", strategy, 16)
    assert parts == ["Build with:", "```make\nall: main.o\n\tcc -o main main.o", "\t@echo\u00a0done\n```"]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("fence", ["```", "~~~~", "```python title=x"])
@pytest.mark.parametrize("size", [8, 20, 512])
def test_an_open_fence_runs_to_the_end(strategy: str, fence: str, size: int) -> None:
    text = f"# Title\n\n{fence}\nx = 1\n\n# Not a heading\n\n| no | table |\n|---|---|\n\ny = 2"
    chunks = chunks_of(text, strategy, size)
    assert "".join("".join(c.text for c in chunks).split()) == "".join(text.split())
    assert {c.headings for c in chunks} == {("Title",)}


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize(
    "preamble", ["A preamble of words.", "- a list\n- of words", "```\n# code\n```", "> a quotation"]
)
def test_text_before_the_first_heading_is_a_chunk_under_no_heading(strategy: str, preamble: str) -> None:
    chunks = chunks_of(f"{preamble}\n\n# Title\n\nBody of many words.\n", strategy, 8)
    assert [(c.text, c.headings) for c in chunks] == [(preamble, ()), ("# Title\n\nBody of many words.", ("Title",))]


@pytest.mark.parametrize("strategy", WINDOWS)
def test_a_window_before_the_first_heading_is_under_no_heading(strategy: str) -> None:
    chunks = chunks_of("A preamble of words.\n\n# Title\n\nBody of words.\n", strategy, 6)
    assert [(c.text, c.headings) for c in chunks] == [
        ("A preamble of words.\n\n#", ()),
        (" Title\n\nBody of words.\n", ("Title",)),
    ]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("size", [5, 8, 12, 512])
@pytest.mark.parametrize("end", ["", " ", "\n", "\n\n\n", " \t\r\n"])
def test_the_last_sentence_is_in_the_last_chunk(strategy: str, size: int, end: str) -> None:
    text = " ".join(f"Sentence {n} here." for n in range(7))
    last = chunks_of(text + end, strategy, size, 1)[-1]
    assert last.text.rstrip().endswith(" here.")
    assert last.start_char + len(last.text.rstrip()) == len(text)


def test_a_last_sentence_on_its_own_is_in_the_last_group() -> None:
    angles = (0, 0, 0, 90, 90, 90, 180)
    chunks = chunk(text_of(*angles), "semantic", embedder=AngleEmbedder(), semantic_min_chunk_size=3)
    assert [c.text for c in chunks] == [text_of(0, 0, 0), text_of(90, 90, 90, 180)]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    "template", ["{} {} {} {}", " {} {} {} {} ", "{}\n{}\n{}\n{}", "{}  {}   {}\t{}", "\n{}\u3000{}\u00a0{} {}"]
)
def test_no_word_is_lost_where_each_is_a_chunk(strategy: str, template: str) -> None:
    words = ["alpha", "beta", "gamma", "delta"]
    found = [c.text.strip() for c in chunks_of(template.format(*words), strategy, 1)]
    assert found == words


@pytest.mark.parametrize("strategy", STRUCTURED)
@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("en", ["One two three.", "Four five six.", "Seven eight nine."]),
        ("en", ["Is this one?!", "It is one!!!", "So it was..."]),
        ("en", ['He said "one two three."', 'She said "four five six!"', "They left."]),
        ("zh", ["今天天气很好。", "我们去公园吧！", "他说：“走吧。”", "好吗？"]),
        ("ja", ["これは文です。", "次の文ですか？", "「はい。」"]),
        ("hi", ["यह एक वाक्य है।", "यह दूसरा वाक्य है।"]),
    ],
)
def test_a_stop_stays_with_the_sentence_that_it_ends(strategy: str, language: str, sentences: list[str]) -> None:
    text = ("" if language in ("zh", "ja") else " ").join(sentences)
    size = max(count_tokens(sentence) for sentence in sentences)
    parts = texts_of(Document(text=text, language=language), strategy, size)
    assert all(part in text and part[0] not in '.!?。！？।”」"' for part in parts)
    assert all(any(part.endswith(sentence) for part in parts) for sentence in sentences)


PARAGRAPHS = [f"Paragraph {n} has quite a few words in it, more than a handful." for n in range(7)] + [
    "Just three words"
]


@pytest.mark.parametrize("strategy", ["recursive", "sentence", "semantic"])
def test_a_last_paragraph_of_few_words_goes_with_the_one_before(strategy: str) -> None:
    pairs = ["\n\n".join(PARAGRAPHS[n : n + 2]) for n in range(0, 8, 2)]
    assert texts_of("\n\n".join(PARAGRAPHS), strategy, 40) == pairs


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_last_paragraph_that_fits_nowhere_is_kept(strategy: str) -> None:
    size = max(count_tokens(paragraph) for paragraph in PARAGRAPHS)
    assert texts_of("\n\n".join(PARAGRAPHS), strategy, size)[-1].endswith("Just three words")


def test_a_last_paragraph_of_few_words_is_a_child_of_the_cluster_before() -> None:
    chunks, parents = chunked("\n\n".join(PARAGRAPHS), "semantic_parent_child", 40)
    assert [c.text for c in chunks] == PARAGRAPHS
    assert {c.parent_id for c in chunks} == {parents[0].id}


@pytest.mark.parametrize("strategy", WINDOWS)
def test_the_overlap_is_kept_before_a_last_window_of_few_words(strategy: str) -> None:
    text = " word" * 41
    chunks = chunks_of(text, strategy, 20, 5)
    assert [c.token_count for c in chunks] == [20, 20, 11]
    assert [right.start_char - left.end_char for left, right in pairwise(chunks)] == [-25, -25]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_kind_of_block_is_in_some_chunk(strategy: str) -> None:
    blocks = ["[ref]: https://x.y", "<!-- comment -->", "***", "<div>\nhtml\n</div>", "    code", "[^1]: note", "$$x$$"]
    found = texts_of("\n\n".join(blocks), strategy, 6)
    assert "".join("".join(found).split()) == "".join("".join(blocks).split())
