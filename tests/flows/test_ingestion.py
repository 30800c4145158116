"""Whole runs without Prefect: the built-in models, an embedded store, a small source."""

from __future__ import annotations

import errno
import gc
import weakref
from pathlib import Path
from typing import Any

import pytest

from chunkers import STRATEGIES, SettingError
from flows import language
from flows.ingestion import Ingestion
from flows.observer import Observer
from flows.report import Report
from flows.request import Request
from flows.running import PlainRunner, run
from flows.settings import Settings
from flows.sources import SourceError
from stores import SettingsChanged, StoreError, connect, list_collections
from stores.inventory import alias_targets
from tests.doubles import HashEmbedder
from tests.flows.conftest import TEXTS, ingest


def points(collection: str, *, vectors: bool = True) -> dict[str, tuple[dict[str, Any], Any]]:
    """Every point of a collection by id, without what tells of the run."""
    with connect() as client:
        found, _ = client.scroll(collection, limit=10_000, with_payload=True, with_vectors=vectors)
    told = {}
    for point in found:
        payload = {name: value for name, value in (point.payload or {}).items() if name not in ("run_id", "updated_at")}
        if "metadata" in payload:
            payload["metadata"] = {name: value for name, value in payload["metadata"].items() if name != "ingested_at"}
        told[str(point.id)] = (payload, point.vector)
    return told


def of_kind(collection: str, kind: str) -> list[dict[str, Any]]:
    return [payload for payload, _ in points(collection).values() if payload["kind"] == kind]


@pytest.fixture
def picky(monkeypatch: pytest.MonkeyPatch) -> HashEmbedder:
    embedder = HashEmbedder()
    monkeypatch.setattr("flows.models.open_embedder", lambda name, endpoint, options: embedder)
    return embedder


def test_a_first_run_fills_one_collection_for_each_strategy(source: Path) -> None:
    report = ingest(source)
    assert report.exit_status == 0
    assert list(report.strategies) == list(STRATEGIES)
    with connect() as client:
        infos = {info.strategy: info for info in list_collections(client)}
        assert alias_targets(client) == {f"docs__{name}": f"docs__{name}__1" for name in STRATEGIES}
    for name, own in report.strategies.items():
        assert (own.documents, own.unchanged, own.failed) == (3, 0, [])
        assert infos[name].documents == 3
        assert infos[name].chunks == own.chunks > 0
    assert infos["semantic_parent_child"].parents > 0


def test_a_chunk_carries_what_readers_need(source: Path) -> None:
    ingest(source, "recursive")
    (tea,) = [row for row in of_kind("docs__recursive", "chunk") if row["metadata"]["source"] == "notes/tea.md"]
    assert tea["text"] == "# Tea\n\nGreen tea wants cool water. Black tea wants it boiling."
    metadata = tea["metadata"]
    assert (metadata["title"], metadata["headings"], metadata["tags"]) == ("On tea", ["Tea"], ["drink"])
    assert (metadata["start_char"], metadata["end_char"], metadata["index"]) == (0, 62, 0)
    assert (metadata["strategy"], metadata["language"]) == ("recursive", "en")
    assert tea["parent_id"] is None


def test_contextual_retrieval_keeps_the_context_apart_from_the_text(source: Path) -> None:
    ingest(source, "contextual_retrieval")
    for row in of_kind("docs__contextual_retrieval", "chunk"):
        assert row["context"]
        assert row["context"] not in row["text"]
        assert row["metadata"]["context_source"] == "outline"


def test_children_name_parents_that_are_stored_without_a_vector(source: Path) -> None:
    ingest(source, "semantic_parent_child")
    stored = points("docs__semantic_parent_child")
    parents = {id_ for id_, (payload, _) in stored.items() if payload["kind"] == "parent"}
    children = [payload for payload, _ in stored.values() if payload["kind"] == "chunk"]
    assert {child["parent_id"] for child in children} == parents
    assert all(not vector for payload, vector in stored.values() if payload["kind"] != "chunk")
    assert all(vector for payload, vector in stored.values() if payload["kind"] == "chunk")


