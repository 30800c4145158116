"""The two roles that a model can play, as protocols: `Embedder` and `ContextWriter`.

Strategies and stores know only these. An implementation is built once per run, is safe to call from several threads, and says
what a fingerprint must hold of it (`name`, `dimensions`, `prompt_version`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from chunkers.models.usage import Usage

Vectors = NDArray[np.float32]


@runtime_checkable
class Embedder(Protocol):
    """Texts in, unit vectors out.

    Attributes:
        name: what a setting calls it, such as `text-embedding-3-small` or `wordllama`.
        dimensions: length of a vector.
        semantic_threshold: cosine under which neighbouring sentences are about different things, for this model.
        paragraph_threshold: the same for neighbouring paragraphs.
        max_input_tokens: longest input in the model's own tokens; None without a limit.
    """

    @property
    def name(self) -> str: ...
    @property
    def dimensions(self) -> int: ...
    @property
    def semantic_threshold(self) -> float: ...
    @property
    def paragraph_threshold(self) -> float: ...
    @property
    def max_input_tokens(self) -> int | None: ...

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` as this model counts them."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (len(texts), dimensions), float32, unit length, in the order asked.

        Raises:
            ValueError: a text is blank.
            ModelError: the model gave no vector, or not the ones asked for, for any of the texts.
        """
        ...


@runtime_checkable
class PartedEmbedder(Protocol):
    """An embedder of an endpoint: what each request gave is handed on as it comes."""

    def embed_parts(self, texts: Sequence[str], keep: Callable[[range, Vectors, Usage], None]) -> None:
        """As `Embedder.embed`; `keep` is told the rows of each request, their vectors and what it used."""
        ...

    def request_count(self, token_counts: Sequence[int]) -> int:
        """How many requests that would take, for texts of so many tokens each."""
        ...


@dataclass(frozen=True, slots=True)
class ContextRequest:
    """One chunk that wants a context.

    Attributes:
        text: the chunk's.
        preceding, following: up to a window of characters before and after it.
        title, headings: where it stands.
        document: the whole text that it is from, where that is to be shown instead of the window.
    """

    text: str
    preceding: str
    following: str
    title: str
    headings: tuple[str, ...]
    document: str | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """A context prefix and who wrote it (`outline`, or a model's name).

    Attributes:
        text: the prefix.
        source: who wrote it.
        fallback: the model should have written it, and the outline did.
        too_long: there is none, since the model takes no prompt with so long a document.
    """

    text: str
    source: str
    fallback: bool = False
    too_long: bool = False


@runtime_checkable
class ContextWriter(Protocol):
    """Writes the short prefix that tells where a chunk stands.

    Attributes:
        name: `outline`, or the model's name such as `gpt-4o-mini`.
        prompt_version: changes whenever the same request could give another kind of answer.
        document_prompt_version: the same for requests with a whole document; None where the writer makes no use of one.
    """

    @property
    def name(self) -> str: ...
    @property
    def prompt_version(self) -> str: ...
    @property
    def document_prompt_version(self) -> str | None: ...

    def write(self, requests: Sequence[ContextRequest]) -> list[Context]:
        """One context per request, in order.

        Raises:
            ModelError: the model could not be asked at all. A single bad answer is a fallback, not an error, and neither is a document
                that is too long for it.
        """
        ...


@runtime_checkable
class PartedWriter(Protocol):
    """A context writer of an endpoint: what each request gave is handed on as it comes."""

    def write_parts(self, requests: Sequence[ContextRequest], keep: Callable[[int, Context, Usage], None]) -> None:
        """As `ContextWriter.write`; `keep` is told the place of each request, its context and what it used."""
        ...

    def prompt_tokens(self, request: ContextRequest) -> int:
        """Tokens of the whole prompt for a request."""
        ...
