"""A model by the name that a setting or a collection's metadata holds.

`auto` takes the endpoint's model where there is an endpoint and the built-in one elsewhere. Any other name means that model and no
other: without an endpoint it is an error, since vectors of two models cannot be compared.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chunkers.errors import SettingError
from chunkers.models.base import ContextWriter, Embedder
from chunkers.models.endpoint import Endpoint, endpoint_from_environment
from chunkers.models.fastembed_embedder import PREFIX, FastEmbedEmbedder

AUTO = "auto"
BUILTIN_EMBEDDER = "wordllama"
BUILTIN_WRITER = "outline"
ENDPOINT_EMBEDDER = "text-embedding-3-small"
ENDPOINT_WRITER = "gpt-4o-mini"

__all__ = ["Endpoint", "ModelOptions", "endpoint_from_environment", "open_context_writer", "open_embedder"]


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """How models are asked. Those that are built in take none of it.

    Attributes:
        embedding, context: fields of `openai_client.Manners`, for each role.
        dimensions: of shortened vectors, for models that offer them.
        limits: fields of `requests.Limits` that differ from what is known of the embedding model.
        cancelled: once it is set, a model is asked nothing more and waits for an endpoint end.
        folder: with the files of FastEmbed's model; None for what QUARRY_MODEL_FOLDER names, if that is set.
    """

    embedding: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    dimensions: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    cancelled: threading.Event | None = None
    folder: Path | None = None


def open_embedder(name: str, endpoint: Endpoint | None = None, options: ModelOptions | None = None) -> Embedder:
    """The embedding model called `name`: `auto`, `wordllama`, `fastembed:` and one of FastEmbed's, or a model of the endpoint.

    Nothing is sent or loaded yet.

    Raises:
        SettingError: the model needs an endpoint or a package and there is none, the name is blank, or an option cannot be used.
    """
    options = options or ModelOptions()
    if name.startswith(PREFIX):
        return FastEmbedEmbedder(name, options.folder or _folder_from_environment(), cancelled=options.cancelled)
    name = _settle("embedding_model", name, BUILTIN_EMBEDDER, ENDPOINT_EMBEDDER, endpoint)
    if name == BUILTIN_EMBEDDER or endpoint is None:
        from chunkers.models.wordllama_embedder import WordllamaEmbedder

        return WordllamaEmbedder()
    from chunkers.models.openai_client import Manners
    from chunkers.models.openai_embedder import OpenAIEmbedder
    from chunkers.models.requests import known_model

    return OpenAIEmbedder(
        name,
        api_key=endpoint.api_key,
        base_url=endpoint.base_url,
        dimensions=options.dimensions,
        limits=replace(known_model(name).limits, **options.limits),
        manners=Manners(**options.embedding),
        cancelled=options.cancelled,
    )


def open_context_writer(
    name: str, endpoint: Endpoint | None = None, options: ModelOptions | None = None
) -> ContextWriter:
    """The context model called `name`: `auto`, `outline` or a model of the endpoint. Nothing is sent yet.

    Raises:
        SettingError: the model needs an endpoint and there is none, the name is blank, or an option cannot be used.
    """
    name = _settle("llm_model", name, BUILTIN_WRITER, ENDPOINT_WRITER, endpoint)
    if name == BUILTIN_WRITER or endpoint is None:
        from chunkers.models.outline import OutlineWriter

        return OutlineWriter()
    from chunkers.models.openai_client import Manners
    from chunkers.models.openai_writer import OpenAIContextWriter

    options = options or ModelOptions()
    return OpenAIContextWriter(
        name,
        api_key=endpoint.api_key,
        base_url=endpoint.base_url,
        manners=Manners(**options.context),
        cancelled=options.cancelled,
    )


def _folder_from_environment() -> Path | None:
    """The folder that QUARRY_MODEL_FOLDER names."""
    folder = os.environ.get("QUARRY_MODEL_FOLDER", "").strip()
    return Path(folder).expanduser() if folder else None


def _settle(setting: str, name: str, builtin: str, remote: str, endpoint: Endpoint | None) -> str:
    """`name` with `auto` resolved."""
    if name == AUTO:
        return remote if endpoint else builtin
    if not name.strip():
        raise SettingError(setting, name, f"{AUTO}, {builtin} or a model's name")
    if name != builtin and endpoint is None:
        raise SettingError(setting, name, f"{builtin} or {AUTO} unless OPENAI_API_KEY or OPENAI_BASE_URL is set")
    return name
