"""What each search mode asks of Qdrant."""

from __future__ import annotations

import math
from typing import Any

import pytest
from qdrant_client import models

from chunkers import SettingError
from chunkers.models.bm25 import SparseVector
from stores.search_modes import Fusion, query_arguments

DENSE, WORDS, NO_WORDS = [1.0, 0.0], SparseVector([7, 9], [1.0, 1.0]), SparseVector([], [])
SENT = models.SparseVector(indices=[7, 9], values=[1.0, 1.0])
ONLY = models.Filter(must=[models.FieldCondition(key="metadata.source", match=models.MatchValue(value="a.md"))])
ALONE = {"query": DENSE, "query_filter": ONLY, "limit": 5}


@pytest.mark.parametrize(
    ("mode", "dense", "sparse", "asked"),
    [
        ("dense", DENSE, None, ALONE),
        ("sparse", None, WORDS, {"query": SENT, "using": "bm25", "query_filter": ONLY, "limit": 5}),
        ("sparse", None, NO_WORDS, None),
        ("hybrid", DENSE, NO_WORDS, ALONE),
    ],
)
def test_one_side_is_asked_as_it_is(mode: str, dense: Any, sparse: Any, asked: dict[str, Any] | None) -> None:
    assert query_arguments(mode, dense, sparse, Fusion(), 5, ONLY) == asked


def test_hybrid_asks_both_sides_under_the_filter_and_fuses_by_weighted_ranks() -> None:
    fusion = Fusion(dense_weight=0.25, sparse_weight=2, k=3, candidates=40)
    asked = query_arguments("hybrid", DENSE, WORDS, fusion, 5, ONLY)
    assert asked == {
        "prefetch": [
            models.Prefetch(query=DENSE, filter=ONLY, limit=40),
            models.Prefetch(query=SENT, using="bm25", filter=ONLY, limit=40),
        ],
        "query": models.RrfQuery(rrf=models.Rrf(k=3, weights=[0.25, 2])),
        "limit": 5,
    }


def test_each_side_fetches_no_fewer_than_are_wanted() -> None:
    asked = query_arguments("hybrid", DENSE, WORDS, Fusion(candidates=10), 300, None)
    assert asked
    assert [one.limit for one in asked["prefetch"]] == [300, 300]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"dense_weight": -1}, "fusion_dense_weight"),
        ({"dense_weight": math.nan}, "fusion_dense_weight"),
        ({"sparse_weight": math.inf}, "fusion_sparse_weight"),
        ({"sparse_weight": True}, "fusion_sparse_weight"),
        ({"dense_weight": "1"}, "fusion_dense_weight"),
        ({"dense_weight": 0, "sparse_weight": 0}, "fusion_dense_weight"),
        ({"k": 0}, "fusion_k"),
        ({"k": 2.5}, "fusion_k"),
        ({"candidates": 0}, "fusion_candidates"),
    ],
)
def test_a_fusion_that_cannot_be_used_is_refused_by_name(values: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingError, match=f"^{named}: "):
        Fusion(**values)
