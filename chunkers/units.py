"""Units: the sentences and paragraphs that `sentence`, `semantic` and `semantic_parent_child` build chunks from.

A unit is trimmed and never over the limit. Prose gives one unit a sentence; a fence, a table, a list item or a quote is one unit while
it fits. A heading is no unit of its own: it goes with what follows. A unit over the limit goes through the cascade.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chunkers.analysis import Analysis
from chunkers.cascade import split
from chunkers.markdown import Block, Kind
from chunkers.spans import Limit, Span
from chunkers.structure import leads


def sentence_units(analysis: Analysis, limit: Limit) -> Sequence[Span]:
    """Sentences, and blocks that are no prose, each within `limit`, in order; every non-space character lies in exactly one."""
    return analysis.once(("sentence units", limit), lambda: _sentence_units(analysis, limit))


def _sentence_units(analysis: Analysis, limit: Limit) -> list[Span]:
    parts = list(_parts_of(analysis, analysis.blocks, limit))
    units: list[Span] = []
    for (start, end), whole in zip(parts, limit.trimmed_all(analysis, parts), strict=True):
        if whole is None:
            units.extend(split(analysis, start, end, limit))
        elif whole[0] < whole[1]:
            units.append(whole)
    return units


def paragraph_spans(analysis: Analysis) -> list[Span]:
    """Top-level blocks that are not blank, each with the headings right before it. Of any size, not trimmed."""
    text = analysis.text
    spans = [(lead, block.end) for lead, block in _with_headings(analysis.blocks)]
    return [(start, end) for start, end in spans if not text[start].isspace() or not text[start:end].isspace()]


def _with_headings(blocks: Sequence[Block]) -> Iterator[tuple[int, Block]]:
    """Each block with the offset at which the headings right before it start, and what stands between them and is no text.

    Headings that nothing follows come as a block.
    """
    lead: int | None = None
    for block, leads_on in zip(blocks, leads(blocks), strict=True):
        if leads_on:
            lead = block.start if lead is None else lead
            continue
        yield (block.start if lead is None else lead), block
        lead = None
    if lead is not None:
        yield lead, blocks[-1]


def _parts_of(analysis: Analysis, blocks: Sequence[Block], limit: Limit) -> Iterator[Span]:
    """The parts of blocks that follow one another, the first of each with the headings before it. They may be over the limit."""
    for lead, block in _with_headings(blocks):
        spans = analysis.sentences_of(block) if block.kind is Kind.PARAGRAPH else list(_parts(analysis, block, limit))
        if spans and lead < block.start:
            spans[0] = (lead, spans[0][1])
        yield from spans


def _parts(analysis: Analysis, block: Block, limit: Limit) -> Iterator[Span]:
    """Spans that tile a block which is no paragraph: the items of a list, anything else whole while it fits."""
    if (
        block.children
        and block.kind is not Kind.TABLE
        and (block.kind is Kind.LIST or not limit.fits(analysis, block.start, block.end))
    ):
        # Stretched, so that markers before a child and gaps between children are covered.
        spans = list(_parts_of(analysis, block.children, limit))
        starts = [block.start, *(start for start, _ in spans[1:])]
        yield from zip(starts, [*starts[1:], block.end], strict=True)
    else:
        yield block.start, block.end
