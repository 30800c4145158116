"""The blocks of a document: headings, paragraphs, fences, tables, lists, quotes, as spans of the text.

Markdown is read by the block rules of `markdown-it-py` (CommonMark, and tables), whose tokens carry line ranges; nothing here
matches markup on its own. The result is a list of top-level blocks that tile every line which is not blank: what the parser
swallows without a token (link definitions) becomes a block of kind `OTHER`. Plain text has paragraphs only, parted by blank lines,
and so has markdown in which no line begins with a mark: there the parser is left out. Lines end at CR LF, LF or CR and nowhere else.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.common.html_blocks import block_names
from markdown_it.token import Token

from chunkers.front_matter import front_matter_end

# Media types. Whatever is not markdown has paragraphs only.
MARKDOWN = "text/markdown"
PLAIN = "text/plain"


class Kind(Enum):
    """What a block is."""

    HEADING = "heading"
    PARAGRAPH = "paragraph"
    FENCE = "fence"
    CODE = "code"
    HTML = "html"
    TABLE = "table"
    ROW = "row"
    LIST = "list"
    ITEM = "item"
    QUOTE = "quote"
    OTHER = "other"


class Block(NamedTuple):
    """A block and the blocks inside it.

    Attributes:
        start, end: offsets of the first character of its first line and of the line after its last.
        level, title: of a heading: 1 to 6, and its text without markup, cut off after `LONGEST_TITLE` characters.
        children: the blocks inside a list, an item, a quote or a table (its rows), outermost first.
    """

    kind: Kind
    start: int
    end: int
    level: int = 0
    title: str = ""
    children: tuple[Block, ...] = ()


_KINDS = {
    "heading_open": Kind.HEADING,
    "paragraph_open": Kind.PARAGRAPH,
    "fence": Kind.FENCE,
    "code_block": Kind.CODE,
    "html_block": Kind.HTML,
    "table_open": Kind.TABLE,
    "tr_open": Kind.ROW,
    "bullet_list_open": Kind.LIST,
    "ordered_list_open": Kind.LIST,
    "list_item_open": Kind.ITEM,
    "blockquote_open": Kind.QUOTE,
    "hr": Kind.OTHER,
}
NEWLINE = re.compile(r"\r\n?|\n")
BLANK_LINES = re.compile(r"(?:\r\n?+|\n)(?:[^\S\r\n]*+(?:\r\n?+|\n))++")
_BYTE_ORDER_MARK = "\ufeff"
# What a line may begin with where it is no line of a paragraph, or not certainly: indentation of four, headings and their
# underlines, fences, table delimiters, quotes, lists, thematic breaks, link definitions, HTML. A label that goes on in the next line
# is one only up to 999 characters.
_HEADING = r" {0,3}(?:#|-+[ \t]*\r?$|=+[ \t]*\r?$)"
_HTML_TAG = rf"(?i:/?(?:{'|'.join(block_names)}|script|pre|style|textarea)(?:[\s/>]|$))"
_FIRST = (
    rf"(?: {{4}}|{_HEADING}| {{0,3}}(?:\t|`{{3}}|~{{3}}|[|>\-]|:-|[*+](?:[ \t\r]|$)|\d{{1,9}}[.)](?:[ \t\r]|$)|"
    r"(?P<break>[*_])(?:[ \t]*(?P=break)){2}|\[(?:(?:\\.?|[^\]\\\n])*+\]:|(?:\\.?|[^\]\\\n]){0,999}+$)|"
    rf"<(?:[!?]|{_HTML_TAG}|[^\n]*>[^\S\n]*$)))"
)
_MARK = re.compile(_FIRST, re.MULTILINE)
_MARK_BELOW = re.compile(rf"\n{_FIRST}", re.MULTILINE)
_HEADING_MARK = re.compile(_HEADING, re.MULTILINE)
_HEADING_MARK_BELOW = re.compile(rf"\n{_HEADING}", re.MULTILINE)
_LONE_CR = re.compile(r"\r(?!\n)")
_BLANK_START = re.compile(r"(?:[ \t]*+\r?+\n)*+(?:[ \t]*+\Z)?+")
_BLANK_GAP = re.compile(r"\n(?:(?:[ \t]*+\r?+\n)++(?:[ \t]*+\Z)?+|[ \t]*+\Z)")
LONGEST_TITLE = 300
# Whatever the markup takes away, this is enough of it, and a bound on the work: a heading may be a megabyte.
_TITLE_SOURCE = 10 * LONGEST_TITLE
_MARKUP = re.compile(r"[*_`\[\]<&\\!~]")


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    # A list or quote as deep as `maxNesting` ends the parse of all that it may hold, which with the default of 20 is soon.
    return MarkdownIt("commonmark", {"maxNesting": 100}).enable(["table", "strikethrough"])


def blocks(text: str, media_type: str = MARKDOWN) -> list[Block]:
    """The top-level blocks of `text` in order. They tile it but for blank lines; a blank text has none."""
    if media_type != MARKDOWN:
        return _paragraphs(text)
    if not has_marks(text):
        return _unmarked(text)
    # A byte-order mark belongs to the first line, but is no part of its markup.
    mark = int(text.startswith(_BYTE_ORDER_MARK))
    begin = mark + front_matter_end(text[mark:])
    front = [Block(Kind.OTHER, 0, begin)] if begin > mark else []
    body = text[begin:]
    line_starts = [begin if front else 0, *(begin + newline.end() for newline in NEWLINE.finditer(body))]
    if line_starts[-1] < len(text):
        line_starts.append(len(text))
    reader = _Reader(line_starts)
    # The parser wants LF line ends and no NUL; both replacements keep the number of lines, which is all that is read back.
    source = NEWLINE.sub("\n", body).replace("\0", "\ufffd")
    definitions: dict[str, Any] = {}
    _parser().block.parse(source, _parser(), definitions, reader)
    found = [_titled(block, definitions) if block.kind is Kind.HEADING else block for block in reader.blocks()]
    return _fill_gaps(text, [*front, *found])


def _titled(heading: Block, definitions: dict[str, Any]) -> Block:
    """A heading whose title is still markdown, with the plain title."""
    return heading._replace(title=plain_title(heading.title, definitions))


def has_marks(text: str) -> bool:
    """Whether some line of markdown begins with what could be anything but a paragraph's; where none does, no parser is needed."""
    return _begins_a_line(_MARK, _MARK_BELOW, text)


