"""The parameters that both flows offer in Prefect's form: flat, typed, with a description each and choices where there are choices.

Prefect reads a flow's signature and the `Args:` of its docstring. The settings of a run are put into both from `Settings`, so that a
setting's type, its bounds and its description are written down once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Literal, Optional, TypeVar

from pydantic import Field

from flows.settings import Settings

StrategyName = Literal[
    "fixed_size", "recursive", "sentence", "semantic", "contextual_retrieval", "semantic_parent_child"
]
Count = Annotated[int, Field(ge=0)]
Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]

# What decides chunks and vectors, and who does the work. Places and keys are the environment's, where the flow runs.
OFFERED = (
    "chunk_size",
    "chunk_overlap",
    "recursive_chunk_chars",
    "sentence_overlap",
    "semantic_threshold",
    "semantic_threshold_mode",
    "semantic_min_chunk_size",
    "context_window_chars",
    "context_scope",
    "context_max_document_tokens",
    "parent_max_tokens",
    "embedding_model",
    "llm_model",
    "task_runner",
)

F = TypeVar("F", bound=Callable[..., Any])


def offering_settings(function: F) -> F:
    """`function`, which takes settings as keywords, with a parameter in its signature and docstring for each of `OFFERED`.

    An empty one, which is the default, is what the environment of the flow says.
    """
    signature = inspect.signature(function)
    own = [one for one in signature.parameters.values() if one.kind is not inspect.Parameter.VAR_KEYWORD]
    told = []
    for name in OFFERED:
        field = Settings.model_fields[name]
        # The bounds are metadata of the field; the type alone would let anything through.
        bounded = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
        annotation = Optional[bounded]  # type: ignore[valid-type]  # noqa: UP045  # known at run time only
        own.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
        told.append(f"        {name}: {field.title}: {field.description}. Empty for the setting where the flow runs.")
    function.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
    function.__doc__ = f"{(function.__doc__ or '').rstrip()}\n" + "\n".join(told) + "\n"
    return function


def overrides(settings: dict[str, Any]) -> dict[str, str]:
    """The settings that were given, as `Settings.load` takes them."""
    return {name: str(value) for name, value in settings.items() if value is not None}
