"""What is asked of Qdrant in each search mode, as the arguments of `query_points`. Pure.

`dense` looks for chunks that mean the like, `sparse` for those with the same words (BM25), and `hybrid` for both: the best of each are
fetched, and fused by weighted reciprocal ranks inside Qdrant (Cormack, Clarke and Büttcher, "Reciprocal Rank Fusion outperforms
Condorcet and individual Rank Learning Methods", 2009, with a weight for each side as Qdrant has it).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from qdrant_client import models

from chunkers.errors import SettingError
from chunkers.models.bm25 import SparseVector
from stores.payloads import SPARSE

HYBRID, DENSE, SPARSE_ONLY = "hybrid", "dense", "sparse"
MODES = (HYBRID, DENSE, SPARSE_ONLY)


@dataclass(frozen=True, slots=True)
class Fusion:
    """How `hybrid` fuses. The defaults are those that found most with the built-in embedding (`tests.benchmarks.recall`): on the plateau of
    the sample corpus's questions and those of three of Chroma's corpora, at chunks of 512 and of 200 tokens, with the most dense weight.

    Attributes:
        dense_weight, sparse_weight: of each side, from 0 up; not both 0. A chunk at rank r, from 1, gets 1 / (r / weight + k - 1).
        k: from 1 up; the higher, the less the first ranks are ahead of those behind.
        candidates: chunks fetched by each side at least.

    Raises:
        SettingError: one of them cannot be used.
    """

    dense_weight: float = 0.5
    sparse_weight: float = 1.0
    k: int = 5
    candidates: int = 50

    def __post_init__(self) -> None:
        for name in ("dense_weight", "sparse_weight"):
            weight = getattr(self, name)
            if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
                raise SettingError(f"fusion_{name}", weight, "a number from 0 up")
        if not self.dense_weight + self.sparse_weight:
            raise SettingError("fusion_dense_weight", self.dense_weight, "above 0 where fusion_sparse_weight is 0")
        for name in ("k", "candidates"):
            number = getattr(self, name)
            if isinstance(number, bool) or not isinstance(number, int) or number < 1:
                raise SettingError(f"fusion_{name}", number, "a whole number, at least 1")


def query_arguments(
    mode: str,
    dense: list[float] | None,
    sparse: SparseVector | None,
    fusion: Fusion,
    limit: int,
    condition: models.Filter | None,
) -> dict[str, Any] | None:
    """The arguments that say what to look for; None where nothing can be found, since the question has no word that counts.

    Args:
        mode: one of `MODES`.
        dense: the question's embedding, for `dense` and `hybrid`.
        sparse: its words, for `sparse` and `hybrid`.
        fusion: how `hybrid` fuses.
        limit: chunks wanted.
        condition: that they must meet.
    """
    words = None
    if sparse is not None and sparse.indices:
        words = models.SparseVector(indices=sparse.indices, values=sparse.values)
    if mode == SPARSE_ONLY:
        return {"query": words, "using": SPARSE, "query_filter": condition, "limit": limit} if words else None
    if mode == DENSE or words is None:
        return {"query": dense, "query_filter": condition, "limit": limit}
    most = max(limit, fusion.candidates)
    return {
        # Each side has the condition: chunks that it shuts out must not take the places of others.
        "prefetch": [
            models.Prefetch(query=dense, filter=condition, limit=most),
            models.Prefetch(query=words, using=SPARSE, filter=condition, limit=most),
        ],
        "query": models.RrfQuery(rrf=models.Rrf(k=fusion.k, weights=[fusion.dense_weight, fusion.sparse_weight])),
        "limit": limit,
    }