def may_have_headings(text: str, media_type: str = MARKDOWN) -> bool:
    """False where no line looks like a heading or the line under one, so that the blocks need not be known to know the headings."""
    return media_type == MARKDOWN and _begins_a_line(_HEADING_MARK, _HEADING_MARK_BELOW, text)


def _begins_a_line(first: re.Pattern[str], below: re.Pattern[str], text: str) -> bool:
    if text.startswith(_BYTE_ORDER_MARK) or ("\r" in text and _LONE_CR.search(text)):
        return True
    return bool(first.match(text) or below.search(text))


def _unmarked(text: str) -> list[Block]:
    """The paragraphs of markdown without marks."""
    found: list[Block] = []
    start = 0
    if blank := _BLANK_START.match(text):
        start = blank.end()
    for gap in _BLANK_GAP.finditer(text, start):
        found.append(Block(Kind.PARAGRAPH, start, gap.start() + 1))
        start = gap.end()
    return [*found, Block(Kind.PARAGRAPH, start, len(text))] if start < len(text) else found


def _paragraphs(text: str) -> list[Block]:
    starts = [0, *(blank.end() for blank in BLANK_LINES.finditer(text))]
    spans = zip(starts, [*starts[1:], len(text)], strict=True)
    return [Block(Kind.PARAGRAPH, start, end) for start, end in spans if not text[start:end].isspace() and end > start]


class _Reader(list[Token]):
    """Stands where the parser puts its tokens and makes blocks of them at once, so that no token is kept: a large table has millions.

    A token is read when the next one comes, for the parser completes it right after it has put it here.
    """

    def __init__(self, line_starts: list[int]) -> None:
        super().__init__()
        self._line_starts = line_starts
        self._last = len(line_starts) - 1
        # One frame per open token: the token, and the blocks found inside it so far.
        self._frames: list[tuple[Token | None, list[Block]]] = [(None, [])]
        self._newest: Token | None = None
        self._title = ""

    def append(self, token: Token) -> None:
        newest, self._newest = self._newest, token
        if newest is None:
            return
        if newest.nesting == 1:
            self._frames.append((newest, []))
        elif newest.nesting == -1:
            opened, children = self._frames.pop()
            if opened:
                self._add(opened, children)
        elif newest.type == "inline":
            self._title = newest.content
        else:
            self._add(newest, [])

    def _add(self, token: Token, children: list[Block]) -> None:
        siblings = self._frames[-1][1]
        kind = _KINDS.get(token.type)
        if kind is None or token.map is None:
            siblings.extend(children)
            return
        first, end = token.map
        span = self._line_starts[min(first, self._last)], self._line_starts[min(end, self._last)]
        if kind is Kind.HEADING:
            siblings.append(Block(kind, *span, int(token.tag[1:]), self._title[:_TITLE_SOURCE]))
        else:
            siblings.append(Block(kind, *span, children=tuple(children)))

    def blocks(self) -> list[Block]:
        """The top-level blocks, once the parser is done."""
        self.append(Token("", "", 0))
        return self._frames[0][1]


def _fill_gaps(text: str, found: list[Block]) -> list[Block]:
    """`found` with a block for every stretch between two blocks that is not blank."""
    filled: list[Block] = []
    reached = 0
    for block in [*found, Block(Kind.OTHER, len(text), len(text))]:
        if block.start > reached and not text[reached : block.start].isspace():
            filled.append(Block(Kind.OTHER, reached, block.start))
        if block.end > block.start:
            filled.append(block)
        reached = max(reached, block.end)
    return filled


def plain_title(content: str, definitions: dict[str, Any] | None = None) -> str:
    """The text of a heading without inline markup, white space folded, cut off after `LONGEST_TITLE` characters.

    Args:
        definitions: the parser's environment with the document's link definitions.
    """
    content = content[:_TITLE_SOURCE]
    if _MARKUP.search(content):
        inline = _parser().parseInline(content, {} if definitions is None else definitions)[0]
        content = "".join(
            " " if child.type in ("softbreak", "hardbreak") else child.content
            for child in inline.children or []
            if child.type in ("text", "code_inline", "image", "softbreak", "hardbreak", "text_special")
        )
    title = " ".join(content.split())
    return title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1].rstrip() + "…"
