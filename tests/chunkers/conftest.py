"""Small models for the chunkers' tests: deterministic, without weights, and easy to steer."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from chunkers.models.base import Context, ContextRequest
from tests.doubles import HashEmbedder


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
