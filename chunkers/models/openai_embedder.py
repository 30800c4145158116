"""Embeddings of an OpenAI-compatible server.

An answer is trusted only as far as it was checked: as many vectors as inputs, each index once, the length expected, every number
finite. A vector goes where its `index` says. Anything else fails the whole request, so that no vector ends up with another's text.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import openai
from numpy.typing import NDArray

from chunkers import encoding
from chunkers.errors import SettingError
from chunkers.models.base import Vectors
from chunkers.models.endpoint import Endpoint
from chunkers.models.openai_client import ATTEMPTS, TIMEOUT, OpenAIClient
from chunkers.models.requests import OPENAI_LIMITS, Limits, pack
from chunkers.models.texts import checked

KNOWN_DIMENSIONS = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}


class OpenAIEmbedder:
    """Embeds through `/embeddings`. Safe to use from several threads.

    Args:
        model: the server's name for it.
        api_key: the key; None for a server that wants none.
        base_url: address up to and with `/v1`; None is OpenAI's own.
        dimensions: shortened vectors, for models that offer them; sent only if given.
        limits: what one request may hold, in cl100k_base tokens.
        timeout, attempts, sleep, cancelled: as `OpenAIClient`.

    Raises:
        SettingError: the address, the key or `dimensions` cannot be used.
    """

    semantic_threshold = 0.5
    paragraph_threshold = 0.5

    def __init__(
        self,
        model: str,
        *,
        api_key: str | None = None,
        base_url: str | None = None,
        dimensions: int | None = None,
        limits: Limits = OPENAI_LIMITS,
        timeout: float = TIMEOUT,
        attempts: int = ATTEMPTS,
        sleep: Callable[[float], None] = time.sleep,
        cancelled: threading.Event | None = None,
    ) -> None:
        if dimensions is not None and dimensions < 1:
            raise SettingError("dimensions", dimensions, "at least 1")
        endpoint = Endpoint(api_key, base_url)
        self._client = OpenAIClient(
            model, endpoint, timeout=timeout, attempts=attempts, sleep=sleep, cancelled=cancelled
        )
        self._asked_dimensions = dimensions
        self._dimensions = dimensions or KNOWN_DIMENSIONS.get(model)
        self._probing = threading.Lock()
        self._limits = limits

    @property
    def name(self) -> str:
        return self._client.model

    @property
    def dimensions(self) -> int:
        """Length of a vector. For a model that is not known here, one short text is embedded to find out, once.

        Raises:
            ModelError: the server gave no vector.
        """
        with self._probing:
            if self._dimensions is None:
                self._dimensions = self._request(["dimensions"]).shape[1]
            return self._dimensions

    @property
    def max_input_tokens(self) -> int:
        return self._limits.max_input_tokens

    def count_tokens(self, text: str) -> int:
        """cl100k_base tokens of `text`."""
        return encoding.count_tokens(text)

    def request_count(self, texts: Sequence[str]) -> int:
        """How many requests `embed` would send for `texts`.

        Raises:
            InputTooLongError: a text has more tokens than the model takes.
        """
        return len(pack([self.count_tokens(text) for text in texts], self._limits))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (len(texts), dimensions), float32, unit length, in the order asked.

        Raises:
            ValueError: a text is blank.
            InputTooLongError: a text has more tokens than the model takes; nothing was sent.
            ModelError: the server failed, or answered with other vectors than were asked for.
        """
        ready = checked(texts)
        requests = pack([self.count_tokens(text) for text in ready], self._limits)
        vectors = np.empty((len(ready), self.dimensions), dtype=np.float32)
        for request in requests:
            found = self._request([ready[row] for row in request])
            if found.shape[1] != self.dimensions:
                problem = f"answered with {found.shape[1]} dimensions instead of {self.dimensions}"
                raise self._client.error(problem, fatal=True)
            vectors[request.start : request.stop] = found
        return vectors

    def _request(self, texts: list[str]) -> NDArray[np.float64]:
        """One request: unit vectors of shape (len(texts), whatever the server gives)."""
        # "float" is said because the library's default, base64, is not known to every compatible server.
        extra: Any = {} if self._asked_dimensions is None else {"dimensions": self._asked_dimensions}

        def send(client: openai.OpenAI) -> bytes:
            answer = client.embeddings.with_raw_response.create(
                model=self.name, input=texts, encoding_format="float", **extra
            )
            return answer.content

        # Read here and not by the library, which takes 50 times as long to build its objects and checks nothing.
        try:
            return unit_vectors(json.loads(self._client.ask(send)), len(texts))
        except ValueError as error:
            raise self._client.error(f"gave no usable vectors: {error}") from error


def unit_vectors(answer: Any, count: int) -> NDArray[np.float64]:
    """The `count` vectors of a decoded `/embeddings` answer, in the order of the inputs, brought to unit length.

    Raises:
        ValueError: a vector is missing, doubled, ragged, not finite or zero, or this is no such answer.
    """
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, list) or not all(isinstance(entry, dict) for entry in data):
        raise ValueError("the answer has no list of embeddings")
    if len(data) != count:
        raise ValueError(f"{len(data)} vectors for {count} texts")
    by_index = {entry.get("index"): entry.get("embedding") for entry in data if type(entry.get("index")) is int}
    if by_index.keys() != set(range(count)):
        raise ValueError(f"the indexes are not 0 to {count - 1}, each once")
    try:
        vectors = np.array([by_index[index] for index in range(count)], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("vectors of different lengths, or no numbers in them") from None
    if vectors.ndim != 2 or not vectors.shape[1]:
        raise ValueError("an embedding is no list of numbers")
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (np.isfinite(vectors).all() and np.isfinite(lengths).all() and (lengths > 0).all()):
        raise ValueError("a vector holds a number that is not finite, or zeros only")
    return vectors / lengths
