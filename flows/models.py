"""Which models a strategy works with: what its collection is made with decides, and settings decide for a collection to be made.

A role set to `auto` takes the endpoint's model where an endpoint is configured and the built-in one elsewhere, until there is a
collection. From then on its metadata names the models, and a missing key is an error, never another model: vectors of two
models cannot be compared.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from chunkers import Chunker, SettingError, build_chunker
from chunkers.models import (
    Asked,
    CachedContextWriter,
    CachedEmbedder,
    ContextWriter,
    Embedder,
    Endpoint,
    Meter,
    ModelCache,
    Price,
    RehearsedContextWriter,
    RehearsedEmbedder,
    open_context_writer,
    open_embedder,
)
from chunkers.parameters import DOCUMENT
from flows.settings import Settings
from stores import Recipe

AUTO = "auto"
USES_CONTEXT = frozenset({"contextual_retrieval"})
# Strategies whose boundaries hang on vectors.
USES_VECTORS = frozenset({"semantic", "semantic_parent_child"})


@dataclass(frozen=True, slots=True)
class Tools:
    """What one strategy works with; `recipe` is the same in words, and `price_of` what a model costs."""

    chunker: Chunker
    embedder: CachedEmbedder | RehearsedEmbedder
    context_writer: CachedContextWriter | RehearsedContextWriter | None
    recipe: Recipe
    price_of: Callable[[str], Price | None]


@dataclass(frozen=True, slots=True)
class Shared:
    """What the strategies of a run share.

    Attributes:
        cache: of what models answered.
        cancelled: ends the run.
        rehearsed: what a dry run would have asked; None for a real run.
        meter: of what the run spends.
        embedders: embedding models by name and dimensions.
    """

    cache: ModelCache
    cancelled: threading.Event
    rehearsed: Asked | None = None
    meter: Meter = field(default_factory=Meter)
    embedders: dict[tuple[str, int | None], Embedder] = field(default_factory=dict)

    def embedder(self, inner: Embedder) -> CachedEmbedder | RehearsedEmbedder:
        """`inner` behind the cache, or what stands in for that in a dry run."""
        if self.rehearsed is None:
            return CachedEmbedder(inner, self.cache)
        return RehearsedEmbedder(inner, self.cache, self.rehearsed)

    def context_writer(self, inner: ContextWriter) -> CachedContextWriter | RehearsedContextWriter:
        """As `embedder`."""
        if self.rehearsed is None:
            return CachedContextWriter(inner, self.cache)
        return RehearsedContextWriter(inner, self.cache, self.rehearsed)


def endpoint_of(settings: Settings) -> Endpoint | None:
    """The OpenAI-compatible endpoint that settings name, or None."""
    if settings.openai_api_key is None and settings.openai_base_url is None:
        return None
    key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else None
    return Endpoint(api_key=key, base_url=settings.openai_base_url)


def open_tools(strategy: str, settings: Settings, stored: Recipe | None, shared: Shared) -> Tools:
    """Models, chunker and recipe of one strategy.

    Args:
        strategy: one of `chunkers.STRATEGIES`.
        settings: parameters and model names.
        stored: the recipe of the live collection, if there is one and it is to be kept.
        shared: what the strategies of a run share.

    Raises:
        SettingError: a parameter or a model cannot be used.
        ModelError: an endpoint had to be asked for a model's dimensions, and did not answer.
    """
    endpoint = endpoint_of(settings)
    embedding_model, llm_model = settings.embedding_model, settings.llm_model
    if stored and embedding_model == AUTO:
        embedding_model = stored.embedding_model
    if stored and llm_model == AUTO and stored.context_model:
        llm_model = stored.context_model
    options = settings.model_options(shared.cancelled, shared.meter)
    asked = settings.embedding_dimensions
    if stored and asked is None and embedding_model == stored.embedding_model:
        options = replace(options, dimensions=stored.dimensions)
    known = (embedding_model, options.dimensions)
    if known not in shared.embedders:
        shared.embedders[known] = open_embedder(embedding_model, endpoint, options=options)
    embedder = shared.embedder(shared.embedders[known])
    if asked is not None and embedder.dimensions != asked:
        raise SettingError("embedding_dimensions", asked, f"{embedder.dimensions}, which is what {embedder.name} gives")
    writer = None
    if strategy in USES_CONTEXT:
        writer = shared.context_writer(open_context_writer(llm_model, endpoint, options))
    longest = embedder.max_input_tokens
    if longest is not None and settings.chunk_size > longest:
        raise SettingError(
            "chunk_size", settings.chunk_size, f"at most {longest}, the longest input of {embedder.name}"
        )
    chunker = build_chunker(
        strategy, embedder=embedder, context_writer=writer, **settings.strategy_parameters(strategy)
    )
    recipe = Recipe(
        strategy=strategy,
        parameters=chunker.parameters,
        embedding_model=embedder.name,
        dimensions=embedder.dimensions,
        context_model=writer.name if writer else None,
        context_prompt=_prompt_version(writer, settings) if writer else None,
    )
    return Tools(chunker, embedder, writer, recipe, settings.price_of)


def _prompt_version(writer: ContextWriter, settings: Settings) -> str:
    whole = writer.document_prompt_version if settings.context_scope == DOCUMENT else None
    return whole or writer.prompt_version
