"""How many texts go into one embedding request: a pure packer, and what is known of models that are asked over a network.

A server refuses a request for three reasons: too many inputs, one input with too many tokens, too many tokens in all. Requests are
filled in order, so a request is a range of the inputs and an answer's place is known from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from chunkers.errors import ModelError, SettingError


@dataclass(frozen=True, slots=True)
class Limits:
    """What one request may hold. The defaults are OpenAI's: 2048 inputs, 8,191 tokens an input, 300,000 a request less a margin.

    Raises:
        SettingError: a limit is below 1, or an input that is allowed would not fit into a request.
    """

    max_inputs: int = 2048
    max_input_tokens: int = 8191
    max_request_tokens: int = 280_000

    def __post_init__(self) -> None:
        for name in ("max_inputs", "max_input_tokens", "max_request_tokens"):
            if getattr(self, name) < 1:
                raise SettingError(name, getattr(self, name), "at least 1")
        if self.max_request_tokens < self.max_input_tokens:
            legal = f"at least max_input_tokens ({self.max_input_tokens})"
            raise SettingError("max_request_tokens", self.max_request_tokens, legal)


OPENAI_LIMITS = Limits()

# Inputs that a request has at least before a call is spread over several requests at a time.
SPREAD_INPUTS = 64


@dataclass(frozen=True, slots=True)
class KnownModel:
    """An embedding model of an endpoint.

    Attributes:
        dimensions: of its vectors; None if they have to be asked for.
        shortens: it gives shorter vectors when asked to.
        limits: of a request.
    """

    dimensions: int | None = None
    shortens: bool = True
    limits: Limits = field(default=OPENAI_LIMITS)


# Any other model is asked for its dimensions, and its requests are held to OpenAI's limits.
KNOWN_MODELS = {
    "text-embedding-3-small": KnownModel(1536),
    "text-embedding-3-large": KnownModel(3072),
    "text-embedding-ada-002": KnownModel(1536, shortens=False),
}


def known_model(name: str) -> KnownModel:
    """What is known of a model by its name."""
    return KNOWN_MODELS.get(name, KnownModel())


class InputTooLongError(ModelError):
    """An input with more tokens than the model takes. It is never cut: a vector of half a text would be found for the whole.

    Attributes:
        index: position among the inputs.
        tokens: how many it has.
        cap: how many are allowed.
    """

    def __init__(self, index: int, tokens: int, cap: int) -> None:
        super().__init__(f"an input has {tokens:,} tokens and the model takes at most {cap:,}: lower chunk_size")
        self.index = index
        self.tokens = tokens
        self.cap = cap


def spread(inputs: int, parallel: int, limits: Limits) -> Limits:
    """`limits` with fewer inputs a request, where so many inputs would otherwise leave some of `parallel` requests unsent."""
    share = max(SPREAD_INPUTS, -(-inputs // parallel))
    return replace(limits, max_inputs=min(limits.max_inputs, share))


def pack(token_counts: Sequence[int], limits: Limits = OPENAI_LIMITS) -> list[range]:
    """The ranges of inputs that go into one request each: in order, none empty, together all inputs.

    Raises:
        InputTooLongError: an input is over `limits.max_input_tokens`.
    """
    packed: list[range] = []
    start = total = 0
    for index, tokens in enumerate(token_counts):
        if tokens > limits.max_input_tokens:
            raise InputTooLongError(index, tokens, limits.max_input_tokens)
        if index - start == limits.max_inputs or (index > start and total + tokens > limits.max_request_tokens):
            packed.append(range(start, index))
            start, total = index, 0
        total += tokens
    if token_counts:
        packed.append(range(start, len(token_counts)))
    return packed
