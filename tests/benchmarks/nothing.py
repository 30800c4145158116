"""Models that cost nothing, for what a strategy does apart from its models."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chunkers.encoding import count_tokens
from chunkers.models.base import Context, ContextRequest, Vectors


class NoModel:
    """An embedder that takes the rows of one table in turn."""

    name = "none"
    dimensions = 8
    semantic_threshold = 0.05
    paragraph_threshold = 0.08
    max_input_tokens: int | None = None
    rows = np.random.default_rng(1).normal(size=(4096, dimensions)).astype(np.float32)

    def count_tokens(self, text: str) -> int:
        return count_tokens(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        return self.rows[: len(texts)]


class NoWriter:
    """A context writer that has nothing to say."""

    name = "none"
    prompt_version = "none"

    def write(self, requests: Sequence[ContextRequest]) -> list[Context]:
        return [Context("", "none")] * len(requests)
