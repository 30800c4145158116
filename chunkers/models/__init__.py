"""What talks to a model: the two roles, the OpenAI-compatible and the built-in models for them, and the cache.

`open_embedder` and `open_context_writer` give a model by the name that a setting holds. Everything but the roles is
imported when it is first asked for: `import chunkers.models` loads no client, no weights and no database.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from chunkers.models.base import Context, ContextRequest, ContextWriter, Embedder, Vectors

if TYPE_CHECKING:
    from chunkers.models.cache import CachedContextWriter, CachedEmbedder, ModelCache
    from chunkers.models.choose import ModelOptions, open_context_writer, open_embedder
    from chunkers.models.endpoint import Endpoint, endpoint_from_environment
    from chunkers.models.rehearsal import Asked, RehearsedContextWriter, RehearsedEmbedder
    from chunkers.models.usage import Meter, Price, Usage

_HOMES = {
    "Asked": "rehearsal",
    "CachedContextWriter": "cache",
    "CachedEmbedder": "cache",
    "Endpoint": "endpoint",
    "Meter": "usage",
    "ModelCache": "cache",
    "ModelOptions": "choose",
    "Price": "usage",
    "RehearsedContextWriter": "rehearsal",
    "RehearsedEmbedder": "rehearsal",
    "Usage": "usage",
    "endpoint_from_environment": "endpoint",
    "open_context_writer": "choose",
    "open_embedder": "choose",
}

__all__ = [
    "Asked",
    "CachedContextWriter",
    "CachedEmbedder",
    "Context",
    "ContextRequest",
    "ContextWriter",
    "Embedder",
    "Endpoint",
    "Meter",
    "ModelCache",
    "ModelOptions",
    "Price",
    "RehearsedContextWriter",
    "RehearsedEmbedder",
    "Usage",
    "Vectors",
    "endpoint_from_environment",
    "open_context_writer",
    "open_embedder",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
