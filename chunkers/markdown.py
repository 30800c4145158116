"""The blocks of a document: headings, paragraphs, fences, tables, lists, quotes, as spans of the text.

Markdown is read by the block rules of `markdown-it-py` (CommonMark, and tables), whose tokens carry line ranges; nothing here
matches markup on its own. The result is a list of top-level blocks that tile every line which is not blank: what the parser
swallows without a token (link definitions) becomes a block of kind `OTHER`. Plain text has paragraphs only, parted by blank lines.
Lines end at CR LF, LF or CR and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from markdown_it import MarkdownIt
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


@dataclass(frozen=True, slots=True)
class Block:
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
BLANK_LINES = re.compile(r"(?:\r\n?+|\n)(?:[^\S\r\n]*+(?:\r\n?+|\n))+")
_BYTE_ORDER_MARK = "\ufeff"
LONGEST_TITLE = 300
_MARKUP = re.compile(r"[*_`\[\]<&\\!~]")


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").enable("table")


def blocks(text: str, media_type: str = MARKDOWN) -> list[Block]:
    """The top-level blocks of `text` in order. They tile it but for blank lines; a blank text has none."""
    if media_type != MARKDOWN:
        return _paragraphs(text)
    # A byte-order mark belongs to the first line, but is no part of its markup.
    mark = int(text.startswith(_BYTE_ORDER_MARK))
    begin = mark + front_matter_end(text[mark:])
    front = [Block(Kind.OTHER, 0, begin)] if begin > mark else []
    body = text[begin:]
    line_starts = [begin if front else 0, *(begin + newline.end() for newline in NEWLINE.finditer(body))]
    if line_starts[-1] < len(text):
        line_starts.append(len(text))
    tokens = _Tokens()
    # The parser wants LF line ends and no NUL; both replacements keep the number of lines, which is all that is read back.
    source = NEWLINE.sub("\n", body).replace("\0", "\ufffd")
    _parser().block.parse(source, _parser(), {}, tokens)
    found = _nest(tokens, line_starts)
    return _fill_gaps(text, [*front, *found])


class _Tokens(list[Token]):
    """The parser's tokens but for those of table cells: nothing is read from them, and a large table has millions."""

    in_cell = False

    def append(self, token: Token) -> None:
        opens = token.type in ("th_open", "td_open")
        if not (self.in_cell or opens):
            super().append(token)
        self.in_cell = opens or (self.in_cell and token.type not in ("th_close", "td_close"))


def _paragraphs(text: str) -> list[Block]:
    starts = [0, *(blank.end() for blank in BLANK_LINES.finditer(text))]
    spans = zip(starts, [*starts[1:], len(text)], strict=True)
    return [Block(Kind.PARAGRAPH, start, end) for start, end in spans if not text[start:end].isspace() and end > start]


def _nest(tokens: Sequence[Token], line_starts: list[int]) -> list[Block]:
    """Blocks from the parser's flat list of opening and closing tokens."""
    last = len(line_starts) - 1
    top: list[Block] = []
    # One frame per open token: the token, and the blocks found inside it so far.
    frames: list[tuple[Token | None, list[Block]]] = [(None, top)]
    titles: dict[int, str] = {}
    for position, token in enumerate(tokens):
        if token.nesting == 1:
            frames.append((token, []))
            if token.type == "heading_open":
                titles[id(token)] = tokens[position + 1].content
            continue
        if token.nesting == -1:
            opened, children = frames.pop()
        elif token.type in _KINDS:
            opened, children = token, []
        else:
            continue
        kind = _KINDS.get(opened.type) if opened else None
        if opened is None or kind is None or opened.map is None:
            frames[-1][1].extend(children)
            continue
        start, end = (line_starts[min(line, last)] for line in opened.map)
        if kind is Kind.HEADING:
            frames[-1][1].append(Block(kind, start, end, int(opened.tag[1:]), plain_title(titles[id(opened)])))
        else:
            frames[-1][1].append(Block(kind, start, end, children=tuple(children)))
    return top


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


def plain_title(content: str) -> str:
    """The text of a heading without inline markup, white space folded, cut off after `LONGEST_TITLE` characters."""
    # Whatever the markup takes away, this is enough of it, and a bound on the work: a heading may be a megabyte.
    content = content[: 10 * LONGEST_TITLE]
    if _MARKUP.search(content):
        inline = _parser().parseInline(content)[0]
        content = "".join(
            " " if child.type in ("softbreak", "hardbreak") else child.content
            for child in inline.children or []
            if child.type in ("text", "code_inline", "image", "softbreak", "hardbreak", "text_special")
        )
    title = " ".join(content.split())
    return title if len(title) <= LONGEST_TITLE else title[: LONGEST_TITLE - 1].rstrip() + "…"
