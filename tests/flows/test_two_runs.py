"""Two runs at once, of which one is refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from chunkers import STRATEGIES
from flows.ingestion import Ingestion
from flows.observer import Observer
from flows.request import Request
from flows.running import PlainRunner, run
from flows.settings import Settings
from stores import LeaseHeld, Leases, connect
from stores.inventory import alias_targets
from stores.lease import lease_id
from tests.flows.conftest import ingest, quarry
from tests.flows.test_ingestion import points
from tests.flows.test_verify import lose


@contextmanager
def at_work(corpus: str, strategy: str) -> Iterator[None]:
    """Another run, in this process, holds a lease."""
    with connect() as client, Leases(client, "the-other", every=0) as other:
        name = f"{corpus}__{strategy}"
        other.acquire(name, f"{name}__1", f"{name}__1")
        yield


def test_a_second_run_ends_at_once_and_says_who_is_at_work(source: Path) -> None:
    ingest(source, "recursive", "sentence")
    before = points("docs__recursive")
    (source / "guide.md").write_text("Changed.")
    with at_work("docs", "recursive"):
        result = quarry("ingest", source, "--plain", "--strategy", "sentence", "--strategy", "recursive")
        assert result.exit_code == 1
        assert "docs__recursive is being written by another run, the-other on" in result.stderr
        with pytest.raises(LeaseHeld):
            ingest(source, "recursive", rebuild=True)
        # Nothing is held by the run that was refused, and other strategies are free.
        assert ingest(source, "sentence").exit_status == 0
    unleased = {id_: one for id_, one in points("docs__recursive").items() if one[0]["kind"] != "lease"}
    assert unleased == before
    assert ingest(source, "recursive").exit_status == 0


def test_neither_rollback_nor_repair_nor_drop_works_under_a_run(source: Path) -> None:
    ingest(source, "recursive")
    ingest(source, "recursive", rebuild=True)
    lose("docs__recursive__2", "chunk")
    with connect() as client, Leases(client, "the-other", every=0) as other:
        other.acquire("docs__recursive", "docs__recursive__2", "docs__recursive__2")
        for arguments in (("rollback",), ("verify",), ("verify", "--repair"), ("drop", "docs__recursive__1")):
            result = quarry(*arguments)
            assert result.exit_code == 1
            assert "another run, the-other on" in result.stderr + result.stdout.replace("\n", " "), arguments


def test_a_run_leaves_no_lease_behind(source: Path) -> None:
    ingest(source)
    assert all(payload["kind"] != "lease" for name in STRATEGIES for payload, _ in points(f"docs__{name}").values())


def test_a_dry_run_needs_no_lease(source: Path) -> None:
    ingest(source, "recursive")
    with at_work("docs", "recursive"):
        assert ingest(source, "recursive", dry_run=True).exit_status == 0


def test_a_run_that_lost_its_lease_stops(source: Path, small_batches: None) -> None:
    for number in range(77):
        (source / f"many-{number}.md").write_text(f"Document number {number}.")

    class Loses(Observer):
        ingestion: Ingestion

        def advanced(self, strategy: str, documents: int) -> None:
            self.ingestion._lost("docs__recursive is being written by another run")

    observer = Loses()
    request = Request(str(source), strategies=("recursive",))
    with Ingestion(request, Settings.load(), observer) as ingestion, PlainRunner(1) as runner:
        observer.ingestion = ingestion
        report = run(ingestion, runner)
    assert (report.interrupted, report.exit_status) == (False, 1)
    assert report.failures()[0] == "docs__recursive is being written by another run"
    assert report.strategies["recursive"].documents < 80
    assert ingest(source, "recursive").exit_status == 0


def test_a_run_that_lost_its_lease_while_it_ends_deletes_nothing_and_moves_no_alias(source: Path) -> None:
    ingest(source, "recursive")
    (source / "log.txt").unlink()
    request = Request(str(source), strategies=("recursive",), rebuild=True)
    settings = Settings.load({"chunk_size": "20"})
    with Ingestion(request, settings, Observer()) as ingestion, PlainRunner(1) as runner:
        finish = ingestion.finish

        def late(name: str) -> None:
            with connect() as client:
                client.set_payload("docs__recursive", {"holder": "another"}, points=[lease_id("docs__recursive")])
            finish(name)

        ingestion.finish = late  # type: ignore[method-assign]
        report = run(ingestion, runner)
    assert report.exit_status == 1
    assert "was lost to another run" in (report.strategies["recursive"].error or "")
    with connect() as client:
        assert alias_targets(client) == {"docs__recursive": "docs__recursive__1"}
