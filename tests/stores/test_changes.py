from __future__ import annotations

from typing import Any

import pytest

from stores.changes import Changes, changes


def chunk(text: str, at: int = 0, stamp: str = "old") -> dict[str, Any]:
    return {"text": text, "embedding_hash": text, "metadata": {"start_char": at, "ingested_at": stamp}}


NEW = {"a": chunk("A", 0, "new"), "b": chunk("B", 5, "new")}


@pytest.mark.parametrize(
    ("known", "stored", "expected"),
    [
        ([], {}, Changes(embed=("a", "b"))),
        (["a", "b"], {"a": chunk("A", 0), "b": chunk("B", 5)}, Changes()),
        (["a", "b"], {"a": chunk("A", 0), "b": chunk("B", 3)}, Changes(restamp=("a", "b"))),
        (["a", "b"], {"a": chunk("A", 0)}, Changes(embed=("b",), restamp=("a",))),
        (["a", "b"], {"a": chunk("A", 0), "b": chunk("other", 5)}, Changes(embed=("b",), restamp=("a",))),
        (["a", "b", "z"], {"a": chunk("A", 0), "b": chunk("B", 5)}, Changes(restamp=("a", "b"), delete=("z",))),
        (["z", "y"], {}, Changes(embed=("a", "b"), delete=("z", "y"))),
    ],
)
def test_chunks_by_what_is_known_and_stored(known: list[str], stored: dict[str, Any], expected: Changes) -> None:
    assert changes(known, NEW, {}, stored) == expected


def test_a_lost_parent_is_written_again() -> None:
    parent = {"text": "P", "metadata": {"ingested_at": "new"}}
    made = changes(["a", "b", "p"], NEW, {"p": parent}, {"a": chunk("A", 0), "b": chunk("B", 5)})
    assert made == Changes(restamp=("a", "b"), parents=("p",))


def test_a_document_without_chunks_loses_all_its_points() -> None:
    assert changes(["a", "b"], {}, {}, {}) == Changes(delete=("a", "b"))
