"""Documents that fail again and again."""

from __future__ import annotations

from pathlib import Path

from stores import connect
from stores.inventory import alias_targets
from tests.doubles import HashEmbedder
from tests.flows.conftest import TEXTS, ingest, quarry, told
from tests.flows.test_ingestion import of_kind, picky

__all__ = ["picky"]


def test_a_poison_document_is_parked_after_three_runs_and_told_of(source: Path, picky: HashEmbedder) -> None:
    picky.refused = "pump"
    for _ in range(3):
        report = ingest(source, "recursive")
        assert (report.exit_status, report.strategies["recursive"].failed) == (1, [("guide.md", "no vector")])
    parked = ingest(source, "recursive")
    assert (parked.exit_status, parked.strategies["recursive"].parked) == (0, [("guide.md", "no vector")])
    assert parked.strategies["recursive"].failed == []
    (own,) = told("status")["collections"]
    assert own["parked"] == [{"document": "guide.md", "attempts": 3, "error": "no vector"}]
    assert "parked: guide.md: no vector" in quarry("status").stdout

    assert ingest(source, "recursive", retry_parked=True).exit_status == 1
    picky.refused = ""
    assert ingest(source, "recursive").strategies["recursive"].parked == [("guide.md", "no vector")]
    retried = told("ingest", source, "--plain", "--strategy", "recursive", "--retry-parked")
    assert retried["strategies"]["recursive"]["parked"] == []
    assert ingest(source, "recursive").strategies["recursive"].unchanged == 3


def test_an_edited_poison_document_is_tried_again(source: Path, picky: HashEmbedder) -> None:
    picky.refused = "pump"
    for _ in range(4):
        ingest(source, "recursive")
    (source / "guide.md").write_text("# Guide\n\nNothing bad in here.")
    report = ingest(source, "recursive")
    assert (report.exit_status, report.strategies["recursive"].documents) == (0, 3)


def test_a_parked_document_keeps_the_text_that_was_stored_before(source: Path, picky: HashEmbedder) -> None:
    ingest(source, "recursive")
    picky.refused = "poison"
    (source / "guide.md").write_text("# Guide\n\nThis is poison.")
    for _ in range(4):
        ingest(source, "recursive")
    assert TEXTS["log.txt"].strip() in {row["text"] for row in of_kind("docs__recursive", "chunk")}
    kept = [row["text"] for row in of_kind("docs__recursive", "chunk") if row["metadata"]["source"] == "guide.md"]
    assert "The pump starts at dawn." in " ".join(kept)


def test_a_file_that_never_can_be_read_is_parked_too(source: Path) -> None:
    (source / "binary.md").write_bytes(bytes(range(256)) * 40)
    for _ in range(3):
        assert ingest(source, "recursive").exit_status == 1
    report = ingest(source, "recursive")
    assert report.exit_status == 0
    assert [document for document, _ in report.strategies["recursive"].parked] == ["binary.md"]


def test_a_rebuild_is_not_held_up_by_a_parked_document(source: Path, picky: HashEmbedder) -> None:
    picky.refused = "pump"
    for _ in range(4):
        ingest(source, "recursive")
    for _ in range(3):
        assert ingest(source, "recursive", rebuild=True).exit_status == 1
    with connect() as client:
        assert alias_targets(client) == {"docs__recursive": "docs__recursive__1"}
    assert ingest(source, "recursive", rebuild=True).exit_status == 0
    with connect() as client:
        assert alias_targets(client) == {"docs__recursive": "docs__recursive__2"}


def test_a_rebuild_takes_the_text_of_a_parked_document_from_readers_only_when_told_so(
    source: Path, picky: HashEmbedder, tmp_path: Path
) -> None:
    ingest(source, "recursive")
    (tmp_path / "home" / "cache.sqlite").unlink()
    picky.refused = "pump"
    for _ in range(3):
        ingest(source, "recursive", rebuild=True)
    held = ingest(source, "recursive", rebuild=True)
    assert held.exit_status == 1
    assert "1 parked documents have text in the live collection" in (held.strategies["recursive"].error or "")
    with connect() as client:
        assert alias_targets(client) == {"docs__recursive": "docs__recursive__1"}
    assert ingest(source, "recursive", rebuild=True, allow_deletes=1).exit_status == 0
    with connect() as client:
        assert alias_targets(client) == {"docs__recursive": "docs__recursive__2"}


def test_a_parked_document_that_is_renamed_keeps_its_text_until_it_is_stored_there(
    source: Path, picky: HashEmbedder
) -> None:
    def texts() -> str:
        return " ".join(row["text"] for row in of_kind("docs__recursive", "chunk"))

    ingest(source, "recursive")
    picky.refused = "poison"
    (source / "guide.md").write_text("# Guide\n\nThis is poison.")
    for _ in range(4):
        ingest(source, "recursive")
    (source / "guide.md").rename(source / "manual.md")
    for _ in range(4):
        ingest(source, "recursive")
        assert "The pump starts at dawn." in texts()
    picky.refused = ""
    assert ingest(source, "recursive", retry_parked=True).exit_status == 0
    assert "This is poison." in texts()
    ingest(source, "recursive")
    assert "The pump starts at dawn." not in texts()
    assert {row["uri"] for row in of_kind("docs__recursive", "document")} == {"manual.md", "notes/tea.md", "log.txt"}


def test_what_fails_for_every_document_parks_none(source: Path, picky: HashEmbedder) -> None:
    for number in range(11):
        (source / f"{number}.md").write_text(f"It is about {number}.")
    picky.refused = "t"
    for _ in range(4):
        report = ingest(source, "recursive")
        assert (report.exit_status, len(report.strategies["recursive"].failed)) == (1, 14)
    picky.refused = ""
    assert ingest(source, "recursive").strategies["recursive"].documents == 14