def test_a_second_run_over_the_same_source_writes_and_embeds_nothing(source: Path) -> None:
    first = ingest(source)
    before = {name: points(f"docs__{name}") for name in STRATEGIES}
    second = ingest(source)
    for name, own in second.strategies.items():
        assert (own.documents, own.unchanged) == (3, 3)
        assert (own.upserted, own.deleted, own.embedded, own.cached) == (0, 0, 0, 0)
        assert own.chunks == first.strategies[name].chunks
        assert points(f"docs__{name}") == before[name]


def test_an_edited_document_embeds_only_what_is_new(source: Path, picky: HashEmbedder) -> None:
    (source / "long.md").write_text("\n\n".join(f"Paragraph {n} is about the number {n}." for n in range(30)))
    options = {"overrides": {"recursive_chunk_chars": "60"}}
    ingest(source, "recursive", **options)
    picky.texts.clear()
    text = (source / "long.md").read_text()
    (source / "long.md").write_text(
        text.replace("Paragraph 7 is about the number 7.", "Here is something else at last.")
    )
    report = ingest(source, "recursive", **options)
    assert picky.texts == ["Here is something else at last."]
    own = report.strategies["recursive"]
    assert (own.unchanged, own.embedded, own.deleted) == (3, 1, 1)


def test_an_edit_ends_in_the_same_points_as_a_clean_run(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(source)
    (source / "guide.md").write_text("# Guide\n\nA new start.\n\n" + TEXTS["guide.md"].removeprefix("# Guide\n\n"))
    (source / "log.txt").unlink()
    (source / "more.md").write_text("More to say. It is short.")
    ingest(source)
    edited = {name: points(f"docs__{name}") for name in STRATEGIES}
    monkeypatch.setenv("QUARRY_HOME", str(tmp_path / "clean"))
    ingest(source)
    assert {name: points(f"docs__{name}") for name in STRATEGIES} == edited


def test_garbage_that_stands_at_the_begin_of_a_run_can_be_collected_after_it(source: Path) -> None:
    class Cycle:
        pass

    cycle = Cycle()
    cycle.itself = cycle  # type: ignore[attr-defined]
    gone = weakref.ref(cycle)

    class Drops(Observer):
        def planned(self, strategies: dict[str, int]) -> None:
            nonlocal cycle
            del cycle
            gc.collect()
            assert gone()

    with Ingestion(Request(str(source), strategies=("recursive",)), Settings.load(), Drops()) as ingestion:
        run(ingestion, PlainRunner(1))
    gc.collect()
    assert gone() is None


def test_what_somebody_else_keeps_from_the_search_for_garbage_stays_so(source: Path) -> None:
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        ingest(source, "recursive")
        assert gc.get_freeze_count() > frozen // 2
    finally:
        gc.unfreeze()


def test_a_touched_file_is_unchanged(source: Path) -> None:
    ingest(source, "recursive")
    (source / "guide.md").touch()
    assert ingest(source, "recursive").strategies["recursive"].unchanged == 3


def test_a_vanished_document_goes_and_its_twin_stays(source: Path) -> None:
    (source / "twin.md").write_text(TEXTS["guide.md"])
    ingest(source, "recursive")
    (source / "guide.md").unlink()
    report = ingest(source, "recursive")
    assert (report.exit_status, report.withheld) == (0, 0)
    left = {row["metadata"]["source"] for row in of_kind("docs__recursive", "chunk")}
    assert left == {"twin.md", "notes/tea.md", "log.txt"}


def many(source: Path, count: int) -> None:
    for number in range(count):
        (source / f"many-{number:02}.md").write_text(f"Document number {number}.")


def test_an_emptied_source_deletes_nothing_unless_told_so(source: Path) -> None:
    many(source, 17)
    ingest(source, "fixed_size")
    for file in source.rglob("*.*"):
        file.unlink()
    withheld = ingest(source, "fixed_size")
    assert (withheld.exit_status, withheld.withheld) == (1, 20)
    assert withheld.summary().startswith("20 deletions withheld")
    assert len(of_kind("docs__fixed_size", "document")) == 20
    assert ingest(source, "fixed_size", allow_deletes=19).withheld == 20
    assert ingest(source, "fixed_size", allow_deletes=20).exit_status == 0
    assert points("docs__fixed_size") == {}


def test_additions_are_stored_although_deletions_are_withheld(source: Path) -> None:
    many(source, 17)
    ingest(source, "fixed_size")
    for file in source.glob("many-*.md"):
        file.unlink()
    (source / "new.md").write_text("Brand new.")
    report = ingest(source, "fixed_size")
    assert report.withheld == 17
    assert "new.md" in {row["uri"] for row in of_kind("docs__fixed_size", "document")}


def test_one_file_of_a_corpus_is_updated_without_touching_the_rest(source: Path) -> None:
    ingest(source, "recursive")
    (source / "log.txt").unlink()
    (source / "notes/tea.md").write_text("White tea wants patience.")
    report = ingest(source / "notes/tea.md", "recursive")
    assert (report.corpus, report.exit_status) == ("docs", 0)
    rows = of_kind("docs__recursive", "chunk")
    assert {row["metadata"]["source"] for row in rows} == {"guide.md", "notes/tea.md", "log.txt"}
    assert "White tea wants patience." in {row["text"] for row in rows}


def test_a_glob_takes_what_it_names_and_deletes_nothing(source: Path) -> None:
    ingest(source, "recursive")
    (source / "log.txt").unlink()
    report = ingest(f"{source}/**/*.md", "recursive")
    assert report.strategies["recursive"].unchanged == 2
    assert len(of_kind("docs__recursive", "document")) == 3


def test_a_file_that_cannot_be_read_is_reported_and_keeps_its_points(source: Path) -> None:
    ingest(source, "recursive")
    before = of_kind("docs__recursive", "chunk")
    (source / "guide.md").write_bytes(bytes(range(256)) * 40)
    (source / "logo.png").write_bytes(b"\x89PNG")
    report = ingest(source, "recursive")
    assert [document for document, _ in report.unreadable] == ["guide.md"]
    assert "logo.png" in [document for document, _ in report.skipped]
    assert report.exit_status == 1
    assert of_kind("docs__recursive", "chunk") == before


def test_a_blank_document_is_skipped_and_counted_in_every_run(source: Path) -> None:
    (source / "blank.md").write_text(" \n\t\n")
    for _ in range(2):
        report = ingest(source, "recursive", "sentence")
        assert report.skipped == [("blank.md", "blank: nothing but white space")]
        assert report.exit_status == 0


def test_a_document_that_becomes_blank_loses_its_points(source: Path) -> None:
    ingest(source, "recursive")
    (source / "guide.md").write_text("")
    ingest(source, "recursive")
    assert {row["metadata"]["source"] for row in of_kind("docs__recursive", "chunk")} == {"notes/tea.md", "log.txt"}


def test_one_poisoned_document_fails_alone(source: Path, picky: HashEmbedder) -> None:
    picky.refused = "bearings"
    report = ingest(source, "recursive", "sentence")
    for own in report.strategies.values():
        assert own.failed == [("guide.md", "no vector")]
        assert own.error is None
    assert report.exit_status == 1
    assert {row["metadata"]["source"] for row in of_kind("docs__recursive", "chunk")} == {"notes/tea.md", "log.txt"}
    picky.refused = ""
    again = ingest(source, "recursive", "sentence")
    assert again.exit_status == 0
    assert again.strategies["recursive"].unchanged == 2


def test_the_old_text_stays_until_the_new_one_can_be_stored(source: Path, picky: HashEmbedder) -> None:
    ingest(source, "recursive")
    picky.refused = "poison"
    (source / "guide.md").write_text("This is poison.")
    ingest(source, "recursive")
    assert TEXTS["guide.md"].strip() in {row["text"] for row in of_kind("docs__recursive", "chunk")}
    picky.refused = ""
    ingest(source, "recursive")
    texts = {row["text"] for row in of_kind("docs__recursive", "chunk")}
    assert "This is poison." in texts
    assert TEXTS["guide.md"].strip() not in texts


def test_a_failing_strategy_leaves_the_others_complete(source: Path, semantic_fails: None) -> None:
    report = ingest(source)
    assert (
        report.summary()
        == "1 of 6 strategies failed: semantic (the disk is full); documents not attempted: 3 in semantic"
    )
    assert report.exit_status == 1
    for name, own in report.strategies.items():
        assert own.documents == (0 if name == "semantic" else 3)
    with connect() as client:
        assert set(alias_targets(client)) == {f"docs__{name}" for name in STRATEGIES if name != "semantic"}


def test_a_fatal_model_error_stops_the_strategy_and_is_named_once(source: Path, picky: HashEmbedder) -> None:
    picky.refused, picky.fatal = "e", True
    report = ingest(source, "recursive")
    own = report.strategies["recursive"]
    assert (own.error, own.failed) == ("no vector", [])


def test_changed_settings_are_refused_before_anything_is_embedded(source: Path, picky: HashEmbedder) -> None:
    ingest(source, "recursive", "sentence")
    picky.texts.clear()
    with pytest.raises(
        SettingsChanged, match=r"chunk_size: 512 stored, 256 asked \(in docs__recursive, docs__sentence\)"
    ):
        ingest(source, overrides={"chunk_size": "256"})
    assert picky.texts == []
    with connect() as client:
        assert {info.strategy for info in list_collections(client)} == {"recursive", "sentence"}


def test_a_rebuild_moves_the_alias_and_keeps_the_previous_collection(source: Path) -> None:
    ingest(source, "recursive")
    report = ingest(source, "recursive", rebuild=True, overrides={"chunk_size": "20"})
    assert report.exit_status == 0
    with connect() as client:
        assert alias_targets(client) == {"docs__recursive": "docs__recursive__2"}
        states = {info.collection: info.state for info in list_collections(client)}
    assert states == {"docs__recursive__1": "superseded", "docs__recursive__2": "live"}


def test_a_rebuild_with_a_failed_document_leaves_readers_where_they_are(source: Path, picky: HashEmbedder) -> None:
    ingest(source, "recursive")
    picky.refused = "bearings"
    (source / "guide.md").write_text("New bearings.")
    report = ingest(source, "recursive", rebuild=True, overrides={"chunk_size": "20"})
    assert report.exit_status == 1
    assert "docs__recursive__2 is not complete" in (report.strategies["recursive"].error or "")
    with connect() as client:
        assert alias_targets(client) == {"docs__recursive": "docs__recursive__1"}
    picky.refused = ""
    assert ingest(source, "recursive", rebuild=True, overrides={"chunk_size": "20"}).exit_status == 0
    with connect() as client:
        assert alias_targets(client) == {"docs__recursive": "docs__recursive__2"}


def test_a_rebuild_of_a_part_is_refused(source: Path) -> None:
    ingest(source, "recursive")
    with pytest.raises(SettingError, match="rebuild"):
        ingest(source / "guide.md", "recursive", rebuild=True)


def test_the_same_corpus_below_another_root_is_refused(source: Path, tmp_path: Path) -> None:
    ingest(source, "recursive")
    other = tmp_path / "other" / "docs"
    other.mkdir(parents=True)
    (other / "a.md").write_text("Another one.")
    with pytest.raises(StoreError, match="--corpus"):
        ingest(other, "recursive")


def test_a_dry_run_lists_what_would_be_done_and_changes_nothing(source: Path) -> None:
    dry = ingest(source, "recursive", dry_run=True)
    assert dry.strategies["recursive"].planned == {
        "new": ["guide.md", "log.txt", "notes/tea.md"],
        "changed": [],
        "moved": [],
        "unfinished": [],
        "parked": [],
        "unchanged": [],
        "vanished": [],
        "withheld": [],
    }
    with connect() as client:
        assert list_collections(client) == []
    ingest(source, "recursive")
    before = points("docs__recursive")
    (source / "guide.md").write_text("Changed.")
    (source / "log.txt").unlink()
    planned = ingest(source, "recursive", dry_run=True).strategies["recursive"].planned
    assert planned is not None
    assert (planned["changed"], planned["vanished"], planned["unchanged"]) == (
        ["guide.md"],
        ["log.txt"],
        ["notes/tea.md"],
    )
    assert points("docs__recursive") == before


def test_a_missing_source_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="does not exist"):
        ingest(tmp_path / "nowhere")


