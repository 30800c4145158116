"""Duplicates and stale chunks: whatever becomes of a corpus between two runs, the store ends as if it had been ingested just now."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from qdrant_client import QdrantClient

from stores import connect
from stores.client import EmbeddedClient
from tests.doubles import HashEmbedder
from tests.flows.conftest import TEXTS, ingest
from tests.flows.test_ingestion import of_kind, picky, points

__all__ = ["picky"]

STRATEGIES = ("recursive", "contextual_retrieval", "semantic_parent_child")


def swap(source: Path) -> None:
    (source / "guide.md").rename(source / "kept.md")
    (source / "notes/tea.md").rename(source / "guide.md")
    (source / "kept.md").rename(source / "notes/tea.md")


def chain(source: Path) -> None:
    (source / "notes/tea.md").rename(source / "tea.md")
    (source / "guide.md").rename(source / "notes/tea.md")


def replace_by_a_copy(source: Path) -> None:
    (source / "guide.md").write_text((source / "notes/tea.md").read_text())


def copy_and_edit_the_first(source: Path) -> None:
    (source / "copy.md").write_text(TEXTS["guide.md"])
    (source / "guide.md").write_text(TEXTS["guide.md"] + "\nOne line more.\n")


def rename_and_put_another_in_its_place(source: Path) -> None:
    (source / "guide.md").rename(source / "old-guide.md")
    (source / "guide.md").write_text("# Guide\n\nAll of it is new.\n")


def fold_two_into_one(source: Path) -> None:
    text = (source / "log.txt").read_text()
    (source / "log.txt").unlink()
    (source / "guide.md").write_text(TEXTS["guide.md"] + "\n" + text)


def shorten(source: Path) -> None:
    (source / "guide.md").write_text("# Guide\n\nThe pump starts at dawn.\n")


def repeat(source: Path) -> None:
    (source / "guide.md").write_text(TEXTS["guide.md"] * 3)


def turn_into_text(source: Path) -> None:
    (source / "guide.md").rename(source / "guide.txt")


def change_the_front_matter_alone(source: Path) -> None:
    (source / "notes/tea.md").write_text(TEXTS["notes/tea.md"].replace("tags: [drink]", "tags: [leaf]\nowner: Li"))


def change_the_line_ends(source: Path) -> None:
    (source / "guide.md").write_bytes(TEXTS["guide.md"].replace("\n", "\r\n").encode())


CHANGES = [
    swap,
    chain,
    replace_by_a_copy,
    copy_and_edit_the_first,
    rename_and_put_another_in_its_place,
    fold_two_into_one,
    shorten,
    repeat,
    turn_into_text,
    change_the_front_matter_alone,
    change_the_line_ends,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_after_any_change_the_store_is_that_of_a_clean_run(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    ingest(source, *STRATEGIES)
    change(source)
    assert ingest(source, *STRATEGIES).exit_status == 0
    told = {name: points(f"docs__{name}") for name in STRATEGIES}
    monkeypatch.setenv("QUARRY_HOME", str(tmp_path / "clean"))
    ingest(source, *STRATEGIES)
    assert told == {name: points(f"docs__{name}") for name in STRATEGIES}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_is_put_back_as_it_was_leaves_no_trace(source: Path, change: Callable[[Path], None]) -> None:
    ingest(source, "semantic_parent_child")
    before = points("docs__semantic_parent_child")
    change(source)
    ingest(source, "semantic_parent_child")
    for file in source.rglob("*.*"):
        file.unlink()
    for name, text in TEXTS.items():
        (source / name).write_text(text)
    assert ingest(source, "semantic_parent_child").exit_status == 0
    assert points("docs__semantic_parent_child") == before


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The calls that write points, by name and the kinds of what is written."""
    made: list[str] = []
    upsert = EmbeddedClient.upsert

    def spied(self: EmbeddedClient, collection: str, points: list, **options: object) -> object:  # type: ignore[type-arg]
        made.append("upsert " + " ".join(sorted({(point.payload or {})["kind"] for point in points})))
        return upsert(self, collection, points=points, **options)

    monkeypatch.setattr(EmbeddedClient, "upsert", spied)
    for name in ("delete", "batch_update_points", "overwrite_payload", "set_payload"):

        def call(self: QdrantClient, *args: object, name: str = name, **options: object) -> object:
            made.append(name)
            return getattr(super(EmbeddedClient, self), name)(*args, **options)

        monkeypatch.setattr(EmbeddedClient, name, call, raising=False)
    return made


def test_nothing_changed_means_no_write_but_the_lease(source: Path, writes: list[str]) -> None:
    ingest(source, "recursive")
    assert "upsert chunk" in writes
    writes.clear()
    ingest(source, "recursive")
    assert writes == ["upsert lease", "delete"]


def test_new_points_are_written_before_old_ones_are_deleted(source: Path, writes: list[str]) -> None:
    ingest(source, "recursive")
    writes.clear()
    (source / "guide.md").write_text("# Guide\n\nAnother text altogether.\n")
    (source / "log.txt").unlink()
    ingest(source, "recursive")
    # The deletes: the stale chunk; the vanished document's points and its row; the lease.
    assert [call for call in writes if call in ("upsert chunk", "delete")] == ["upsert chunk", *["delete"] * 4]
    assert writes.index("upsert chunk") < writes.index("delete")


def test_one_edited_document_of_ten_embeds_nothing_of_the_others(
    source: Path, picky: HashEmbedder, tmp_path: Path
) -> None:
    for number in range(10):
        (source / f"{number}.md").write_text(f"# Number {number}\n\nIt is about {number}.\n")
    ingest(source, "recursive")
    (tmp_path / "home" / "cache.sqlite").unlink()
    picky.texts.clear()
    (source / "4.md").write_text("# Number 4\n\nIt is about more.\n")
    ingest(source, "recursive")
    assert picky.texts == ["# Number 4\n\nIt is about more."]


def test_a_journal_that_was_lost_is_written_again_over_the_same_points(source: Path) -> None:
    ingest(source, "semantic_parent_child")
    before = points("docs__semantic_parent_child")
    with connect() as client:
        rows = [id_ for id_, (payload, _) in before.items() if payload["kind"] == "document"]
        client.delete("docs__semantic_parent_child", rows)
    assert ingest(source, "semantic_parent_child").exit_status == 0
    assert points("docs__semantic_parent_child") == before


def test_a_strategy_added_later_touches_no_other(source: Path) -> None:
    ingest(source, "recursive")
    before = points("docs__recursive")
    (source / "guide.md").write_text("# Guide\n\nEdited.\n")
    ingest(source, "sentence")
    assert points("docs__recursive") == before
    assert "# Guide\n\nEdited." in {row["text"] for row in of_kind("docs__sentence", "chunk")}
