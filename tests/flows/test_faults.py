"""Runs that meet a fault half way: a model that goes down, a store that fails at any of its calls."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import QdrantClient

from chunkers import ModelError
from chunkers.models.base import Vectors
from flows.report import Report
from stores import StoreError
from tests.doubles import HashEmbedder
from tests.flows.conftest import ingest
from tests.flows.kill_corpora import edited, first, write
from tests.flows.stored import Stored, chunks_by_source, differences, read

SMALL = {"chunk_size": "48", "chunk_overlap": "8", "recursive_chunk_chars": "220"}
STRATEGIES = ("recursive", "semantic_parent_child")


class Failing(HashEmbedder):
    """Embeds `left` times and then fails; for ever if that is None."""

    left: int | None = None

    def embed(self, texts: Sequence[str]) -> Vectors:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise ModelError("the model is down", fatal=self.fatal)
        return super().embed(texts)


@pytest.fixture
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handful of documents makes several batches, sub-batches and requests."""
    from stores import batches

    monkeypatch.setattr("flows.batches.SMALLEST_BATCH", 3)
    monkeypatch.setattr("stores.writer.DOCUMENTS", 2)
    monkeypatch.setattr(batches.point_batches, "__defaults__", (4, batches.BYTES))


class Case:
    """Two versions of a corpus, a store of the first one, and clean stores of both to compare with."""

    def __init__(self, folder: Path, embedder: Failing) -> None:
        rng = random.Random(8)
        corpus = first(rng)
        self.folder, self.embedder = folder, embedder
        self.versions = (corpus, edited(rng, edited(rng, corpus)))
        self.source = folder / "docs"
        self.clean = [self._clean(number) for number in (0, 1)]

    def _clean(self, number: int) -> Stored:
        self.home = self.folder / f"clean-{number}"
        write(self.versions[number], self.source)
        self.check(self.run(), "clean")
        return read(self.home)

    def begin(self) -> None:
        """A store of the first version, and the second one in the source."""
        self.home = self.folder / "home"
        shutil.rmtree(self.home, ignore_errors=True)
        shutil.copytree(self.folder / "clean-0", self.home)
        write(self.versions[1], self.source)
        self.embedder.texts.clear()

    def check(self, report: Report, where: object) -> None:
        assert report.exit_status == 0, (where, report.failures())

    def run(self) -> Report:
        os.environ["QUARRY_HOME"] = str(self.home)
        return ingest(self.source, *STRATEGIES, overrides=SMALL, allow_deletes=99)

    def check_old_or_new(self, where: object) -> None:
        """Of each document that readers had and that is still wanted, all of the old text is there, or all of the new."""
        found = read(self.home)
        assert not any(found.findings.values()), (where, found.findings)
        for strategy in STRATEGIES:
            points = found.live(strategy)
            assert points is not None, where
            old, new = (chunks_by_source(clean.live(strategy)) for clean in self.clean)
            for uri in self.versions[0]:
                places = [other for other, text in self.versions[1].items() if text == self.versions[0][uri]]
                if places or uri in self.versions[1]:
                    ways = [old[uri], *(new[place] for place in places or [uri])]
                    assert any(ids <= points.keys() for ids in ways), (where, strategy, uri)

    def check_done(self, where: object) -> None:
        """The next run does the rest, and nothing tells that there was a fault."""
        self.check(self.run(), where)
        told = differences(read(self.home), self.clean[1])
        assert not told, (where, told[:5])


@pytest.fixture(scope="module")
def shared_case(tmp_path_factory: pytest.TempPathFactory) -> Case:
    embedder = Failing()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flows.models.open_embedder", lambda name, endpoint, options: embedder)
        patch.setenv("QUARRY_HOME", "")
        return Case(tmp_path_factory.mktemp("case"), embedder)


@pytest.fixture
def case(shared_case: Case, few_at_once: None, monkeypatch: pytest.MonkeyPatch) -> Case:
    monkeypatch.setattr("flows.models.open_embedder", lambda name, endpoint, options: shared_case.embedder)
    return shared_case


# The model


