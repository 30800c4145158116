"""Small models for the chunkers' tests: deterministic, without weights, and easy to steer."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pytest

from chunkers.models.base import Context, ContextRequest, Vectors


class HashEmbedder:
    """A vector from a hash of the text: equal texts are alike, all others are not. Keeps what it was asked."""

    name = "hash"
    dimensions = 8
    semantic_threshold = 0.1
    paragraph_threshold = 0.1
    max_input_tokens = None

    def __init__(self) -> None:
        self.texts: list[str] = []

    def count_tokens(self, text: str) -> int:
        return len(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.texts += texts
        if any(not text.strip() for text in texts):
            raise ValueError("blank text")
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            digest = hashlib.sha256(text.encode("utf-8")).digest()
            vectors[row] = np.frombuffer(digest, dtype=np.int8)[: self.dimensions]
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1)


class EchoWriter:
    """A context that repeats the title. Keeps the requests."""

    name = "echo"
    prompt_version = "1"

    def __init__(self) -> None:
        self.requests: list[ContextRequest] = []

    def write(self, requests: Sequence[ContextRequest]) -> list[Context]:
        self.requests += requests
        return [Context(f"From {request.title or 'a text'}.", "echo") for request in requests]


@pytest.fixture
def embedder() -> HashEmbedder:
    return HashEmbedder()


@pytest.fixture
def writer() -> EchoWriter:
    return EchoWriter()
