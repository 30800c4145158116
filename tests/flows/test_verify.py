"""Verify and repair, as a user calls them."""

from __future__ import annotations

from pathlib import Path

import pytest
from qdrant_client import models

from chunkers import STRATEGIES
from flows.settings import Settings
from flows.upkeep import verify_corpora
from stores import connect
from tests.doubles import HashEmbedder
from tests.flows.conftest import TEXTS, ingest, quarry, told
from tests.flows.test_ingestion import of_kind, picky, points

__all__ = ["picky"]


def lose(collection: str, kind: str, source: str | None = None) -> str:
    """Deletes a point of a kind; its id."""
    for id_, (payload, _) in points(collection).items():
        place = payload.get("metadata") or {"source": payload.get("uri")}
        if payload["kind"] == kind and source in (None, place["source"]):
            with connect() as client:
                client.delete(collection, models.PointIdsList(points=[id_]))
            return id_
    raise AssertionError(f"no {kind} in {collection}")


def test_a_sound_store_is_told_to_be_so(source: Path) -> None:
    ingest(source)
    report = told("verify")
    assert report["sound"] is True
    assert [own["strategy"] for own in report["collections"]] == list(STRATEGIES)
    assert all(own["documents"] == 3 and own["findings"] == [] for own in report["collections"])


@pytest.mark.parametrize("name", STRATEGIES)
def test_lost_points_are_found_and_a_repair_makes_them_again(source: Path, name: str) -> None:
    ingest(source, name)
    clean = points(f"docs__{name}")
    lost = lose(f"docs__{name}", "chunk", "guide.md")
    (own,) = told("verify", status=1)["collections"]
    missing = [row for row in own["findings"] if row["kind"] == "missing"]
    assert [(row["document"], lost in row["detail"]) for row in missing] == [("guide.md", True)]
    (own,) = told("verify", "--repair")["collections"]
    assert (own["sound"], own["findings"]) == (True, [])
    assert own["repaired"] >= 1
    assert points(f"docs__{name}") == clean
    assert ingest(source, name).strategies[name].unchanged == 3


def test_a_repair_embeds_only_the_damaged_documents(source: Path, picky: HashEmbedder, tmp_path: Path) -> None:
    ingest(source, "recursive")
    (tmp_path / "home" / "cache.sqlite").unlink()
    picky.texts.clear()
    lose("docs__recursive", "chunk", "log.txt")
    told("verify", "--repair")
    assert picky.texts == [TEXTS["log.txt"].strip()]


def test_a_repair_keeps_to_the_settings_of_the_collection(source: Path) -> None:
    ingest(source, "fixed_size", overrides={"chunk_size": "20", "chunk_overlap": "0"})
    clean = points("docs__fixed_size")
    lose("docs__fixed_size", "chunk")
    assert told("verify", "--repair")["sound"] is True
    assert points("docs__fixed_size") == clean


def test_a_repair_leaves_other_changes_of_the_source_to_the_next_run(source: Path) -> None:
    ingest(source, "recursive")
    lose("docs__recursive", "chunk", "guide.md")
    (source / "log.txt").unlink()
    (source / "new.md").write_text("Not yet.")
    told("verify", "--repair")
    assert {row["uri"] for row in of_kind("docs__recursive", "document")} == {"guide.md", "notes/tea.md", "log.txt"}


def test_points_that_no_document_has_are_deleted(source: Path) -> None:
    ingest(source, "recursive")
    clean = points("docs__recursive")
    with connect() as client:
        place = {"source": "gone.md", "start_char": 0, "end_char": 5}
        payload = {"kind": "chunk", "doc_id": "00000000-0000-4000-8000-00000000000d", "text": "stray"}
        payload |= {"context": None, "parent_id": None, "embedding_hash": "h", "metadata": place}
        stray = models.PointStruct(id="00000000-0000-4000-8000-000000000001", vector=[1.0] * 256, payload=payload)
        client.upsert("docs__recursive", [stray])
    (own,) = told("verify", status=1)["collections"]
    assert ("orphaned", "gone.md") in {(row["kind"], row["document"]) for row in own["findings"]}
    assert told("verify", "--repair")["sound"] is True
    assert points("docs__recursive") == clean


