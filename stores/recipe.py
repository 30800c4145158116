"""The recipe of a collection: everything that decides which vectors a corpus gives. Pure.

Two collections with the same fingerprint hold the same points for the same corpus; a run whose recipe has another fingerprint than the
live collection's must not write to it. The recipe is stored in clear in the collection's metadata, so that a difference can be named
and a reader knows which model to embed its query with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from chunkers.encoding import ENCODING
from chunkers.models import bm25

# Rises whenever the same settings would give other chunks, ids or payloads than an older version of this code did.
SCHEMA_VERSION = 3


@dataclass(frozen=True, slots=True)
class Recipe:
    """Strategy, parameters and models.

    Attributes:
        strategy: one of `chunkers.STRATEGIES`.
        parameters: the chunker's own, by name.
        embedding_model, dimensions: of the dense vectors.
        context_model, context_prompt: who writes contexts and the version of the prompt; None for strategies without contexts.
        tokenizer: what tokens are counted with.
        sparse: what the sparse vectors are made with; empty for a collection of before there were any.
        schema_version: of what is stored.
    """

    strategy: str
    parameters: Mapping[str, Any] = field(hash=False)
    embedding_model: str
    dimensions: int
    context_model: str | None = None
    context_prompt: str | None = None
    tokenizer: str = ENCODING
    sparse: Mapping[str, Any] = field(default_factory=bm25.parameters, hash=False)
    schema_version: int = SCHEMA_VERSION

    def fingerprint(self) -> str:
        """SHA-256 over all of it, as hexadecimal digits."""
        canonical = json.dumps(self.as_metadata(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()

    def as_metadata(self) -> dict[str, Any]:
        """The recipe in clear, as a collection's metadata holds it."""
        return {**asdict(self), "parameters": dict(self.parameters), "sparse": dict(self.sparse)}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> Recipe:
        """The recipe that `as_metadata` wrote.

        Raises:
            KeyError: a part is missing.
        """
        known = {"sparse": {}, **metadata}
        return cls(**{name: known[name] for name in cls.__dataclass_fields__})

    def differences(self, asked: Recipe) -> list[str]:
        """What differs between this stored recipe and the one asked for, one phrase each, such as `chunk_size: 512 stored, 256 asked`."""
        both = bool(self.sparse and asked.sparse)
        stored_parts, asked_parts = _parts(self, both), _parts(asked, both)
        return [
            f"{name}: {stored_parts.get(name)} stored, {asked_parts.get(name)} asked"
            for name in sorted(stored_parts.keys() | asked_parts.keys())
            if stored_parts.get(name) != asked_parts.get(name)
        ]


def _parts(recipe: Recipe, sparse_in_full: bool) -> dict[str, Any]:
    flat = recipe.as_metadata()
    sparse = flat.pop("sparse")
    named = sparse if sparse_in_full else {"model": sparse.get("model")}
    return {**flat.pop("parameters"), **{f"sparse {name}": value for name, value in named.items()}, **flat}
