"""An embedding model on this machine, run by FastEmbed: no key, and with its files in a folder no network either.

FastEmbed cuts a text at the model's limit and says nothing, so that the vector of a beginning would be found for the whole. Here
texts are counted first, by the model's own tokenizer with its cutting turned off, and one over the limit is refused. A batch is
padded to its longest text, so texts of like length go together.

FastEmbed is an extra. It is imported, and the model read from its folder or fetched from its hub, when something is first asked.
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from chunkers.errors import ModelError, SettingError
from chunkers.models.base import Vectors
from chunkers.models.requests import InputTooLongError
from chunkers.models.texts import checked, shorten

PREFIX = "fastembed:"
INSTALL = "pip install 'chunk-quarry[fastembed]'"

# What is counted at once, and how many tokens, padding included, go through the model at once: 16 texts of 512, which is some hundred
# megabytes for a large model.
_COUNTED_TEXTS = 256
_BATCH_TOKENS = 8192
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


@dataclass(frozen=True, slots=True)
class _Model:
    """A loaded model, its tokenizer without cutting and padding, and the most tokens that it takes. Threads share them."""

    embedding: Any
    tokenizer: Any
    longest: int

    def counts(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text, those included that the model puts around it."""
        counts: list[int] = []
        for start in range(0, len(texts), _COUNTED_TEXTS):
            encoded = self.tokenizer.encode_batch_fast(list(texts[start : start + _COUNTED_TEXTS]))
            counts += [len(encoding.ids) for encoding in encoded]
        return counts


