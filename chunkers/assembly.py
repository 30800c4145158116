"""From spans to chunks: text is cut here and nowhere else, and ids, counts and headings are filled in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from chunkers import ids
from chunkers.analysis import Analysis
from chunkers.document import Chunk, Document, Parent
from chunkers.spans import Span, skip_blank, trim

TABLE_HEADER = "table_header"


def make_chunks(
    document: Document,
    spans: Sequence[Span],
    *,
    parents: Sequence[Parent | None] | None = None,
    header_tokens: int = 0,
) -> list[Chunk]:
    """The chunks of `spans`, in order.

    Args:
        document: whose text the spans cut.
        spans: trimmed or not, starts strictly increasing, none blank.
        parents: one per span, where the strategy has parents.
        header_tokens: a chunk that begins inside a table's body carries the table's header rows as its context when they have
            no more tokens than this.
    """
    analysis = document.analysis
    # Most texts have no table; those that have one are asked for each chunk.
    header_tokens = header_tokens if header_tokens and analysis.structure.tables else 0
    seen: Counter[str] = Counter()
    chunks: list[Chunk] = []
    for index, (start, end) in enumerate(spans):
        text = document.text[start:end]
        first = skip_blank(analysis, start, end) if text[0].isspace() else start
        header = _table_header(analysis, first, header_tokens) if header_tokens else None
        parent = parents[index] if parents else None
        chunks.append(
            Chunk(
                id=ids.chunk_id(document.id, text, seen[text]),
                index=index,
                text=text,
                start_char=start,
                end_char=end,
                token_count=analysis.tokens.count(start, end),
                headings=analysis.headings_at(first),
                context=header,
                parent_id=parent.id if parent else None,
                context_source=TABLE_HEADER if header else None,
            )
        )
        seen[text] += 1
    return chunks


def _table_header(analysis: Analysis, offset: int, most_tokens: int) -> str | None:
    """The header rows of the table in whose body `offset` lies; None elsewhere, and if they have more than `most_tokens`."""
    table = analysis.structure.table_at(offset)
    if table is None:
        return None
    start, end = trim(analysis, table.start, table.body)
    return analysis.text[start:end].strip() if analysis.tokens.fits(start, end, most_tokens) else None


def make_parents(document: Document, spans: Sequence[Span]) -> list[Parent]:
    """The parents of `spans`, in order."""
    analysis = document.analysis
    seen: Counter[str] = Counter()
    parents: list[Parent] = []
    for start, end in spans:
        text = document.text[start:end]
        parents.append(
            Parent(
                id=ids.parent_id(document.id, text, seen[text]),
                text=text,
                start_char=start,
                end_char=end,
                token_count=analysis.tokens.count(start, end),
                headings=analysis.headings_at(start),
            )
        )
        seen[text] += 1
    return parents