@pytest.mark.parametrize("fatal", [True, False], ids=["for all texts", "for these texts"])
def test_a_model_that_goes_down_half_way_takes_no_text_from_readers(case: Case, fatal: bool) -> None:
    case.embedder.fatal = fatal
    calls = 0
    while True:
        case.begin()
        case.embedder.left = calls
        report = case.run()
        unbroken = case.embedder.left >= 0
        case.embedder.left = None
        if unbroken:
            break
        assert report.exit_status == 1, calls
        told = [own.error for own in report.strategies.values() if own.error]
        told += [error for own in report.strategies.values() for _, error in own.failed]
        assert set(told) == {"the model is down"}, calls
        case.check_old_or_new(calls)
        case.check_done(calls)
        calls += 1
    assert calls > 2


def test_what_was_embedded_before_the_model_went_down_is_not_asked_for_again(case: Case) -> None:
    case.embedder.fatal = True
    case.begin()
    case.embedder.left = 2
    assert case.run().exit_status == 1
    before = set(case.embedder.texts)
    case.embedder.left = None
    case.embedder.texts.clear()
    case.check_done("again")
    assert before
    assert case.embedder.texts
    assert not before & set(case.embedder.texts)


# The store


class Breaks:
    """The n-th call of a client's method fails, and every later one unless `once`; `applied`, after what it does is done."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, method: str, *, applied: bool, once: bool) -> None:
        self.left: int | None = None
        inner: Callable[..., Any] = getattr(QdrantClient, method)

        def call(client: QdrantClient, *args: Any, **kwargs: Any) -> Any:
            if self.left is None:
                return inner(client, *args, **kwargs)
            self.left -= 1
            broken = self.left == -1 if once else self.left < 0
            value = inner(client, *args, **kwargs) if applied or not broken else None
            if broken:
                raise OSError(28, "No space left on device")
            return value

        monkeypatch.setattr(QdrantClient, method, call)


# Of the first upserts of a run, those that take the leases: an answer that is lost there is a case of its own, below.
LEASES = len(STRATEGIES)
# Methods, and how many of their first calls are tried everyday; all are in the slow part.
METHODS = {"upsert": 20, "delete": 4, "batch_update_points": 2, "update_collection": 2}


def break_at(case: Case, broken: Breaks, number: int) -> bool:
    """A run whose store fails at a call, and the next run; whether there was such a call."""
    case.begin()
    broken.left = number
    try:
        told = " ".join(case.run().failures())
    except StoreError as error:
        told = str(error)
    reached = broken.left < 0
    broken.left = None
    # What cannot be told to the journal, or a lease that cannot be given back, is no failure of a run; all else is, and is named.
    assert not told or "No space left on device" in told, (number, told)
    case.check_old_or_new(number)
    case.check_done(number)
    return reached


@pytest.mark.parametrize("once", [True, False], ids=["once", "from then on"])
@pytest.mark.parametrize("method", METHODS)
def test_a_store_that_fails_half_way_loses_no_text_and_the_next_run_ends_as_a_clean_one(
    case: Case, monkeypatch: pytest.MonkeyPatch, method: str, once: bool
) -> None:
    rng = random.Random(f"{method} {once}")
    for applied in (False, True):
        with monkeypatch.context() as patch:
            broken = Breaks(patch, method, applied=applied, once=once)
            assert break_at(case, broken, rng.randrange(LEASES if method == "upsert" else 0, METHODS[method])), applied


@pytest.mark.slow
@pytest.mark.parametrize("once", [True, False], ids=["once", "from then on"])
@pytest.mark.parametrize("applied", [False, True], ids=["undone", "done"])
@pytest.mark.parametrize("method", METHODS)
def test_wherever_the_store_fails_the_next_run_ends_as_a_clean_one(
    case: Case, monkeypatch: pytest.MonkeyPatch, method: str, applied: bool, once: bool
) -> None:
    broken = Breaks(monkeypatch, method, applied=applied, once=once)
    begin = number = LEASES if applied and method == "upsert" else 0
    # A run has dozens of upserts: every third of them, each time from another one on.
    step = 3 if method == "upsert" else 1
    number += (applied + once) % step
    while break_at(case, broken, number):
        number += step
    assert number > begin + 1


def test_a_lease_whose_answer_was_lost_does_not_block_the_next_run(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    assert break_at(case, Breaks(monkeypatch, "upsert", applied=True, once=True), 0)
