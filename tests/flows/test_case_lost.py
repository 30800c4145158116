"""Lost data and partial failure: a document is stored whole or is told to have failed, and the next run completes it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from flows.ingestion import Ingestion
from stores import connect
from stores.client import EmbeddedClient
from tests.doubles import HashEmbedder
from tests.flows.conftest import ingest, quarry
from tests.flows.test_ingestion import of_kind, picky, points

__all__ = ["picky"]


def five_lines(source: Path) -> dict[str, str]:
    """A document of five chunks; the settings for that."""
    (source / "long.md").write_text("\n\n".join(f"Paragraph {n} is about the number {n}." for n in range(5)))
    return {"recursive_chunk_chars": "50"}


@pytest.mark.parametrize("failing", [1, 2])
def test_a_document_in_several_requests_is_done_when_all_of_them_are(
    source: Path, monkeypatch: pytest.MonkeyPatch, failing: int
) -> None:
    overrides = five_lines(source)
    upsert = EmbeddedClient.upsert
    made = []

    def fails(self: EmbeddedClient, collection: str, points: list[Any], **options: Any) -> object:
        if any("Paragraph" in (point.payload or {}).get("text", "") for point in points):
            made.append(len(points))
            if len(made) == failing:
                raise ValueError("refused")
        return upsert(self, collection, points=points, **options)

    with monkeypatch.context() as patch:
        patch.setattr("stores.batches.point_batches.__defaults__", (3, 8_000_000))
        patch.setattr(EmbeddedClient, "upsert", fails)
        # The document fails with its sub-batch, and again alone.
        patch.setattr("stores.writer.DOCUMENTS", 1)
        report = ingest(source, "recursive", overrides=overrides)
    assert (report.exit_status, [uri for uri, _ in report.strategies["recursive"].failed]) == (1, ["long.md"])
    (row,) = [row for row in of_kind("docs__recursive", "document") if row["uri"] == "long.md"]
    assert (row["status"], row["attempts"]) == ("failed", 1)
    again = ingest(source, "recursive", overrides=overrides)
    assert (again.exit_status, again.strategies["recursive"].unchanged) == (0, 3)
    assert sum("Paragraph" in row["text"] for row in of_kind("docs__recursive", "chunk")) == 5


def test_files_that_are_bad_in_any_way_take_no_other_with_them(source: Path) -> None:
    (source / "binary.md").write_bytes(bytes(range(256)) * 40)
    (source / "zeros.md").write_bytes(b"\x00" * 500)
    (source / "gone.md").symlink_to(source / "nowhere.md")
    (source / "deep.md").write_text("> " * 3000 + "quoted")
    (source / "front.md").write_text("---\na: [1\n---\n# Front\n\nThe text behind bad front matter.\n")
    (source / "empty.md").write_text("")
    report = ingest(source, "recursive", "semantic_parent_child")
    assert [uri for uri, _ in report.unreadable] == ["binary.md", "zeros.md"]
    assert report.exit_status == 1
    for name in ("recursive", "semantic_parent_child"):
        stored = {row["metadata"]["source"] for row in of_kind(f"docs__{name}", "chunk")}
        assert stored >= {"guide.md", "notes/tea.md", "log.txt", "front.md", "deep.md"}


def test_a_point_without_a_vector_is_never_stored(source: Path, picky: HashEmbedder) -> None:
    picky.refused = "bearings"
    ingest(source, "semantic_parent_child")
    for payload, vector in points("docs__semantic_parent_child").values():
        assert (payload["kind"] == "chunk") == bool(vector)
        assert payload["kind"] == "document" or payload["metadata"]["source"] != "guide.md"


def test_a_rebuild_that_dies_half_way_answers_from_the_old_collection(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(source, "recursive")
    before = points("docs__recursive")

    class Killed(BaseException):
        pass

    def killed(self: Ingestion, name: str) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Ingestion, "finish", killed)
        with pytest.raises(Killed):
            ingest(source, "recursive", rebuild=True, overrides={"chunk_size": "20"})
    assert points("docs__recursive") == before
    assert len(of_kind("docs__recursive__2", "chunk")) > 0
    with connect() as client:
        client.delete_collection("docs__recursive__2")
    assert ingest(source, "recursive").strategies["recursive"].unchanged == 3


def test_a_document_that_vanishes_while_the_run_lasts_is_told_and_keeps_its_points(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(source, "recursive")
    before = of_kind("docs__recursive", "chunk")
    (source / "guide.md").write_text("# Guide\n\nEdited.\n")
    plan = Ingestion.plan

    def planned(self: Ingestion) -> None:
        plan(self)
        (source / "guide.md").unlink()

    with monkeypatch.context() as patch:
        patch.setattr(Ingestion, "plan", planned)
        report = ingest(source, "recursive")
    assert (report.exit_status, [uri for uri, _ in report.unreadable]) == (1, ["guide.md"])
    assert of_kind("docs__recursive", "chunk") == before
    # The disk's doing, not the document's: it is no step towards being parked.
    assert ingest(source, "recursive").exit_status == 0
    assert {row["uri"] for row in of_kind("docs__recursive", "document")} == {"notes/tea.md", "log.txt"}


def test_a_cache_that_is_gone_costs_embeddings_and_nothing_else(
    source: Path, tmp_path: Path, picky: HashEmbedder
) -> None:
    ingest(source, "recursive")
    before = points("docs__recursive")
    (tmp_path / "home" / "cache.sqlite").write_bytes(b"no database at all" * 300)
    picky.texts.clear()
    assert ingest(source, "recursive").strategies["recursive"].unchanged == 3
    assert (picky.texts, points("docs__recursive")) == ([], before)


def test_a_store_folder_that_is_gone_is_made_again_from_the_cache(
    source: Path, tmp_path: Path, picky: HashEmbedder
) -> None:
    ingest(source, "recursive")
    before = points("docs__recursive")
    shutil.rmtree(tmp_path / "home" / "qdrant")
    picky.texts.clear()
    assert ingest(source, "recursive").exit_status == 0
    assert (picky.texts, points("docs__recursive")) == ([], before)


def test_every_failure_is_seen_by_a_program_and_by_a_person(source: Path, picky: HashEmbedder) -> None:
    picky.refused = "bearings"
    result = quarry("ingest", source, "--plain", "--strategy", "recursive")
    assert result.exit_code == 1
    assert "guide.md: no vector" in result.stdout


def test_a_file_that_changes_after_the_plan_is_stored_as_what_was_read(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, other = "# Guide\n\nAs planned.\n", "# Guide\n\nAs it was for a moment.\n"
    (source / "guide.md").write_text(old)
    plan = Ingestion.plan

    def planned(self: Ingestion) -> None:
        plan(self)
        (source / "guide.md").write_text(other)

    with monkeypatch.context() as patch:
        patch.setattr(Ingestion, "plan", planned)
        ingest(source, "recursive")
    assert other.strip() in {row["text"] for row in of_kind("docs__recursive", "chunk")}
    (source / "guide.md").write_text(old)
    assert ingest(source, "recursive").strategies["recursive"].unchanged == 2
    texts = {row["text"] for row in of_kind("docs__recursive", "chunk")}
    assert (old.strip() in texts, other.strip() in texts) == (True, False)
