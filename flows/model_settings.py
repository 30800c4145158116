"""The settings of models: what an endpoint is asked at once, how fast, how patiently, and what that costs; where a local model lies.

The built-in models take none of them. Prices are US dollars for a million tokens; those below are OpenAI's list prices as they were at
`PRICED`. A model that has none here costs an unknown amount, which is said, until `prices` tells.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, NoDecode

from chunkers.models import Meter, ModelOptions, Price

PRICED = "2026-05-07"
PRICES = {
    "text-embedding-3-small": Price(0.02),
    "text-embedding-3-large": Price(0.13),
    "text-embedding-ada-002": Price(0.10),
    "gpt-4o-mini": Price(0.15, 0.60, cached=0.075),
    "gpt-4o": Price(2.50, 10.00, cached=1.25),
    "gpt-4.1": Price(2.00, 8.00, cached=0.50),
    "gpt-4.1-mini": Price(0.40, 1.60, cached=0.10),
    "gpt-4.1-nano": Price(0.10, 0.40, cached=0.025),
}
FREE = ("wordllama", "outline")

_PER_MINUTE = "a whole number, at least 1, or empty for as many as the endpoint takes"
_OF_MODEL = "a whole number, at least 1, or empty for what is known of the model"


class ModelSettings(BaseSettings):
    """What can be set of an endpoint's models. Both roles have a number of their own where limits are a model's."""

    model_folder: Path | None = Field(None, title="Files of FastEmbed's model", description="a folder, or empty")
    embedding_dimensions: int | None = Field(
        None,
        ge=1,
        title="Numbers a vector has",
        description="a whole number, at least 1, or empty for as many as the model gives by itself",
    )
    embedding_max_inputs: int | None = Field(
        None, ge=1, title="Texts an embedding request holds at most", description=_OF_MODEL
    )
    embedding_max_input_tokens: int | None = Field(
        None, ge=1, title="Tokens a text that is embedded has at most", description=_OF_MODEL
    )
    embedding_max_request_tokens: int | None = Field(
        None, ge=1, title="Tokens an embedding request holds at most", description=_OF_MODEL
    )
    embedding_parallel: int = Field(
        8, ge=1, le=256, title="Embedding requests under way at most", description="a whole number, from 1 to 256"
    )
    llm_parallel: int = Field(
        8, ge=1, le=256, title="Context requests under way at most", description="a whole number, from 1 to 256"
    )
    embedding_requests_per_minute: int | None = Field(
        None, ge=1, title="Embedding requests a minute", description=_PER_MINUTE
    )
    embedding_tokens_per_minute: int | None = Field(
        None, ge=1, title="Tokens a minute of embedding requests", description=_PER_MINUTE
    )
    llm_requests_per_minute: int | None = Field(None, ge=1, title="Context requests a minute", description=_PER_MINUTE)
    llm_tokens_per_minute: int | None = Field(
        None, ge=1, title="Tokens a minute of context requests", description=_PER_MINUTE
    )
    request_timeout: float = Field(
        60.0,
        gt=0,
        le=3600,
        title="Seconds that an endpoint may be silent",
        description="a number of seconds, above 0 and at most 3600",
    )
    request_attempts: int = Field(
        5, ge=1, le=100, title="How often a request is sent at most", description="a whole number, from 1 to 100"
    )
    retry_max_wait: float = Field(
        600.0,
        ge=0,
        le=86400,
        title="Seconds that an endpoint may ask to wait; for a longer wait the run stops",
        description="a number of seconds, from 0 to 86400",
    )
    prices: Annotated[dict[str, dict[str, float]], NoDecode] = Field(
        default_factory=dict,
        title="US dollars for a million tokens, by model",
        description='JSON such as {"my-model": {"prompt": 0.1, "answer": 0.4, "cached": 0.05}}, numbers of at least 0',
    )

    @field_validator("prices", mode="before")
    @classmethod
    def _decoded(cls, prices: Any) -> Any:
        return json.loads(prices) if isinstance(prices, str) else prices

    @field_validator("prices", mode="after")
    @classmethod
    def _priced(cls, prices: dict[str, dict[str, float]]) -> dict[str, dict[str, float]]:
        for price in prices.values():
            known = price.keys() <= {"prompt", "answer", "cached"} and "prompt" in price
            if not known or any(not math.isfinite(value) or value < 0 for value in price.values()):
                raise ValueError("no price")
        return prices

    def price_of(self, model: str) -> Price | None:
        """The price of a model; None where it is not known."""
        if model in self.prices:
            return Price(**self.prices[model])
        return Price(0.0) if model in FREE else PRICES.get(model)

    def model_options(self, cancelled: Any = None, meter: Meter | None = None) -> ModelOptions:
        """How models are asked.

        Args:
            cancelled: an event that ends the run.
            meter: of the run's spending.
        """
        shared: dict[str, Any] = {
            "timeout": self.request_timeout,
            "attempts": self.request_attempts,
            "longest_wait": self.retry_max_wait,
        }
        if meter is not None:
            shared["meter"] = meter
        limits = {
            "max_inputs": self.embedding_max_inputs,
            "max_input_tokens": self.embedding_max_input_tokens,
            "max_request_tokens": self.embedding_max_request_tokens,
        }
        return ModelOptions(
            embedding={**shared, **self._rates("embedding")},
            context={**shared, **self._rates("llm")},
            dimensions=self.embedding_dimensions,
            limits={name: value for name, value in limits.items() if value is not None},
            cancelled=cancelled,
            folder=self.model_folder,
        )

    def _rates(self, role: str) -> Mapping[str, int | None]:
        names = ("parallel", "requests_per_minute", "tokens_per_minute")
        return {name: getattr(self, f"{role}_{name}") for name in names}
