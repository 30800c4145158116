"""Models that ask only once: an `Embedder` and a `ContextWriter` in front of another, with the cache file in between.

A vector's key is model, dimensions and text; a context's is model, prompt version and the whole request, with the document where one
is shown. Equal texts of one call are sent once, and so are those of several threads: one asks, the others wait for its answer. Answers are
kept as they come, so a call that fails half way, or a run that is killed, has lost no more than the requests under way.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chunkers.ids import text_hash
from chunkers.models.base import Context, ContextRequest, ContextWriter, Embedder, PartedEmbedder, PartedWriter, Vectors
from chunkers.models.cache_bound import portions
from chunkers.models.cache_file import ModelCache
from chunkers.models.usage import Usage

__all__ = ["CachedContextWriter", "CachedEmbedder", "ModelCache", "context_keys", "vector_key"]

# What is asked of an inner model that gives all its answers at once, before they are kept.
_TEXTS_AT_ONCE = 2048
_CHARACTERS_AT_ONCE = 1_000_000
_REQUESTS_AT_ONCE = 64

# float32 numbers, so a unit vector's length is 1 within this; any other value in the file is not one of ours.
_TOLERANCE = 1e-3


class _Counters:
    """How many texts went to the model and how many were there already. Counts add up over threads."""

    def __init__(self) -> None:
        self._counting = threading.Lock()
        self._sent = 0
        self._cached = 0
        self._usage = Usage()

    @property
    def usage(self) -> Usage:
        """What the endpoint counted for `sent`; nothing for a model that is none of an endpoint's."""
        return self._usage

    @property
    def sent(self) -> int:
        """Texts that the model was asked about and answered; equal texts of one call count once."""
        return self._sent

    @property
    def cached(self) -> int:
        """Texts that needed no asking: in the file already, or equal to another of the same call."""
        return self._cached

    def _count(self, *, sent: int = 0, cached: int = 0, usage: Usage | None = None) -> None:
        with self._counting:
            self._usage += usage or Usage()
            self._sent += sent
            self._cached += cached


class CachedEmbedder(_Counters):
    """`embedder`, asked only for what `cache` does not hold."""

    def __init__(self, embedder: Embedder, cache: ModelCache) -> None:
        super().__init__()
        self._embedder = embedder
        self._cache = cache

    @property
    def name(self) -> str:
        return self._embedder.name

    @property
    def dimensions(self) -> int:
        return self._embedder.dimensions

    @property
    def semantic_threshold(self) -> float:
        return self._embedder.semantic_threshold

    @property
    def paragraph_threshold(self) -> float:
        return self._embedder.paragraph_threshold

    @property
    def max_input_tokens(self) -> int | None:
        return self._embedder.max_input_tokens

    def count_tokens(self, text: str) -> int:
        return self._embedder.count_tokens(text)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """As `Embedder.embed`. What was answered before an error is in the cache.

        Raises:
            ValueError, ModelError: as the inner embedder; blank texts are refused before anything is sent.
        """
        if any(not text.strip() for text in texts):
            raise ValueError("a blank text has no embedding")
        dimensions = self.dimensions
        keys = [vector_key(self.name, dimensions, text) for text in texts]
        text_of = dict(zip(keys, texts, strict=True))
        self._count(cached=len(texts) - len(text_of))
        known: dict[bytes, NDArray[np.float32]] = {}
        wanted = [*text_of]
        while wanted:
            # Claimed first and looked for then, so that no other thread can answer a key between the two.
            mine, others = self._cache.claims.take(wanted)
            try:
                known |= self._answers(mine, text_of)
            finally:
                self._cache.claims.release(mine)
            for released in others.values():
                released.wait()
            # Mostly found in the cache now; asked for here if the other thread failed.
            wanted = [*others]
        result = np.empty((len(texts), dimensions), dtype=np.float32)
        for row, key in enumerate(keys):
            result[row] = known[key]
        return result

    def _answers(self, keys: Sequence[bytes], text_of: dict[bytes, str]) -> dict[bytes, NDArray[np.float32]]:
        """The vectors of `keys`, from the cache or the model."""
        found = self._cache.get_vectors(keys)
        known = {key: vector for key, vector in found.items() if _is_unit(vector, self.dimensions)}
        self._count(cached=len(known))
        missing = [key for key in keys if key not in known]

        def keep(rows: range, vectors: Vectors, usage: Usage) -> None:
            fresh = dict(zip(missing[rows.start : rows.stop], vectors, strict=True))
            self._count(sent=len(fresh), usage=usage)
            self._cache.put_vectors(fresh, model=self.name)
            known.update(fresh)

        if isinstance(self._embedder, PartedEmbedder):
            self._embedder.embed_parts([text_of[key] for key in missing], keep)
            return known
        start = 0
        lengths = {key: len(text_of[key]) for key in missing}
        for group in portions(lengths, _TEXTS_AT_ONCE, _CHARACTERS_AT_ONCE):
            rows = range(start, start + len(group))
            keep(rows, self._embedder.embed([text_of[key] for key in group]), Usage())
            start = rows.stop
        return known