class FastEmbedEmbedder:
    """Embeds with a model of FastEmbed's list. Safe to use from several threads; building one loads nothing.

    Passages and queries are embedded alike, by FastEmbed's plain `embed`; a prefix that a model wants for either is not put there.

    Args:
        name: `fastembed:` and the model's name, such as `fastembed:BAAI/bge-small-en-v1.5`.
        folder: holds the model's files, and then nothing is fetched; None for FastEmbed's own cache, which its hub fills.
        cancelled: once set, the run is over and nothing more is embedded.

    Raises:
        SettingError: FastEmbed is not installed.
    """

    # Those of the OpenAI models, for want of better: they were measured with none of these models.
    semantic_threshold = 0.5
    paragraph_threshold = 0.5

    def __init__(self, name: str, folder: Path | None = None, *, cancelled: threading.Event | None = None) -> None:
        self.name = name
        if find_spec("fastembed") is None:
            raise self._not_installed("there is no package fastembed")
        self._folder = folder
        self._cancelled = cancelled
        self._loading = threading.Lock()
        self._loaded: _Model | None = None

    @property
    def dimensions(self) -> int:
        """Length of a vector, as FastEmbed's list has it.

        Raises:
            SettingError: the model is not in the list.
        """
        return int(self._described()["dim"])

    @property
    def max_input_tokens(self) -> int:
        """Where FastEmbed would cut.

        Raises:
            SettingError, ModelError: the model cannot be loaded.
        """
        return self._model().longest

    def count_tokens(self, text: str) -> int:
        """Tokens of `text` in the model's own vocabulary, those included that the model puts around it."""
        return self._model().counts(checked([text]))[0] if text.strip() else 0

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Vectors of shape (len(texts), dimensions), float32, unit length, in the order asked.

        Raises:
            ValueError: a text is blank.
            InputTooLongError: a text has more tokens than the model takes; none was embedded.
            SettingError: the model is unknown, or its folder cannot be used.
            ModelError: the model could not be fetched, failed, or gave what is no vector.
        """
        ready = checked(texts)
        vectors = np.empty((len(ready), self.dimensions), dtype=np.float32)
        if not ready:
            return vectors
        model = self._model()
        counts = model.counts(ready)
        for index, tokens in enumerate(counts):
            if tokens > model.longest:
                raise InputTooLongError(index, tokens, model.longest)
        for batch in _batches(counts):
            if self._cancelled and self._cancelled.is_set():
                raise ModelError(f"{self.name}: not asked, since the run was stopped", fatal=True)
            vectors[batch] = self._vectors(model.embedding, [ready[row] for row in batch])
        return vectors

    def _vectors(self, embedding: Any, texts: list[str]) -> np.ndarray:
        """Unit vectors of one batch; shape (len(texts), dimensions), float64."""
        try:
            vectors = np.array(list(embedding.embed(texts, batch_size=len(texts))), dtype=np.float64)
        except Exception as error:
            raise ModelError(f"{self.name} failed: {_first_line(error)}") from error
        if vectors.shape != (len(texts), self.dimensions):
            problem = f"gave numbers of shape {vectors.shape} for {len(texts)} texts of {self.dimensions} dimensions"
            raise ModelError(f"{self.name} {problem}", fatal=True)
        with np.errstate(over="ignore", invalid="ignore"):
            lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        for text, length in zip(texts, lengths[:, 0], strict=True):
            if not 0 < length < np.inf:
                raise ModelError(
                    f"{self.name} has no vector for {text[:40]!r}: numbers that are not finite, or zeros only"
                )
        return vectors / lengths

    def _library(self) -> Any:
        """FastEmbed's class for models of texts."""
        try:
            return import_module("fastembed").TextEmbedding
        except ImportError as error:
            raise self._not_installed(_first_line(error)) from error

    def _not_installed(self, problem: str) -> SettingError:
        return SettingError("embedding_model", self.name, f"a model whose package is installed ({problem}): {INSTALL}")

    def _described(self) -> dict[str, Any]:
        """The model's entry in FastEmbed's list: `dim`, `model_file` and others.

        Raises:
            SettingError: there is none.
        """
        wanted = self.name.removeprefix(PREFIX)
        known = {entry["model"]: entry for entry in self._library().list_supported_models()}
        if wanted not in known:
            # The spelling counts, since it is what a collection's metadata will hold.
            folded = {name.lower(): name for name in known}
            near = difflib.get_close_matches(wanted.lower(), folded, n=3, cutoff=0.0)
            names = ", ".join(PREFIX + folded[one] for one in near)
            raise SettingError("embedding_model", self.name, f"a model that FastEmbed knows, such as {names}")
        return known[wanted]

    def _model(self) -> _Model:
        """The model, loaded on first use and once."""
        with self._loading:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _load(self) -> _Model:
        described = self._described()
        if self._folder is not None:
            _check_files(self._folder, described)
        options = {} if self._folder is None else {"specific_model_path": str(self._folder), "local_files_only": True}
        try:
            embedding = self._library()(described["model"], **options)
            own = embedding.model.tokenizer
            longest = int(own.truncation["max_length"])
            # "[SEP]" in a text is ordinary text.
            own.encode_special_tokens = True
            tokenizer = type(own).from_str(own.to_str())
            tokenizer.no_truncation()
            tokenizer.no_padding()
            tokenizer.encode_special_tokens = True
            # A folder can hold another model than the one that is named: found out before the work begins.
            self._vectors(embedding, ["text"])
        except Exception as error:
            raise self._unusable(error) from error
        return _Model(embedding, tokenizer, longest)

    def _unusable(self, error: Exception) -> Exception:
        """What to tell of a model that cannot be loaded."""
        reason = shorten(_first_line(error), 300)
        if self._folder is not None:
            legal = f"a folder with the files of {self.name.removeprefix(PREFIX)}, and these cannot be used: {reason}"
            return SettingError("model_folder", str(self._folder), legal)
        return ModelError(
            f"{self.name} could not be fetched or loaded: {reason} "
            "Where its hub is out of reach, set QUARRY_MODEL_FOLDER to a folder that holds the model's files.",
            fatal=True,
        )


def _check_files(folder: Path, described: dict[str, Any]) -> None:
    """Raises a `SettingError` that names the files of a model that `folder` lacks."""
    if not folder.is_dir():
        raise SettingError("model_folder", str(folder), "a folder that exists, with a model's files")
    # The static models, which are no ONNX graphs, have the tokenizer's configuration in the tokenizer.
    tokenizer = _TOKENIZER_FILES if described["model_file"].endswith(".onnx") else _TOKENIZER_FILES[:1]
    needed = (described["model_file"], *(described.get("additional_files") or ()), *tokenizer)
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        legal = f"a folder with the files of {described['model']}, and this one has no {', '.join(missing)}"
        raise SettingError("model_folder", str(folder), legal)


def _batches(counts: Sequence[int]) -> Iterator[list[int]]:
    """Places of the texts that go through the model together, the shortest first: each batch is padded to its last."""
    batch: list[int] = []
    for row in sorted(range(len(counts)), key=counts.__getitem__):
        if batch and counts[row] * (len(batch) + 1) > _BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _first_line(error: Exception) -> str:
    """What an error says, without the lines that libraries add below it."""
    return str(error).strip().partition("\n")[0] or type(error).__name__
