"""The built-in embedding model: wordllama, 256 dimensions, static, no key and no network.

A vector is the mean of the vectors of a text's tokens, brought to unit length. Weights and tokenizer are inside wordllama's
wheel. Only those two are used: the package's own `embed` pads every batch to its longest text, which costs six times the time and,
with one long text, gigabytes; summing each text's own rows needs no padding, and no vector depends on its neighbours in a batch.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chunkers.errors import ModelError
from chunkers.models.base import Vectors
from chunkers.models.texts import checked

DIMENSIONS = 256

# What is tokenised at once, and how many token vectors are gathered at once (8 MB): memory stays bounded for any text.
_BATCH_TEXTS = 256
_BATCH_CHARACTERS = 1_000_000
_GATHERED_TOKENS = 8192


@dataclass(frozen=True, slots=True)
class _Model:
    """Token vectors of shape (32000, 256), and the tokenizer. Neither is changed after loading, so threads share them."""

    table: NDArray[np.float32]
    tokenizer: Any

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        return [encoding.ids for encoding in self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def vector(self, ids: Sequence[int]) -> NDArray[np.float64]:
        """The sum of the rows `ids`: its direction is that of their mean. Shape (256,)."""
        total = np.zeros(self.table.shape[1], dtype=np.float64)
        for start in range(0, len(ids), _GATHERED_TOKENS):
            total += self.table[ids[start : start + _GATHERED_TOKENS]].sum(axis=0)
        return total


_lock = threading.Lock()
_loaded: _Model | None = None


def _model() -> _Model:
    """The model, loaded on first use and once per process."""
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _load()
        return _loaded


def _load() -> _Model:
    wordllama = _import_quietly()
    folder = Path(wordllama.__file__).parent
    try:
        found = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)
    except OSError as error:
        raise ModelError(f"wordllama's weights are missing from {folder}: install it again", fatal=True) from error
    found.tokenizer.no_padding()
    # "</s>" in a text is ordinary text.
    found.tokenizer.encode_special_tokens = True
    return _Model(found.embedding, found.tokenizer)


def _import_quietly() -> Any:
    """wordllama, without the handler and the level that it gives the root logger when it is imported."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        return import_module("wordllama")
    finally:
        for handler in [added for added in root.handlers if added not in handlers]:
            root.removeHandler(handler)
        root.setLevel(level)


class WordllamaEmbedder:
    """Embeds on this machine. Takes texts of any length; building one loads nothing.

    Its cosines lie lower than those of the OpenAI models, so its thresholds do too.
    """

    name = "wordllama"
    dimensions = DIMENSIONS
    semantic_threshold = 0.05
    paragraph_threshold = 0.08
    max_input_tokens = None

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` in wordllama's own vocabulary."""
        return len(_model().token_ids(checked([text]))[0]) if text.strip() else 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (len(texts), 256), float32, unit length, in the order asked.

        Raises:
            ValueError: a text is blank.
            ModelError: a text has no direction (its tokens cancel out), or the weights are missing.
        """
        ready = checked(texts)
        vectors = np.empty((len(ready), DIMENSIONS), dtype=np.float32)
        if not ready:
            return vectors
        model = _model()
        for batch in _batches(ready):
            for row, ids in zip(batch, model.token_ids([ready[row] for row in batch]), strict=True):
                total = model.vector(ids)
                length = float(np.linalg.norm(total))
                if not 0 < length < np.inf:
                    raise ModelError(f"wordllama has no vector for text {row}: {ready[row][:40]!r}")
                vectors[row] = total / length
        return vectors


def _batches(texts: Sequence[str]) -> Iterator[range]:
    """Ranges of texts that are tokenised together."""
    start = characters = 0
    for index, text in enumerate(texts):
        full = index - start == _BATCH_TEXTS or characters + len(text) > _BATCH_CHARACTERS
        if full and index > start:
            yield range(start, index)
            start, characters = index, 0
        characters += len(text)
    yield range(start, len(texts))
