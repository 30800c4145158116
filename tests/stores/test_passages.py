"""Hits that fit a budget. A token is a character here, unless a test says otherwise."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stores.hits import Hit, ParentText
from stores.passages import Counter, pack
from stores.retriever import Tokens


class Characters:
    """Takes each character for a token."""

    def count(self, text: str) -> int:
        return len(text)

    def joined(self, left: str, left_tokens: int, right: str, right_tokens: int, overlap: int) -> int:
        return left_tokens + right_tokens - overlap


TEXT = "".join(chr(ord("a") + number % 26) for number in range(400))


def hit(start: int, end: int, source: str = "a.md", parent: tuple[int, int] | None = None, text: str = TEXT) -> Hit:
    around = ParentText(text[parent[0] : parent[1]], *parent) if parent else None
    metadata = {"source": source, "start_char": start, "end_char": end, "token_count": end - start, "index": start}
    return Hit(1 / (start + 1), text[start:end], source, start, end, [f"h{start}"], None, around, metadata)


def spans(hits: list[Hit]) -> list[tuple[str, int, int]]:
    return [(one.source, one.start_char, one.end_char) for one in hits]


@pytest.mark.parametrize(
    ("hits", "budget", "taken"),
    [
        ([], 10, []),
        ([hit(0, 10)], 10, [(0, 10)]),
        ([hit(0, 10)], 9, []),
        ([hit(50, 60), hit(0, 10)], 20, [(50, 60), (0, 10)]),  # the best first, not the first in the text
        (
            [hit(50, 60), hit(0, 15), hit(100, 105)],
            20,
            [(50, 60), (100, 105)],
        ),  # a smaller one behind one that does not fit
        ([hit(0, 10), hit(5, 15)], 15, [(0, 15)]),  # an overlap costs what it adds
        ([hit(0, 10), hit(10, 20)], 20, [(0, 20)]),  # without a gap
        ([hit(0, 10), hit(11, 21)], 20, [(0, 10), (11, 21)]),
        ([hit(0, 10), hit(5, 15)], 14, [(0, 10)]),
        ([hit(0, 10), hit(20, 30), hit(8, 22)], 30, [(0, 30)]),  # a bridge
        ([hit(0, 30), hit(5, 15)], 30, [(0, 30)]),  # inside
        ([hit(5, 15), hit(0, 30)], 30, [(0, 30)]),
        ([hit(100, 110), hit(50, 60), hit(105, 115)], 30, [(100, 115), (50, 60)]),  # at the place of its best
        ([hit(50, 60), hit(100, 110), hit(55, 65)], 30, [(50, 65), (100, 110)]),
    ],
)
def test_the_best_hits_that_fit_overlaps_merged(hits: list[Hit], budget: int, taken: list[tuple[int, int]]) -> None:
    found = pack(hits, budget, Characters()).hits
    assert [(start, end) for _, start, end in spans(found)] == taken
    assert all(one.text == TEXT[one.start_char : one.end_char] for one in found)


def test_overlapping_places_of_two_documents_stay_apart() -> None:
    found = pack([hit(0, 10), hit(5, 15, "b.md")], 100, Characters()).hits
    assert spans(found) == [("a.md", 0, 10), ("b.md", 5, 15)]


def test_places_in_two_writings_of_a_document_stay_apart() -> None:
    one, other = hit(0, 10), hit(5, 15)
    other.metadata["ingested_at"] = "later"
    assert spans(pack([one, other], 100, Characters()).hits) == [("a.md", 0, 10), ("a.md", 5, 15)]
    other = hit(5, 15, text=TEXT.upper())
    assert spans(pack([one, other], 100, Characters()).hits) == [("a.md", 0, 10), ("a.md", 5, 15)]


def test_a_merged_passage_tells_its_own_place_and_tokens_and_the_better_score() -> None:
    (one,) = pack([hit(5, 15), hit(0, 10)], 100, Characters()).hits
    assert (one.score, one.headings) == (hit(0, 10).score, ["h0"])
    assert (one.metadata["start_char"], one.metadata["end_char"], one.metadata["token_count"]) == (0, 15, 15)


def test_a_parent_is_paid_for_once_and_its_other_children_are_in_it() -> None:
    hits = [hit(0, 10, parent=(0, 50)), hit(20, 30, parent=(0, 50)), hit(60, 70, parent=(60, 90))]
    found = pack(hits, 80, Characters())
    assert found.tokens == 80
    assert [(one.start_char, one.parent and one.parent.end_char) for one in found.hits] == [(0, 50), (60, 90)]
    assert not found.full


def test_a_child_whose_parent_does_not_fit_comes_alone() -> None:
    found = pack([hit(0, 10, parent=(0, 50)), hit(5, 15, parent=(0, 50))], 20, Characters()).hits
    assert spans(found) == [("a.md", 0, 15)]
    assert found[0].parent is None


def test_no_more_passages_than_wanted_while_overlaps_still_join() -> None:
    found = pack([hit(0, 10), hit(50, 60), hit(5, 15)], 100, Characters(), limit=1)
    assert (spans(found.hits), found.full) == ([("a.md", 0, 15)], True)


@pytest.mark.parametrize(("budget", "full"), [(25, False), (20, False), (19, True)])
def test_it_says_whether_something_did_not_fit(budget: int, full: bool) -> None:
    assert pack([hit(0, 10), hit(50, 60)], budget, Characters()).full is full


@given(
    st.lists(st.tuples(st.integers(0, 390), st.integers(1, 60), st.sampled_from(["a.md", "b.md"])), max_size=12),
    st.integers(1, 200),
    st.none() | st.integers(1, 4),
    st.sampled_from([Characters(), Tokens()]),
)
def test_whatever_is_found_passages_fit_are_slices_and_never_touch(
    found: list[tuple[int, int, str]], budget: int, limit: int | None, counter: Counter
) -> None:
    count = counter.count
    text = ("Ein Maß für naïve 取消订阅 people. " * 20)[:400]
    hits = []
    for start, size, source in found:
        one = hit(start, min(start + size, 400), source, text=text)
        hits.append(
            Hit(*[getattr(one, name) for name in Hit.__slots__[:-1]], {**one.metadata, "token_count": count(one.text)})
        )
    taken = pack(hits, budget, counter, limit).hits
    assert sum(count(one.text) for one in taken) <= budget
    assert limit is None or len(taken) <= limit
    assert all(one.text == text[one.start_char : one.end_char] for one in taken)
    places = sorted(spans(taken))
    assert all(before[0] != after[0] or before[2] < after[1] for before, after in pairwise(places))
    fitting = [one for one in hits if count(one.text) <= budget]
    assert not fitting or spans(taken)[:1] != []