def test_what_the_source_no_longer_holds_cannot_be_repaired_and_says_so(source: Path) -> None:
    ingest(source, "recursive")
    lose("docs__recursive", "chunk", "log.txt")
    (source / "log.txt").unlink()
    (own,) = told("verify", "--repair", status=1)["collections"]
    assert "log.txt" in own["error"]
    assert "cannot be made again" in own["error"]
    # The next run deletes it.
    assert ingest(source, "recursive").exit_status == 0
    assert told("verify")["sound"] is True


def test_a_row_that_cannot_be_read_is_put_right(source: Path) -> None:
    ingest(source, "recursive")
    clean = points("docs__recursive")
    row = next(id_ for id_, (payload, _) in clean.items() if payload["kind"] == "document")
    with connect() as client:
        client.delete_payload("docs__recursive", ["status", "chunk_ids"], [row])
    assert ingest(source, "recursive").exit_status == 1
    assert told("verify", "--repair")["sound"] is True
    assert points("docs__recursive") == clean


def test_a_collection_dropped_by_hand_is_noticed(source: Path) -> None:
    ingest(source, "recursive", "sentence")
    with connect() as client:
        client.delete_collection("docs__sentence__1")
    report = told("verify", status=1)
    (lost,) = [own for own in report["collections"] if not own["sound"]]
    assert (lost["strategy"], lost["collection"]) == ("sentence", None)
    assert "somebody dropped it" in lost["error"]
    assert "--strategy sentence" in lost["error"]
    assert ingest(source, "recursive", "sentence").exit_status == 0
    assert told("verify")["sound"] is True


def test_a_verification_is_a_table_that_names_what_differs(source: Path) -> None:
    ingest(source, "recursive")
    lose("docs__recursive", "chunk", "guide.md")
    result = quarry("verify")
    assert result.exit_code == 1
    assert "docs__recursive__1" in result.stdout
    assert "guide.md: missing: chunk" in result.stdout
    assert "`quarry verify --repair` puts right what differs." in result.stdout
    assert "differences were put right" in quarry("verify", "--repair").stdout


@pytest.mark.parametrize("arguments", [("verify",), ("rollback",), ("drop", "docs__recursive__1")])
def test_an_empty_store_is_a_clear_error_and_leaves_no_folder(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    result = quarry(*arguments)
    assert result.exit_code == 1
    assert result.stderr.startswith("quarry: ")
    assert not (tmp_path / "home").exists()


def test_an_unknown_strategy_is_bad_usage(source: Path) -> None:
    ingest(source, "recursive")
    for command in ("verify", "rollback"):
        result = quarry(command, "--strategy", "recursiv")
        assert (result.exit_code, "one of fixed_size" in result.stderr) == (2, True)


def test_a_repair_that_cannot_be_done_changes_nothing_and_hides_nothing(source: Path, tmp_path: Path) -> None:
    ingest(source, "recursive")
    lose("docs__recursive", "chunk", "guide.md")
    damaged = points("docs__recursive")
    source.rename(tmp_path / "away")
    (own,) = told("verify", "--repair", status=1)["collections"]
    assert "nothing was repaired" in own["error"]
    (tmp_path / "away").rename(source)
    (source / "guide.md").rename(tmp_path / "guide.md")
    (own,) = told("verify", "--repair", status=1)["collections"]
    assert "no longer in" in own["error"]
    assert "guide.md" in own["error"]
    assert points("docs__recursive") == damaged
    assert told("verify", status=1)["sound"] is False
    (tmp_path / "guide.md").rename(source / "guide.md")
    assert told("verify", "--repair")["sound"] is True


def test_a_repair_that_was_cut_off_is_still_to_be_done(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest(source, "recursive")
    clean = points("docs__recursive")
    lose("docs__recursive", "chunk", "guide.md")

    class Killed(BaseException):
        pass

    def killed(*arguments: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("flows.upkeep.run", killed)
        with pytest.raises(Killed):
            verify_corpora(Settings.load(), None, [], repair=True, say=lambda line: None)
    (own,) = told("verify", status=1)["collections"]
    assert [row["kind"] for row in own["findings"]] == ["unrepaired"]
    assert told("verify", "--repair")["sound"] is True
    assert points("docs__recursive") == clean
