"""A backfill of some documents: what is not named is not touched, and what is wrong is refused before any work."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from chunkers import STRATEGIES, SettingError
from flows.form import OFFERED
from flows.patterns import Pattern
from flows.settings import Settings
from flows.sources import SourceError
from stores import connect
from stores.inventory import alias_targets
from tests.flows.conftest import ingest

PAGES = ("index.md", "guides/start.md", "guides/deep/end.md", "notes/tea.md")


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    folder = tmp_path / "wiki"
    for name in PAGES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}\n\nThis is the page called {name}.\n", encoding="utf-8")
    return folder


def sources(alias: str) -> set[str]:
    """The documents that have chunks behind an alias."""
    with connect() as client:
        points, _ = client.scroll(alias, limit=1000)
    return {point.payload["metadata"]["source"] for point in points if (point.payload or {})["kind"] == "chunk"}  # type: ignore[index]


@pytest.mark.parametrize(
    ("globs", "written"),
    [
        (["index.md"], {"index.md"}),
        (["guides/**/*.md"], {"guides/start.md", "guides/deep/end.md"}),
        (["./guides/*.md", "notes/**"], {"guides/start.md", "notes/tea.md"}),
        (["**"], set(PAGES)),
    ],
)
def test_only_the_documents_that_a_glob_names_are_written(pages: Path, globs: list[str], written: set[str]) -> None:
    report = ingest(pages, "recursive", documents=tuple(globs))
    assert report.exit_status == 0
    assert report.strategies["recursive"].documents == len(written)
    assert sources("wiki__recursive") == written


def test_the_very_name_of_a_document_names_that_one_alone(pages: Path) -> None:
    names = ("notes/[draft].md", "notes/d.md", "notes/a*.md", "notes/ab.md")
    for name in names:
        (pages / name).write_text(f"# {name}\n\nThis is the page called {name}.\n", encoding="utf-8")
    ingest(pages, "recursive", documents=("notes/[draft].md", "./notes/a*.md"))
    assert sources("wiki__recursive") == {"notes/[draft].md", "notes/a*.md"}
    ingest(pages, "recursive", documents=("notes/[d].md",))
    assert "notes/d.md" in sources("wiki__recursive")


def test_documents_that_are_not_named_do_not_count_as_vanished(pages: Path) -> None:
    ingest(pages, "recursive")
    (pages / "index.md").write_text("# Index\n\nA new index.\n", encoding="utf-8")
    (pages / "notes/tea.md").unlink()
    report = ingest(pages, "recursive", documents=("guides/**", "index.md"), allow_deletes=99)
    assert (report.exit_status, report.withheld) == (0, 0)
    assert sources("wiki__recursive") == set(PAGES)


def test_a_glob_of_all_documents_deletes_nothing_either(pages: Path) -> None:
    ingest(pages, "recursive")
    (pages / "notes/tea.md").unlink()
    ingest(pages, "recursive", documents=("**",))
    assert "notes/tea.md" in sources("wiki__recursive")


def test_a_rebuild_of_some_documents_is_refused_and_the_alias_stays(pages: Path) -> None:
    ingest(pages, "recursive")
    with pytest.raises(SettingError, match="a rebuild needs the whole"):
        ingest(pages, "recursive", documents=("guides/**",), rebuild=True, overrides={"chunk_size": "20"})
    with connect() as client:
        assert alias_targets(client) == {"wiki__recursive": "wiki__recursive__1"}


@pytest.mark.parametrize("glob", ["", "  ", "/etc/passwd", "../other/*.md", "guides/../index.md"])
def test_a_glob_that_leaves_the_source_is_refused(pages: Path, glob: str) -> None:
    with pytest.raises(SourceError, match="must be a glob below"):
        ingest(pages, "recursive", documents=("index.md", glob))


def test_a_glob_that_names_nothing_is_refused_by_name_before_anything_is_written(pages: Path) -> None:
    with pytest.raises(SourceError, match=r"'guide/\*\.md' names no document"):
        ingest(pages, "recursive", documents=("index.md", "guide/*.md"))
    with connect() as client:
        assert client.get_collections().collections == []


@pytest.mark.parametrize(
    ("glob", "path", "matched"),
    [
        ("*.md", "a.md", True),
        ("*.md", "b/a.md", False),
        ("**/*.md", "a.md", True),
        ("**/*.md", "b/c/a.md", True),
        ("b/**", "b/c/a.md", True),
        ("b", "b/a.md", False),
        ("b/**/a.md", "b/a.md", True),
        ("*", ".hidden.md", False),
    ],
)
def test_a_glob_matches_a_path_as_a_whole(glob: str, path: str, matched: bool) -> None:
    assert Pattern(glob.split("/")).matches(path) is matched


# The form.


def test_a_setting_s_bounds_and_choices_are_the_form_s() -> None:
    from flows.backfill import backfill

    properties = backfill.parameters.properties
    assert properties["chunk_size"]["anyOf"] == [{"minimum": 1, "type": "integer"}, {"type": "null"}]
    assert properties["semantic_threshold_mode"]["anyOf"][0]["enum"] == ["absolute", "percentile"]
    assert properties["chunk_size"]["description"].startswith("Tokens a chunk has at most: ")


def test_every_parameter_of_both_flows_is_flat_typed_and_described() -> None:
    from flows.backfill import backfill
    from flows.ingest import ingest as flow

    for form in (backfill.parameters, flow.parameters):
        assert form.required == ["source"]
        assert not form.definitions
        for name, field in form.properties.items():
            assert len(field["description"]) > 20, name
            kinds = {one["type"] for one in field.get("anyOf", [field])}
            assert kinds <= {"string", "integer", "number", "boolean", "array", "null"}, name


def test_both_flows_offer_every_setting_that_decides_chunks_and_vectors_and_no_key_or_place() -> None:
    from flows.backfill import backfill
    from flows.ingest import ingest as flow

    places = {"home", "openai_api_key", "openai_base_url", "qdrant_url", "qdrant_api_key"}
    for form in (backfill, flow):
        offered = set(inspect.signature(form.fn).parameters)
        assert set(OFFERED) <= offered
        assert not places & offered
    decisive = {name for strategy in STRATEGIES for name in Settings().strategy_parameters(strategy)}
    assert decisive | {"embedding_model", "llm_model"} <= set(OFFERED)


@pytest.mark.parametrize(
    ("parameters", "told"),
    [
        ({"strategies": ["recursiv"]}, "strategies.0: Input should be 'fixed_size', 'recursive'"),
        ({"chunk_size": 0}, "chunk_size: Input should be greater than or equal to 1"),
        ({"max_failed": -1}, "max_failed: Input should be greater than or equal to 0"),
        (
            {"semantic_threshold_mode": "relative"},
            "semantic_threshold_mode: Input should be 'absolute' or 'percentile'",
        ),
        ({"documents": "guides/*"}, "documents: Input should be a valid list"),
    ],
)
def test_a_wrong_parameter_is_refused_by_name(parameters: dict[str, object], told: str) -> None:
    from prefect.exceptions import ParameterTypeError

    from flows.backfill import backfill

    with pytest.raises(ParameterTypeError, match=told):
        backfill.validate_parameters({"source": "docs", **parameters})
