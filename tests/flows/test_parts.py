"""Parts of a run that another process does, done in this one: the same store as a run of threads, and what a worker refuses."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from qdrant_client import models

from chunkers import STRATEGIES
from flows import remote
from flows.ingestion import Ingestion
from flows.loading import load_document
from flows.observer import Observer
from flows.parts import Part, part_of
from flows.report import Report
from flows.request import Request
from flows.running import run
from flows.settings import Settings
from flows.sources import Entry
from stores import Leases, StoreError, connect
from stores.client import StoreClient
from stores.lease import lease_id
from stores.transport import send
from tests.flows.conftest import ingest
from tests.flows.stored import Stored, differences, served
from tests.qdrant_server import QdrantServer, qdrant, status

__all__ = ["qdrant"]


@pytest.fixture(autouse=True)
def environment(qdrant: QdrantServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("QDRANT_URL", qdrant.url)
    monkeypatch.setitem(send.__kwdefaults__, "sleep", lambda seconds: None)  # type: ignore[arg-type]
    monkeypatch.setattr("stores.client.StoreClient", partial(StoreClient, verify=False))
    yield
    remote.close()


class PartRunner:
    """Does every part as a worker would, one after the other."""

    window = 2

    def __init__(self, before: Callable[[Part], None] = lambda part: None) -> None:
        self.before = before
        self.parts: list[Part] = []
        self.counts: list[dict[str, Any]] = []
        self._batch: Any = []

    def load(self, ingestion: Ingestion, batch: Any, number: int) -> list[Any]:
        self._batch = batch
        return []

    def write(self, ingestion: Ingestion, name: str, documents: Any, number: int) -> Callable[[], None]:
        part = part_of(ingestion, name, self._batch, number)

        def wait() -> None:
            own = ingestion.own(name)
            own.elsewhere = True
            self.parts.append(part)
            self.before(part)
            counts = remote.work(part.packed())
            self.counts.append(counts)
            own.add(counts)
            ingestion.noted(counts["notes"], counts["blank"], counts["unreadable"])

        return wait

    def drain(self) -> None:
        pass


def by_parts(source: Path, *strategies: str, runner: PartRunner | None = None, **options: Any) -> Report:
    overrides = options.pop("overrides", None)
    request = Request(str(source), strategies=strategies or STRATEGIES, **options)
    with Ingestion(request, Settings.load(overrides), Observer()) as ingestion:
        return run(ingestion, runner or PartRunner())


def compared(qdrant: QdrantServer, source: Path, work: Callable[[Callable[..., Report]], None]) -> Stored:
    """The store after `work` was done by parts, which is that after the same was done by threads."""
    files = {path: path.read_bytes() for path in source.rglob("*") if path.is_file()}
    found = []
    for way in (by_parts, ingest):
        for path in [path for path in source.rglob("*") if path.is_file()]:
            path.unlink()
        for path, data in files.items():
            path.write_bytes(data)
        qdrant.reset()
        remote.close()
        # A cache of its own for each.
        os.environ["QUARRY_HOME"] = str(source.with_name(way.__name__))
        work(way)
        with connect() as client:
            found.append(served(client))
    assert differences(*found) == []
    return found[0]


def counts(report: Report) -> dict[str, Any]:
    told = report.as_json()
    for own in told["strategies"].values():
        # Threads share one cache, and who comes first embeds.
        for name in ("seconds", "embedded", "cached"):
            del own[name]
    return told


def test_all_strategies_store_what_threads_do(source: Path, qdrant: QdrantServer) -> None:
    reports = []
    stored = compared(qdrant, source, lambda way: reports.append(way(source)))
    assert [report.exit_status for report in reports] == [0, 0]
    assert counts(reports[0]) == counts(reports[1])
    assert len(stored.collections) == len(STRATEGIES)
    assert all(len(points) > 5 for points in stored.collections.values())


def test_edits_moves_and_deletions_store_what_threads_do(source: Path, qdrant: QdrantServer) -> None:
    reports = []

    def work(way: Callable[..., Report]) -> None:
        way(source)
        (source / "guide.md").write_text("# Guide\n\nAll is new. The pump starts at dawn.\n")
        (source / "log.txt").rename(source / "diary.txt")
        (source / "notes" / "tea.md").unlink()
        (source / "more.md").write_text("# More\n\nAnother text.\n")
        reports.append(way(source))
        again = way(source)
        assert all(own.unchanged == 3 for own in again.strategies.values())

    compared(qdrant, source, work)
    assert counts(reports[0]) == counts(reports[1])
    assert all(own.moved == 1 for own in reports[0].strategies.values())


def test_a_rebuild_moves_the_aliases_as_threads_do(source: Path, qdrant: QdrantServer) -> None:
    def work(way: Callable[..., Report]) -> None:
        way(source, "recursive", "sentence")
        (source / "notes" / "tea.md").unlink()
        report = way(source, "recursive", "sentence", rebuild=True, overrides={"chunk_size": "24"}, allow_deletes=1)
        assert report.exit_status == 0, report.failures()

    stored = compared(qdrant, source, work)
    assert stored.aliases == {f"docs__{name}": f"docs__{name}__2" for name in ("recursive", "sentence")}


def test_what_cannot_be_read_or_stored_is_told_as_by_threads(
    source: Path, qdrant: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (source / "binary.md").write_bytes(bytes(range(256)) * 20)
    (source / "blank.md").write_text("  \n")
    (source / "latin.txt").write_bytes("Der Müller mahlt für alle Bürger größere Körner.".encode("cp1252") * 20)

    def load(entry: Entry, corpus: str) -> Any:
        if entry.uri == "guide.md":
            raise ValueError("an odd file")
        return load_document(entry, corpus)

    monkeypatch.setattr("flows.loading.load_document", load)
    reports = []
    compared(qdrant, source, lambda way: reports.append(way(source, "recursive", "sentence")))
    assert counts(reports[0]) == counts(reports[1])
    assert {uri for uri, _ in reports[0].unreadable} == {"binary.md", "guide.md"}
    assert reports[0].notes
    # Three times, and it is parked; then it is left alone.
    reports.clear()

    def often(way: Callable[..., Report]) -> None:
        for _ in range(4):
            report = way(source, "recursive")
        reports.append(report)

    compared(qdrant, source, often)
    assert counts(reports[0]) == counts(reports[1])
    assert {uri for uri, _ in reports[0].strategies["recursive"].parked} == {"binary.md", "guide.md"}


def test_what_goes_to_a_worker_is_small_and_holds_no_key(
    tmp_path: Path, qdrant: QdrantServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-a-key-of-the-tests")
    source = tmp_path / "docs"
    folder = source / "a folder with a long name, as people have them" / "and another one below it"
    folder.mkdir(parents=True)
    for number in range(294):
        (folder / f"document number {number:03}, with a name that says what it is about.md").write_text(f"No {number}.")
    request = Request(str(source), strategies=("recursive",))
    with Ingestion(request, Settings.load({"embedding_model": "wordllama"}), Observer()) as ingestion:
        ingestion.plan()
        part = part_of(ingestion, "recursive", ingestion.listing.entries, 1)
        sent = cloudpickle.dumps({"strategy": "recursive", "number": 1, "part": part.packed()})
    assert len(part.rows) == 294
    assert len(sent) < 64_000
    assert Part.unpacked(part.packed()) == replace(part, rows=list(part.rows))
    assert part.given == {"embedding_model": "wordllama"}
    assert "sk-a-key" not in repr(part)


def test_one_reading_serves_all_strategies_of_a_batch(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def load(entry: Entry, corpus: str) -> Any:
        read.append(entry.uri)
        return load_document(entry, corpus)

    monkeypatch.setattr("flows.loading.load_document", load)
    assert by_parts(source).exit_status == 0
    assert sorted(read) == ["guide.md", "log.txt", "notes/tea.md"]


def test_a_second_copy_of_a_part_changes_nothing_and_counts_what_is_stored(source: Path, qdrant: QdrantServer) -> None:
    copies: list[dict[str, Any]] = []

    def twice(part: Part) -> None:
        copies.append(remote.work(part.packed()))
        # The second copy comes to another process.
        remote.close()

    def work(way: Callable[..., Report]) -> None:
        own = {"runner": PartRunner(twice)} if way is by_parts else {}
        assert way(source, "recursive", "semantic_parent_child", **own).exit_status == 0
        (source / "log.txt").rename(source / "diary.txt")
        report = way(source, "recursive", "semantic_parent_child", **own)
        assert [own.documents for own in report.strategies.values()] == [3, 3]

    compared(qdrant, source, work)
    assert [copy["documents"] for copy in copies] == [3, 3, 1, 1]


def test_a_worker_without_the_server_of_the_run_is_refused(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def elsewhere(part: Part) -> None:
        monkeypatch.delenv("QDRANT_URL")

    report = by_parts(source, "recursive", runner=PartRunner(elsewhere))
    assert "has no QDRANT_URL in its environment" in str(report.strategies["recursive"].error)
    assert not (Path(os.environ["QUARRY_HOME"]) / "qdrant").exists()


def test_a_worker_of_another_server_is_refused(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with QdrantServer() as other:

        def elsewhere(part: Part) -> None:
            monkeypatch.setenv("QDRANT_URL", other.url)

        report = by_parts(source, "recursive", runner=PartRunner(elsewhere))
        assert report.exit_status == 1
        assert not [request for request in other.requests if request.writes]


def test_a_worker_that_would_write_other_chunks_is_refused(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def newer(part: Part) -> None:
        from stores import recipe

        defaults = recipe.Recipe.__init__.__defaults__ or ()
        newest = tuple(99 if default == recipe.SCHEMA_VERSION else default for default in defaults)
        monkeypatch.setattr(recipe.Recipe.__init__, "__defaults__", newest)

    report = by_parts(source, "recursive", runner=PartRunner(newer))
    assert "would write other chunks" in str(report.strategies["recursive"].error)
    assert "schema_version: " in str(report.strategies["recursive"].error)


@pytest.mark.parametrize("change", ["gone", "another", "expired", "stopping"])
def test_a_part_whose_run_has_no_lease_or_stops_writes_nothing(source: Path, qdrant: QdrantServer, change: str) -> None:
    refused: list[str] = []
    done: list[dict[str, Any]] = []

    def late(part: Part) -> None:
        with connect() as client:
            point = lease_id(part.alias)
            (lease,) = client.retrieve(part.lease, [point], with_payload=True)
            payload = dict(lease.payload or {})
            changes: dict[str, Any] = {
                "another": {"holder": "another"},
                "expired": {"expires_at": 1.0},
                "stopping": {"stopping": True},
            }
            client.delete(part.lease, models.PointIdsList(points=[point]))
            if change != "gone":
                payload |= changes[change]
                client.upsert(part.lease, [models.PointStruct(id=point, vector={}, payload=payload)])
        qdrant.requests.clear()
        try:
            done.append(remote.work(part.packed()))
        except StoreError as error:
            refused.append(str(error))
        assert not [request for request in qdrant.requests if request.writes]

    by_parts(source, "recursive", runner=PartRunner(late))
    if change == "stopping":
        assert [counts["documents"] for counts in done] == [0]
    else:
        assert "is not the run's any more" in refused[0]


def test_a_run_that_stops_ends_a_part_after_the_documents_in_hand(
    source: Path, monkeypatch: pytest.MonkeyPatch, qdrant: QdrantServer
) -> None:
    from stores import Writer

    monkeypatch.setattr("flows.remote.POLL", 0.01)
    monkeypatch.setattr("stores.writer.DOCUMENTS", 1)
    written: list[int] = []
    begun = Writer._write_together
    runs: list[Ingestion] = []

    def stopping(self: Writer, documents: Any, outcome: Any, stop: Any) -> None:
        written.append(len(documents))
        begun(self, documents, outcome, stop)
        runs[0].leases.stopping()
        assert stop.wait(30)

    monkeypatch.setattr(Writer, "_write_together", stopping)
    runner = PartRunner()
    with Ingestion(Request(str(source), strategies=("recursive",)), Settings.load(), Observer()) as ingestion:
        runs.append(ingestion)
        run(ingestion, runner)
    assert written == [1]
    assert [counts["documents"] for counts in runner.counts] == [1]
    monkeypatch.setattr(Writer, "_write_together", begun)
    # What was begun and not tried is as it was: no attempt is counted.
    (own,) = ingest(source, "recursive").strategies.values()
    assert (own.unchanged, own.documents, own.error) == (1, 3, None)


def test_a_store_that_was_away_is_met_again_by_the_next_try(source: Path, qdrant: QdrantServer) -> None:
    tries: list[str] = []

    def away(part: Part) -> None:
        qdrant.fail("PUT", "/points", always=status(503, "Service unavailable"))
        with pytest.raises(StoreError, match="503") as told:
            remote.work(part.packed(), 1)
        tries.append(str(told.value.passing))
        qdrant.heal()

    def work(way: Callable[..., Report]) -> None:
        own = {"runner": PartRunner(away)} if way is by_parts else {}
        assert way(source, "recursive", **own).exit_status == 0

    compared(qdrant, source, work)
    assert tries == ["True"]


def test_leases_that_are_released_say_nothing_of_stopping_to_the_next_run(source: Path) -> None:
    ingest(source, "recursive")
    with connect() as client:
        for run_id in ("first", "second"):
            with Leases(client, run_id) as leases:
                leases.acquire("docs__recursive", "docs__recursive__1", "docs__recursive__1")
                (found,) = client.retrieve("docs__recursive__1", [lease_id("docs__recursive")])
                assert (found.payload or {})["stopping"] is False
                leases.stopping()
