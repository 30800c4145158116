"""Doubles that several rooms' tests share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from chunkers import ModelError
from chunkers.models.base import Vectors


class HashEmbedder:
    """A unit vector from a hash of the text: equal texts are alike, all others are not.

    Keeps the texts that it embedded; refuses blank ones, and raises for those that hold `refused` (a fatal error if `fatal`).
    """

    name = "hash"
    dimensions = 8
    semantic_threshold = 0.1
    paragraph_threshold = 0.1
    max_input_tokens: int | None = None

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.refused = ""
        self.fatal = False

    def count_tokens(self, text: str) -> int:
        return len(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        if any(not text.strip() for text in texts):
            raise ValueError("blank text")
        if self.refused and any(self.refused in text for text in texts):
            raise ModelError("no vector", fatal=self.fatal)
        self.texts += texts
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            digest = hashlib.sha256(text.encode("utf-8")).digest()
            vectors[row] = np.frombuffer(digest, dtype=np.int8)[: self.dimensions]
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
