"""Models for a dry run: they count what would be asked, answer from the cache, and ask no endpoint anything.

What a paid model would answer is not known, so a stand-in takes its place: a vector made from the text's hash, the outline's context.
Boundaries that hang on such vectors are a guess, and `guessed` says that there was one. The built-in models cost nothing and are
really asked, so with them everything is known. FastEmbed's cost time, as much as a run: they are not asked, and no endpoint is either.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence

import numpy as np

from chunkers.models.base import Context, ContextRequest, ContextWriter, Embedder, PartedEmbedder, PartedWriter, Vectors
from chunkers.models.cache import ModelCache, context_keys, vector_key
from chunkers.models.outline import OutlineWriter
from chunkers.models.usage import Usage
from chunkers.models.wordllama_embedder import WordllamaEmbedder

# Tokens of a context of two sentences: what an answer is taken to cost that nobody has asked for yet.
TYPICAL_ANSWER = 60


class Asked:
    """What has been asked for so far, by key: the strategies of a run share one, as they share the cache of a real run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: set[bytes] = set()

    def new(self, keys: Sequence[bytes]) -> list[int]:
        """The places in `keys` of those that were not asked for before, each key once."""
        with self._lock:
            told = []
            for place, key in enumerate(keys):
                if key not in self._keys:
                    self._keys.add(key)
                    told.append(place)
            return told


class RehearsedEmbedder:
    """Stands in for a cached `embedder`.

    Attributes:
        sent: texts that would be sent to the model.
        cached: texts whose vector is in the cache, or would be by then.
        usage: what an endpoint would count for `sent`; nothing for a model of our own.
        spared: tokens of `cached`, which an endpoint will not be asked for.
        guessed: a vector was made up.
    """

    def __init__(self, embedder: Embedder, cache: ModelCache | None, asked: Asked) -> None:
        self._embedder = embedder
        self._cache = cache
        self._asked = asked
        self._builtin = isinstance(embedder, WordllamaEmbedder)
        self.sent = self.cached = self.spared = 0
        self.usage = Usage()
        self.guessed = False

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
        """Vectors of shape (len(texts), dimensions), some of them made up."""
        keys = [vector_key(self.name, self.dimensions, text) for text in texts]
        known = self._cache.get_vectors(dict.fromkeys(keys)) if self._cache else {}
        known = {key: vector for key, vector in known.items() if vector.shape == (self.dimensions,)}
        missing = [place for place, key in enumerate(keys) if key not in known]
        new = [missing[place] for place in self._asked.new([keys[place] for place in missing])]
        self.sent += len(new)
        self.cached += len(texts) - len(new)
        self._count(texts, new)
        vectors = np.empty((len(texts), self.dimensions), dtype=np.float32)
        for place, key in enumerate(keys):
            if key in known:
                vectors[place] = known[key]
        if missing:
            vectors[missing] = self._answers([texts[place] for place in missing])
        return vectors

    def _count(self, texts: Sequence[str], new: Sequence[int]) -> None:
        """What an endpoint would count for the texts at the places `new`, and what the others spare."""
        if not isinstance(self._embedder, PartedEmbedder):
            return
        counts = [self.count_tokens(text) for text in texts]
        asked = [counts[place] for place in new]
        self.spared += sum(counts) - sum(asked)
        if asked:
            self.usage += Usage(self._embedder.request_count(asked), sum(asked))

    def _answers(self, texts: Sequence[str]) -> Vectors:
        if self._builtin:
            return self._embedder.embed(texts)
        self.guessed = True
        return np.stack([_made_up(text, self.dimensions) for text in texts])


class RehearsedContextWriter:
    """Stands in for a cached `writer`; attributes as `RehearsedEmbedder`'s."""

    fallbacks = 0

    def __init__(self, writer: ContextWriter, cache: ModelCache | None, asked: Asked) -> None:
        self._writer = writer
        self._cache = cache
        self._asked = asked
        self._outline = OutlineWriter()
        self.sent = self.cached = self.spared = 0
        self.usage = Usage()
        self.guessed = False

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

    def write(self, requests: Sequence[ContextRequest]) -> list[Context]:
        """One context per request, in order, some of them the outline's."""
        keys = context_keys(self._writer, requests)
        known = self._cache.get_contexts(dict.fromkeys(keys)) if self._cache else {}
        missing = [place for place, key in enumerate(keys) if key not in known]
        new = [missing[place] for place in self._asked.new([keys[place] for place in missing])]
        self.sent += len(new)
        self.cached += len(requests) - len(new)
        if not isinstance(self._writer, OutlineWriter):
            self.guessed = self.guessed or bool(missing)
        if isinstance(self._writer, PartedWriter):
            counts = [self._writer.prompt_tokens(request) for request in requests]
            prompts = sum(counts[place] for place in new)
            self.spared += sum(counts) - prompts
            self.usage += Usage(len(new), prompts, 0, TYPICAL_ANSWER * len(new), estimated=bool(new))
        outlines = self._outline.write(requests)
        return [
            Context(known[key], self.name) if key in known else outline
            for key, outline in zip(keys, outlines, strict=True)
        ]


def _made_up(text: str, dimensions: int) -> np.ndarray:
    """A unit vector that is the same for the same text; shape (dimensions,)."""
    seed = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    vector = np.random.default_rng(seed).standard_normal(dimensions)
    made: np.ndarray = (vector / np.linalg.norm(vector)).astype(np.float32)
    return made
