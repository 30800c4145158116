"""Documents that are at another place now."""

from __future__ import annotations

from pathlib import Path

import pytest

from chunkers import STRATEGIES
from tests.doubles import HashEmbedder
from tests.flows.conftest import TEXTS, ingest, told
from tests.flows.test_ingestion import of_kind, picky, points

__all__ = ["picky"]


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_moved_document_costs_no_embedding_even_without_a_cache(
    source: Path, picky: HashEmbedder, tmp_path: Path, name: str
) -> None:
    ingest(source, name)
    (tmp_path / "home" / "cache.sqlite").unlink()
    picky.texts.clear()
    (source / "deep").mkdir()
    for old in ("guide.md", "log.txt", "notes/tea.md"):
        (source / old).rename(source / "deep" / Path(old).name)
    report = ingest(source, name)
    assert (report.exit_status, report.withheld) == (0, 0)
    assert (picky.texts, report.strategies[name].moved) == ([], 3)
    sources = {row["metadata"]["source"] for row in of_kind(f"docs__{name}", "chunk")}
    assert sources == {"deep/guide.md", "deep/log.txt", "deep/tea.md"}
    assert told("verify")["sound"] is True


def test_a_move_of_a_whole_corpus_is_held_back_by_no_guard(source: Path) -> None:
    for number in range(30):
        (source / f"{number}.md").write_text(f"# Number {number}\n\nIt is about {number}.")
    ingest(source, "recursive")
    (source / "moved").mkdir()
    for file in source.glob("*.md"):
        file.rename(source / "moved" / file.name)
    report = ingest(source, "recursive")
    assert (report.exit_status, report.strategies["recursive"].moved) == (0, 31)


def test_documents_with_a_title_of_their_own_end_as_in_a_clean_run(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(source)
    (source / "guide.md").rename(source / "handbook.md")
    (source / "notes/tea.md").rename(source / "tea.md")
    ingest(source)
    moved = {name: points(f"docs__{name}") for name in STRATEGIES}
    monkeypatch.setenv("QUARRY_HOME", str(tmp_path / "clean"))
    ingest(source)
    assert {name: points(f"docs__{name}") for name in STRATEGIES} == moved


def test_the_twin_of_a_moved_document_stays(source: Path) -> None:
    (source / "twin.md").write_text(TEXTS["guide.md"])
    ingest(source, "recursive")
    (source / "guide.md").rename(source / "moved.md")
    ingest(source, "recursive")
    assert {row["uri"] for row in of_kind("docs__recursive", "document")} == {
        "twin.md",
        "moved.md",
        "notes/tea.md",
        "log.txt",
    }
