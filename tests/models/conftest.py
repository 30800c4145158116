"""Fixtures of the models' tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from chunkers.models.base import ContextRequest
from chunkers.models.openai_embedder import OpenAIEmbedder
from chunkers.models.openai_writer import OpenAIContextWriter
from tests.openai_server import OpenAIServer, openai_server

__all__ = ["openai_server"]

# A model that the server gives 64 dimensions, so that answers stay small.
SMALL = "small-local-model"


class Clock:
    """Stands in for `time.sleep`: remembers the waits instead of waiting."""

    def __init__(self) -> None:
        self.waits: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.waits.append(seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def embedder(openai_server: OpenAIServer, clock: Clock) -> OpenAIEmbedder:
    """At the loopback server, with 64 dimensions known already and waits that take no time."""
    built = OpenAIEmbedder(SMALL, api_key=openai_server.key, base_url=openai_server.url, sleep=clock)
    assert built.dimensions == 64
    openai_server.requests.clear()
    return built


@pytest.fixture
def writer(openai_server: OpenAIServer) -> OpenAIContextWriter:
    return OpenAIContextWriter("gpt-4o-mini", api_key=openai_server.key, base_url=openai_server.url)


@pytest.fixture
def section() -> Callable[..., ContextRequest]:
    """Builds a request; what is not given has a small default."""

    def build(text: str = "Tell your employer eight weeks before.", **fields: Any) -> ContextRequest:
        defaults: dict[str, Any] = {
            "preceding": "Pay goes on during leave.",
            "following": "Nothing else is needed.",
            "title": "Leave policy",
            "headings": ("Leave policy", "Notice"),
        }
        return ContextRequest(text=text, **{**defaults, **fields})

    return build