def test_models_of_the_collection_are_kept_whatever_auto_would_choose(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(source, "recursive")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    (source / "guide.md").write_text("Changed.")
    report = ingest(source, "recursive")
    assert (report.exit_status, report.strategies["recursive"].embedding_model) == (0, "wordllama")


class StopsAfterFirst(Observer):
    """Interrupts a run when the first documents are done."""

    ingestion: Ingestion

    def advanced(self, strategy: str, documents: int) -> None:
        self.ingestion.stop.set()


def test_a_stopped_run_keeps_what_is_done_and_the_next_run_goes_on(source: Path) -> None:
    many(source, 77)
    observer = StopsAfterFirst()
    request = Request(str(source), strategies=("recursive",))
    with Ingestion(request, Settings.load(), observer) as ingestion, PlainRunner(1) as runner:
        observer.ingestion = ingestion
        report: Report = run(ingestion, runner)
    assert report.interrupted
    done = report.strategies["recursive"].documents
    assert 0 < done < 80
    again = ingest(source, "recursive")
    assert again.exit_status == 0
    assert again.strategies["recursive"].unchanged == done
    assert len(of_kind("docs__recursive", "document")) == 80


def test_a_rebuild_of_an_emptied_source_leaves_readers_where_they_are(source: Path) -> None:
    many(source, 17)
    ingest(source, "fixed_size")
    for file in source.rglob("*.*"):
        file.unlink()
    report = ingest(source, "fixed_size", rebuild=True)
    assert (report.exit_status, report.withheld) == (1, 20)
    assert "20 documents of the live collection are gone" in (report.strategies["fixed_size"].error or "")
    with connect() as client:
        assert alias_targets(client) == {"docs__fixed_size": "docs__fixed_size__1"}
    assert ingest(source, "fixed_size", rebuild=True, allow_deletes=20).exit_status == 0
    with connect() as client:
        assert alias_targets(client) == {"docs__fixed_size": "docs__fixed_size__2"}


def test_a_rebuild_from_an_incomplete_listing_leaves_readers_where_they_are(source: Path) -> None:
    ingest(source, "recursive")
    (source / "notes/tea.md").unlink()
    (source / "notes").rmdir()
    (source / "notes").symlink_to("/nowhere", target_is_directory=True)
    report = ingest(source, "recursive", rebuild=True)
    assert report.exit_status == 1
    assert "the listing of the source is incomplete" in (report.strategies["recursive"].error or "")
    with connect() as client:
        assert alias_targets(client) == {"docs__recursive": "docs__recursive__1"}


def test_a_rebuild_keeps_the_models_that_the_collection_names(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest(source, "recursive")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    report = ingest(source, "recursive", rebuild=True)
    assert (report.exit_status, report.strategies["recursive"].embedding_model) == (0, "wordllama")


def test_a_document_that_comes_back_after_a_cut_off_deletion_is_stored_again(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stores.points import Points

    ingest(source, "recursive")
    text = (source / "log.txt").read_text()
    (source / "log.txt").unlink()
    delete, calls = Points.delete, []

    def cut_off(self: Points, ids: Any) -> None:
        calls.append(ids)
        if len(calls) == 2:
            raise StoreError("the store is gone")
        delete(self, ids)

    monkeypatch.setattr(Points, "delete", cut_off)
    assert ingest(source, "recursive").exit_status == 1
    monkeypatch.undo()
    monkeypatch.setenv("QUARRY_HOME", str(source.parent / "home"))
    (source / "log.txt").write_text(text)
    assert ingest(source, "recursive").exit_status == 0
    assert "log.txt" in {row["metadata"]["source"] for row in of_kind("docs__recursive", "chunk")}


def test_a_document_that_once_failed_comes_after_all_others(source: Path, picky: HashEmbedder) -> None:
    picky.refused = "pump"
    ingest(source, "recursive")
    picky.refused = ""
    many(source, 3)
    with Ingestion(Request(str(source), strategies=("recursive",)), Settings.load(), Observer()) as ingestion:
        ingestion.plan()
        (batch,) = ingestion.batches()
    assert [entry.uri for entry in batch] == ["many-00.md", "many-01.md", "many-02.md", "guide.md"]


def test_a_journal_that_cannot_be_read_stops_its_strategy_alone(source: Path) -> None:
    ingest(source, "recursive", "sentence")
    with connect() as client:
        row = next(id_ for id_, (payload, _) in points("docs__sentence").items() if payload["kind"] == "document")
        client.delete_payload("docs__sentence", ["status"], [row])
    report = ingest(source, "recursive", "sentence")
    assert "journal row" in (report.strategies["sentence"].error or "")
    assert report.strategies["recursive"].error is None


def test_a_fault_of_a_parser_is_that_document_s_failure(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from flows import loading as module

    load = module.load_document

    def odd(entry: Any, corpus: str) -> Any:
        if entry.uri == "guide.md":
            raise IndexError("odd text")
        return load(entry, corpus)

    monkeypatch.setattr(module, "load_document", odd)
    report = ingest(source, "recursive")
    assert report.unreadable == [("guide.md", "IndexError: odd text")]
    assert report.strategies["recursive"].documents == 2


def test_a_chunk_size_over_the_model_s_longest_input_is_refused(source: Path, picky: HashEmbedder) -> None:
    picky.max_input_tokens = 100
    with pytest.raises(SettingError, match="at most 100, the longest input of hash"):
        ingest(source, "recursive")


def test_a_failed_batch_counts_what_was_stored_before(source: Path, picky: HashEmbedder) -> None:
    many(source, 77)
    picky.refused, picky.fatal = "number 76", True
    own = ingest(source, "recursive").strategies["recursive"]
    assert own.error == "no vector"
    assert (
        own.documents
        == len([row for row in of_kind("docs__recursive__1", "document") if row["status"] == "done"])
        == 64
    )


def test_a_language_detector_that_cannot_be_unpacked_ends_the_run_and_counts_against_no_document(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **named: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp")

    language._load.cache_clear()
    (source / "notes" / "long.md").write_text("The quick brown fox jumps over the lazy dog, and then it sleeps.\n" * 3)
    with monkeypatch.context() as patch:
        patch.setattr("py3langid.langid.LanguageIdentifier.from_model_file", full)
        report = ingest(source, "recursive")
    assert report.exit_status == 1
    assert "language detector" in (report.error or "")
    assert "TMPDIR" in (report.error or "")
    assert report.unreadable == []
    assert of_kind("docs__recursive__1", "document") == []
    again = ingest(source, "recursive")
    assert (again.exit_status, again.strategies["recursive"].documents) == (0, 4)
