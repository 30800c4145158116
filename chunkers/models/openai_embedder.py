"""Embeddings of an OpenAI-compatible server.

An answer is trusted only as far as it was checked: as many vectors as inputs, each index once, the length expected, every number
finite. A vector goes where its `index` says. Anything else fails the whole request, so that no vector ends up with another's text.

A call is packed into requests, which are sent side by side. One that the server finds too large is halved, and what it takes is kept in
mind. Vectors are asked for in base64, a quarter of the bytes; a server that does not know it is asked for numbers from then on.
"""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chunkers import encoding
from chunkers.errors import ModelError, SettingError
from chunkers.models.base import Vectors
from chunkers.models.endpoint import Endpoint
from chunkers.models.health import HARMLESS, Health
from chunkers.models.openai_client import Manners, OpenAIClient, TooLargeError, UnknownFieldError
from chunkers.models.requests import Limits, known_model, pack, spread
from chunkers.models.texts import checked
from chunkers.models.usage import Usage

# Told the rows of a call that one request was for, their vectors, and what it used.
Keep = Callable[[range, Vectors, Usage], None]


class OpenAIEmbedder:
    """Embeds through `/embeddings`. Safe to use from several threads.

    Args:
        model: the server's name for it.
        api_key: the key; None for a server that wants none.
        base_url: address up to and with `/v1`; None is OpenAI's own.
        dimensions: shortened vectors, for models that offer them; sent only where the model gives others by itself.
        limits: what one request may hold, in cl100k_base tokens; None for what is known of the model.
        manners, sleep, cancelled: as `OpenAIClient`.

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
        limits: Limits | None = None,
        manners: Manners | None = None,
        sleep: Callable[[float], None] | None = None,
        cancelled: threading.Event | None = None,
    ) -> None:
        known = known_model(model)
        if dimensions is not None:
            _check_dimensions(dimensions, known.dimensions, known.shortens, model)
        endpoint = Endpoint(api_key, base_url)
        self._client = OpenAIClient(model, endpoint, manners=manners, sleep=sleep, cancelled=cancelled)
        self._asked = dimensions
        self._own = known.dimensions
        self._probing = threading.Lock()
        self._health = Health(lambda: self._request([HARMLESS], 1, threading.Event(), self._extra()))
        self._limits = _within_a_minute(limits or known.limits, self._client.manners.tokens_per_minute)
        self._encoding = "base64"
        # The least that was too much for the server, and the most that it took since then.
        self._refused, self._taken = 0, 0

    @property
    def name(self) -> str:
        return self._client.model

    @property
    def dimensions(self) -> int:
        """Length of a vector. For a model that is not known here, one short text is embedded to find out, once.

        Raises:
            ModelError: the server gave no vector.
        """
        return self._asked or self._own_dimensions()

    def _own_dimensions(self) -> int:
        """Length of the vectors that the model gives by itself."""
        with self._probing:
            if self._own is None:
                self._client.side_by_side([self._find_dimensions])
            assert self._own is not None
            return self._own

    def _find_dimensions(self, stop: threading.Event) -> None:
        self._own = self._request([HARMLESS], 1, stop, {})[0].shape[1]

    @property
    def max_input_tokens(self) -> int:
        return self._limits.max_input_tokens

    def count_tokens(self, text: str) -> int:
        """cl100k_base tokens of `text`."""
        return encoding.count_tokens(text)

    def request_count(self, token_counts: Sequence[int]) -> int:
        """How many requests `embed` would send for texts of so many tokens each.

        Raises:
            InputTooLongError: a text has more tokens than the model takes.
        """
        return len(self._packed(token_counts))

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (len(texts), dimensions), float32, unit length, in the order asked.

        Raises:
            ValueError: a text is blank.
            InputTooLongError: a text has more tokens than the model takes; nothing was sent.
            ModelError: the server failed, or answered with other vectors than were asked for.
        """
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)

        def keep(rows: range, found: Vectors, usage: Usage) -> None:
            vectors[rows.start : rows.stop] = found

        self.embed_parts(texts, keep)
        return vectors

    def embed_parts(self, texts: Sequence[str], keep: Keep) -> None:
        """As `embed`, but each request's vectors are handed on as soon as they are there, also when another request fails.

        Args:
            texts: to be embedded.
            keep: told the rows, their vectors and what the request used, by the thread that sent it.

        Raises:
            As `embed`.
        """
        ready = checked(texts)
        if not ready:
            return
        counts = [self.count_tokens(text) for text in ready]
        packed = self._packed(counts)
        self._client.side_by_side([partial(self._send, ready, counts, keep, rows) for rows in packed])

    def _packed(self, counts: Sequence[int]) -> list[range]:
        limits = spread(len(counts), self._client.manners.parallel, self._limits)
        if self._refused:
            most = max(self._taken, self._refused // 2, 1)
            limits = replace(limits, max_inputs=min(limits.max_inputs, most))
        return pack(counts, limits)

    def _send(
        self, texts: Sequence[str], counts: Sequence[int], keep: Keep, rows: range, stop: threading.Event
    ) -> None:
        """A request for `rows`; in halves, if it is too large."""
        try:
            extra = self._extra()
            found, usage = self._request([texts[row] for row in rows], sum(counts[row] for row in rows), stop, extra)
        except TooLargeError:
            if len(rows) == 1:
                raise
            self._refused = min(self._refused or len(rows), len(rows))
            half = rows.start + len(rows) // 2
            self._send(texts, counts, keep, range(rows.start, half), stop)
            self._send(texts, counts, keep, range(half, rows.stop), stop)
            return
        except ModelError as failure:
            raise (failure if stop.is_set() else self._health.judged(failure)) from None
        self._health.answered()
        if self._refused:
            self._taken = max(self._taken, len(rows))
        dimensions = self.dimensions
        if found.shape[1] != dimensions:
            problem = f"answered with {found.shape[1]} dimensions instead of {dimensions}"
            raise self._client.error(problem, fatal=True)
        keep(rows, found.astype(np.float32), usage)

    def _extra(self) -> dict[str, Any]:
        """Fields of a request beside the texts: the dimensions, where the model gives others by itself."""
        shorter = self._asked is not None and self._asked != self._own_dimensions()
        return {"dimensions": self._asked} if shorter else {}

    def _request(
        self, texts: list[str], tokens: int, stop: threading.Event, extra: Mapping[str, Any]
    ) -> tuple[NDArray[np.float64], Usage]:
        """One request: unit vectors of shape (len(texts), whatever the server gives), and what it used."""
        encoding_format = self._encoding

        body = {"model": self.name, "input": texts, "encoding_format": encoding_format, **extra}
        try:
            answer, usage = self._client.ask("/embeddings", body, Usage(1, tokens), stop=stop)
        except UnknownFieldError as error:
            if error.field != "encoding_format" or encoding_format == "float":
                raise
            self._encoding = "float"
            return self._request(texts, tokens, stop, extra)
        try:
            return unit_vectors(answer, len(texts)), usage
        except ValueError as error:
            raise self._client.error(f"gave no usable vectors: {error}") from error


def _within_a_minute(limits: Limits, tokens_per_minute: int | None) -> Limits:
    """`limits` with requests that fit into a minute's tokens, as far as one input does: no wait makes room for a larger one."""
    if tokens_per_minute is None:
        return limits
    most = max(tokens_per_minute, limits.max_input_tokens)
    return replace(limits, max_request_tokens=min(limits.max_request_tokens, most))


def _check_dimensions(dimensions: int, most: int | None, shortens: bool, model: str) -> None:
    if dimensions < 1:
        raise SettingError("embedding_dimensions", dimensions, "at least 1")
    if most is not None and dimensions > most:
        raise SettingError("embedding_dimensions", dimensions, f"at most {most}, which is what {model} gives")
    if most is not None and dimensions != most and not shortens:
        raise SettingError(
            "embedding_dimensions", dimensions, f"{most} or left out, since {model} gives no shorter vectors"
        )


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
        vectors = np.array([_numbers(by_index[index]) for index in range(count)], dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError("vectors of different lengths, or no numbers in them") from None
    if vectors.ndim != 2 or not vectors.shape[1]:
        raise ValueError("an embedding is no list of numbers")
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (np.isfinite(vectors).all() and np.isfinite(lengths).all() and (lengths > 0).all()):
        raise ValueError("a vector holds a number that is not finite, or zeros only")
    return vectors / lengths


def _numbers(embedding: Any) -> Any:
    """A vector as numbers: base64 of float32 in little-endian order, or numbers as they are."""
    if not isinstance(embedding, str):
        return embedding
    try:
        return np.frombuffer(base64.b64decode(embedding, validate=True), dtype="<f4")
    except binascii.Error as error:
        raise ValueError(f"an embedding is no base64: {error}") from None
