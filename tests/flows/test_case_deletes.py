"""Deletes of the wrong thing: what is not known to be gone stays, and nobody else's points are ever touched."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import models

from stores import connect
from stores.client import EmbeddedClient
from stores.inventory import alias_targets
from tests.flows.conftest import TEXTS, ingest, quarry, told
from tests.flows.test_ingestion import of_kind, points


def uris(collection: str) -> set[str]:
    return {row["uri"] for row in of_kind(collection, "document")}


def test_what_lies_below_a_folder_that_cannot_be_read_is_kept(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (source / "other.md").write_text("Gone next time.")
    ingest(source, "recursive")
    (source / "other.md").unlink()
    scandir = os.scandir

    def refuses(path: Any = ".") -> Any:
        if Path(path).name == "notes":
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refuses)
        report = ingest(source, "recursive")
    # What is below that folder is not known to be gone, and neither is anything else.
    assert (report.exit_status, report.withheld) == (1, 2)
    assert any("notes" in document for document, _ in report.skipped + report.unreadable)
    assert uris("docs__recursive") == {"guide.md", "notes/tea.md", "log.txt", "other.md"}
    assert ingest(source, "recursive").exit_status == 0
    assert uris("docs__recursive") == {"guide.md", "notes/tea.md", "log.txt"}


def test_an_incomplete_listing_deletes_only_what_the_run_was_told_to(source: Path) -> None:
    ingest(source, "recursive")
    (source / "log.txt").unlink()
    (source / "broken").symlink_to(source / "nowhere")
    assert ingest(source, "recursive").withheld == 1
    assert "log.txt" in uris("docs__recursive")
    assert ingest(source, "recursive", allow_deletes=1).withheld == 0
    assert "log.txt" not in uris("docs__recursive")


def test_a_delete_that_removes_nothing_is_an_error(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest(source, "recursive")
    (source / "log.txt").unlink()

    delete = EmbeddedClient.delete

    def nothing(self: EmbeddedClient, collection: str, selector: Any, **options: Any) -> models.UpdateResult:
        if not isinstance(selector, models.PointIdsList):
            return delete(self, collection, selector, **options)
        return models.UpdateResult(operation_id=0, status=models.UpdateStatus.COMPLETED)

    with monkeypatch.context() as patch:
        patch.setattr(EmbeddedClient, "delete", nothing, raising=False)
        report = ingest(source, "recursive")
    assert report.exit_status == 1
    assert "still there after they were deleted" in (report.strategies["recursive"].error or "")
    assert ingest(source, "recursive").exit_status == 0
    assert told("verify")["sound"] is True


@pytest.mark.parametrize("other", ["mydocs", "docs-2", "docs_x", "x-docs"])
def test_corpora_with_names_alike_do_not_touch_each_other(source: Path, tmp_path: Path, other: str) -> None:
    second = tmp_path / "second"
    second.mkdir()
    (second / "guide.md").write_text(TEXTS["guide.md"])
    ingest(source, "recursive")
    ingest(second, "recursive", corpus=other)
    before = points(f"{other}__recursive")
    for file in source.rglob("*.*"):
        file.unlink()
    (source / "left.md").write_text("All that is left.")
    ingest(source, "recursive", allow_deletes=3)
    ingest(source, "recursive", rebuild=True, overrides={"chunk_size": "20"})
    quarry("rollback", "--corpus", "docs")
    with connect() as client:
        assert alias_targets(client)["docs__recursive"] == "docs__recursive__1"
    quarry("drop", "docs__recursive__2")
    assert points(f"{other}__recursive") == before
    assert uris("docs__recursive") == {"left.md"}


def test_neither_a_collection_nor_an_alias_of_others_is_changed(source: Path) -> None:
    with connect() as client:
        client.create_collection("theirs", vectors_config=models.VectorParams(size=2, distance=models.Distance.DOT))
        client.upsert("theirs", [models.PointStruct(id=1, vector=[1, 2], payload={"kind": "chunk"})])
        for alias in ("docs", "docs__other"):
            client.update_collection_aliases(
                [
                    models.CreateAliasOperation(
                        create_alias=models.CreateAlias(collection_name="theirs", alias_name=alias)
                    )
                ]
            )
    ingest(source, "recursive")
    ingest(source, "recursive", rebuild=True, overrides={"chunk_size": "20"})
    assert quarry("verify", "--repair").exit_code == 0
    assert quarry("drop", "theirs").exit_code != 0
    with connect() as client:
        assert client.count("theirs").count == 1
        targets = alias_targets(client)
        assert (targets["docs"], targets["docs__other"]) == ("theirs", "theirs")


def test_a_subfolder_of_a_corpus_as_its_source_deletes_nothing_above_it(source: Path) -> None:
    ingest(source, "recursive")
    (source / "notes/tea.md").unlink()
    (source / "notes/new.md").write_text("Something new.")
    report = ingest(source / "notes", "recursive", corpus="docs")
    assert report.exit_status == 0
    assert uris("docs__recursive") == {"guide.md", "log.txt", "notes/tea.md", "notes/new.md"}


def test_a_number_of_deletes_that_is_allowed_is_a_ceiling(source: Path) -> None:
    for number in range(30):
        (source / f"{number}.md").write_text(f"It is about {number}.")
    ingest(source, "recursive")
    for number in range(20):
        (source / f"{number}.md").unlink()
    assert ingest(source, "recursive", allow_deletes=19).withheld == 20
    assert len(uris("docs__recursive")) == 33
    assert ingest(source, "recursive", allow_deletes=20).withheld == 0
    assert len(uris("docs__recursive")) == 13


def test_what_was_deleted_with_approval_does_not_come_back_with_a_rebuild(source: Path) -> None:
    for number in range(30):
        (source / f"{number}.md").write_text(f"It is about {number}.")
    ingest(source, "recursive")
    ingest(source, "recursive", rebuild=True)
    assert quarry("rollback").exit_code == 0
    for number in range(20):
        (source / f"{number}.md").unlink()
    assert ingest(source, "recursive", allow_deletes=20).exit_status == 0
    # The build that was left is gone on with; it still holds them all.
    report = ingest(source, "recursive", rebuild=True)
    assert (report.exit_status, report.withheld) == (0, 0)
    assert alias_of("docs__recursive") == "docs__recursive__2"
    assert len(uris("docs__recursive")) == 13


def test_a_build_that_holds_what_is_gone_from_the_source_waits_for_approval(source: Path) -> None:
    for number in range(30):
        (source / f"{number}.md").write_text(f"It is about {number}.")
    ingest(source, "recursive")
    ingest(source, "recursive", rebuild=True)
    quarry("rollback")
    for number in range(20):
        (source / f"{number}.md").unlink()
    report = ingest(source, "recursive", rebuild=True)
    assert (report.exit_status, report.withheld) == (1, 20)
    assert alias_of("docs__recursive") == "docs__recursive__1"
    assert ingest(source, "recursive", rebuild=True, allow_deletes=20).exit_status == 0
    assert len(uris("docs__recursive")) == 13


def alias_of(alias: str) -> str:
    with connect() as client:
        return alias_targets(client)[alias]
