from __future__ import annotations

from pathlib import Path

import pytest

from flows.places import open_store
from flows.queries import parse_filters
from flows.settings import Settings, SettingsError


@pytest.mark.parametrize(
    ("assignments", "wanted"),
    [
        (["source=a.md"], {"source": ["a.md"]}),
        (["tags=x", "tags=y"], {"tags": ["x", "y"]}),
        (["pages=3"], {"pages": ["3", 3]}),
        (["draft=true"], {"draft": ["true", True]}),
        (["title=a = b"], {"title": ["a = b"]}),
        (["version=1.2"], {"version": ["1.2"]}),
    ],
)
def test_filters_by_name(assignments: list[str], wanted: dict[str, list[object]]) -> None:
    assert parse_filters(assignments) == wanted


@pytest.mark.parametrize("assignment", ["source", "=x", "source="])
def test_a_filter_without_name_or_value_is_refused(assignment: str) -> None:
    with pytest.raises(SettingsError, match="NAME=VALUE"):
        parse_filters([assignment])


def test_asking_a_question_makes_no_folders(tmp_path: Path) -> None:
    with open_store(Settings.load(), create=False) as client:
        assert client.get_collections().collections == []
    assert not (tmp_path / "home").exists()