class CachedContextWriter(_Counters):
    """`writer`, asked only for what `cache` does not hold. A fallback is not kept: the model may do better next time."""

    def __init__(self, writer: ContextWriter, cache: ModelCache) -> None:
        super().__init__()
        self._writer = writer
        self._cache = cache
        self._fallbacks = 0

    @property
    def name(self) -> str:
        return self._writer.name

    @property
    def prompt_version(self) -> str:
        return self._writer.prompt_version

    @property
    def document_prompt_version(self) -> str | None:
        # One that somebody else made may not say.
        return getattr(self._writer, "document_prompt_version", None)

    @property
    def fallbacks(self) -> int:
        """Answers that the outline had to stand in for; they are in `sent` too."""
        return self._fallbacks

    def write(self, requests: Sequence[ContextRequest]) -> list[Context]:
        """As `ContextWriter.write`. What was answered before an error is in the cache.

        Raises:
            ModelError: as the inner writer.
        """
        keys = context_keys(self._writer, requests)
        request_of = dict(zip(keys, requests, strict=True))
        known = {key: Context(text, self.name) for key, text in self._cache.get_contexts(request_of).items()}
        missing = [key for key in request_of if key not in known]
        self._count(cached=len(requests) - len(missing))

        def keep(fresh: dict[bytes, Context], usage: Usage) -> None:
            answered = {key: context for key, context in fresh.items() if not context.too_long}
            good = {key: context.text for key, context in answered.items() if not context.fallback}
            self._count(sent=len(answered), usage=usage)
            with self._counting:
                self._fallbacks += len(answered) - len(good)
            self._cache.put_contexts(good, model=self.name)
            known.update(fresh)

        if isinstance(self._writer, PartedWriter):
            self._writer.write_parts(
                [request_of[key] for key in missing],
                lambda place, context, usage: keep({missing[place]: context}, usage),
            )
            return [known[key] for key in keys]
        for start in range(0, len(missing), _REQUESTS_AT_ONCE):
            group = missing[start : start + _REQUESTS_AT_ONCE]
            keep(dict(zip(group, self._writer.write([request_of[key] for key in group]), strict=True)), Usage())
        return [known[key] for key in keys]


def vector_key(model: str, dimensions: int, text: str) -> bytes:
    """The key of a vector: 32 bytes."""
    return _key("vector", model, str(dimensions), text)


def context_keys(writer: ContextWriter, requests: Sequence[ContextRequest]) -> list[bytes]:
    """The keys of contexts, 32 bytes each."""
    # Many requests show the same document.
    digests: dict[str, str] = {}
    keys = []
    for request in requests:
        parts = (request.text, request.preceding, request.following, request.title, *request.headings)
        if request.document is None:
            keys.append(_key("context", writer.name, writer.prompt_version, *parts))
            continue
        if request.document not in digests:
            digests[request.document] = text_hash(request.document)
        version = getattr(writer, "document_prompt_version", None) or writer.prompt_version
        keys.append(_key("context of document", writer.name, version, digests[request.document], *parts))
    return keys


def _key(*parts: str) -> bytes:
    # Lengths before the parts keep ("ab", "c") and ("a", "bc") apart.
    name = "".join(f"{len(part)}:{part}" for part in parts)
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()


def _is_unit(vector: NDArray[np.float32], dimensions: int) -> bool:
    return vector.shape == (dimensions,) and abs(float(np.linalg.norm(vector)) - 1) < _TOLERANCE
