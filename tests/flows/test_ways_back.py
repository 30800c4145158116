"""Rollback and drop, as a user calls them, and what readers see meanwhile."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from stores import Retriever, SettingsChanged, connect
from tests.flows.conftest import ingest, quarry, told
from tests.flows.test_ingestion import of_kind


def test_a_rollback_and_a_drop_undo_a_rebuild(source: Path) -> None:
    options = {"overrides": {"recursive_chunk_chars": "40"}}
    ingest(source, "recursive")
    ingest(source, "recursive", rebuild=True, **options)
    assert quarry("rollback").stdout == "docs__recursive: from docs__recursive__2 back to docs__recursive__1\n"
    assert ingest(source, "recursive").strategies["recursive"].unchanged == 3
    rows = [line.split()[:4] for line in quarry("status").stdout.splitlines() if line.startswith("docs ")]
    assert rows == [["docs", "recursive", "1", "live"], ["docs", "recursive", "2", "superseded"]]
    refused = quarry("drop", "docs__recursive__1")
    assert (refused.exit_code, "points at it" in refused.stderr) == (1, True)
    assert told("drop", "docs__recursive__2") == {"dropped": ["docs__recursive__2"]}
    assert [own["collection"] for own in told("status")["collections"]] == ["docs__recursive__1"]


def test_readers_see_the_old_build_or_the_new_one_and_never_a_mix(source: Path) -> None:
    for number in range(30):
        (source / f"{number}.md").write_text("\n\n".join(f"The pump {number} has part {part}." for part in range(8)))
    options = {"overrides": {"recursive_chunk_chars": "30"}}
    ingest(source, "recursive")
    ended, seen = threading.Event(), []
    with connect() as client:
        builds = [{payload["text"] for payload in of_kind("docs__recursive", "chunk")}]

        def read() -> None:
            retriever = Retriever(client, "docs")
            while not ended.is_set():
                hits = retriever.search("Which part does the pump have?", "recursive", limit=20)
                seen.append({hit.text for hit in hits})

        reader = threading.Thread(target=read)
        reader.start()
        try:
            report = ingest(source, "recursive", rebuild=True, **options)
            back = quarry("rollback")
        finally:
            ended.set()
            reader.join()
    assert (report.exit_status, back.exit_code) == (0, 0)
    builds.append({payload["text"] for payload in of_kind("docs__recursive__2", "chunk")})
    assert not builds[0] & builds[1]
    assert len(seen) > 2
    assert all(texts and (texts <= builds[0] or texts <= builds[1]) for texts in seen)


def test_a_collection_of_an_earlier_version_can_be_rebuilt(source: Path) -> None:
    ingest(source, "recursive")
    with connect() as client:
        found, _ = client.scroll("docs__recursive", limit=100)
        rows = [point.id for point in found if (point.payload or {})["kind"] == "document"]
        client.delete_payload("docs__recursive", ["chunks", "parents"], points=rows)
        recipe = client.get_collection("docs__recursive").config.metadata["recipe"]  # type: ignore[index]
        client.update_collection("docs__recursive__1", metadata={"recipe": {**recipe, "schema_version": 1}})
    with pytest.raises(SettingsChanged, match="schema_version"):
        ingest(source, "recursive")
    (source / "log.txt").unlink()
    assert ingest(source, "recursive", rebuild=True).exit_status == 0
    assert {row["uri"] for row in of_kind("docs__recursive", "document")} == {"guide.md", "notes/tea.md"}
