from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from flows.batches import LARGEST_BYTES, SMALLEST_BATCH, TASK_RUNS, batch_size, batches


@dataclass(frozen=True)
class File:
    size: int


@given(st.lists(st.integers(0, 2 * LARGEST_BYTES).map(File), max_size=60), st.integers(1, 20))
def test_batches_keep_order_and_lose_nothing(files: list[File], size: int) -> None:
    made = list(batches(files, size))
    assert [file for batch in made for file in batch] == files
    assert all(1 <= len(batch) <= size for batch in made)


@given(st.lists(st.integers(0, 2 * LARGEST_BYTES).map(File), max_size=60), st.integers(1, 20))
def test_only_a_single_large_file_passes_the_bound_on_bytes(files: list[File], size: int) -> None:
    for batch in batches(files, size):
        assert len(batch) == 1 or sum(file.size for file in batch) <= LARGEST_BYTES


@given(st.integers(0, 1_000_000), st.integers(1, 6))
def test_the_number_of_tasks_does_not_grow_with_the_corpus(documents: int, strategies: int) -> None:
    size = batch_size(documents, strategies)
    assert -(-documents // size) * (strategies + 1) <= TASK_RUNS


def test_a_thousand_documents_under_one_strategy_are_a_handful_of_tasks() -> None:
    """Each costs some 12 ms of the run's own processor time."""
    size = batch_size(1_000, 1)
    assert -(-1_000 // size) * 2 < 20


def test_a_small_corpus_is_one_batch() -> None:
    assert batch_size(12, 6) == SMALLEST_BATCH
