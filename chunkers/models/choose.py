"""A model by the name that a setting or a collection's metadata holds.

`auto` takes the endpoint's model where there is an endpoint and the built-in one elsewhere. Any other name means that model and no
other: without an endpoint it is an error, since vectors of two models cannot be compared.
"""

from __future__ import annotations

import threading

from chunkers.errors import SettingError
from chunkers.models.base import ContextWriter, Embedder
from chunkers.models.endpoint import Endpoint, endpoint_from_environment

AUTO = "auto"
BUILTIN_EMBEDDER = "wordllama"
BUILTIN_WRITER = "outline"
ENDPOINT_EMBEDDER = "text-embedding-3-small"
ENDPOINT_WRITER = "gpt-4o-mini"

__all__ = ["Endpoint", "endpoint_from_environment", "open_context_writer", "open_embedder"]


def open_embedder(name: str, endpoint: Endpoint | None = None, *, cancelled: threading.Event | None = None) -> Embedder:
    """The embedding model called `name`: `auto`, `wordllama` or a model of the endpoint. Nothing is sent or loaded yet.

    Once `cancelled` is set, an endpoint is asked nothing more and waits for it end.

    Raises:
        SettingError: the model needs an endpoint and there is none, or the name is blank.
    """
    name = _settle("embedding_model", name, BUILTIN_EMBEDDER, ENDPOINT_EMBEDDER, endpoint)
    if name == BUILTIN_EMBEDDER or endpoint is None:
        from chunkers.models.wordllama_embedder import WordllamaEmbedder

        return WordllamaEmbedder()
    from chunkers.models.openai_embedder import OpenAIEmbedder

    return OpenAIEmbedder(name, api_key=endpoint.api_key, base_url=endpoint.base_url, cancelled=cancelled)


def open_context_writer(
    name: str, endpoint: Endpoint | None = None, *, cancelled: threading.Event | None = None
) -> ContextWriter:
    """The context model called `name`: `auto`, `outline` or a model of the endpoint. Nothing is sent yet.

    Once `cancelled` is set, an endpoint is asked nothing more and waits for it end.

    Raises:
        SettingError: the model needs an endpoint and there is none, or the name is blank.
    """
    name = _settle("llm_model", name, BUILTIN_WRITER, ENDPOINT_WRITER, endpoint)
    if name == BUILTIN_WRITER or endpoint is None:
        from chunkers.models.outline import OutlineWriter

        return OutlineWriter()
    from chunkers.models.openai_writer import OpenAIContextWriter

    return OpenAIContextWriter(name, api_key=endpoint.api_key, base_url=endpoint.base_url, cancelled=cancelled)


def _settle(setting: str, name: str, builtin: str, remote: str, endpoint: Endpoint | None) -> str:
    """`name` with `auto` resolved."""
    if name == AUTO:
        return remote if endpoint else builtin
    if not name.strip():
        raise SettingError(setting, name, f"{AUTO}, {builtin} or a model's name")
    if name != builtin and endpoint is None:
        raise SettingError(setting, name, f"{builtin} or {AUTO} unless OPENAI_API_KEY or OPENAI_BASE_URL is set")
    return name
