"""The README's own words: its Python runs as written over the sample corpus, and its commands and settings exist."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from chunkers import STRATEGIES
from flows.cli import app
from flows.settings import Settings
from tests.flows.conftest import ingest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def needs(snippet: str) -> list[str]:
    """Packages of a snippet that are not installed."""
    roots = set(re.findall(r"^(?:from|import) (\w+)", snippet, re.MULTILINE))
    return sorted(root for root in roots if find_spec(root) is None)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUARRY_HOME", str(folder))
        assert ingest(ROOT / "tests" / "corpus").exit_status == 0
    return folder


@pytest.mark.parametrize("snippet", SNIPPETS, ids=range(len(SNIPPETS)))
def test_a_snippet_runs_as_written_and_finds_the_passage(
    snippet: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if missing := needs(snippet):
        pytest.skip(f"not installed: {', '.join(missing)}")
    monkeypatch.setenv("QUARRY_HOME", str(home))
    exec(compile(snippet, "README.md", "exec"), {"__name__": "readme"})
    said = capsys.readouterr().out
    assert "Profile > Subscription > End" in said if "cancel" in snippet else "Title" in said


def test_every_setting_is_in_the_readme_with_its_default() -> None:
    for name, field in Settings.model_fields.items():
        row = re.search(rf"`(?:QUARRY_)?{name.upper()}`[^|]*\|([^|]*)\|", README)
        assert row, name
        if isinstance(field.default, int | str):
            assert str(field.default).strip("/") in row[1], name


def test_every_strategy_and_file_type_is_in_the_readme() -> None:
    from flows.sources import MEDIA_TYPES

    for name in (*STRATEGIES, *MEDIA_TYPES):
        assert f"`{name}`" in README


def all_commands() -> dict[str, Any]:
    """The command's own by name, and those of its groups by the group's name and theirs."""
    found: dict[str, Any] = {}
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        own = getattr(command, "commands", None)
        found |= {f"{name} {one}": inner for one, inner in own.items()} if own else {name: command}
    return found


def test_every_command_is_in_the_readme_with_its_options() -> None:
    block = re.search(r"```\n(quarry ingest .*?)```", README, re.DOTALL)
    assert block
    lines = re.sub(r"\n +", " ", block[1]).replace("[show]", "show").splitlines()
    commands = all_commands()
    told = {name: line for name in commands for line in lines if line.startswith(f"quarry {name} ")}
    assert len(told) == len(lines)
    assert told.keys() == commands.keys()
    for name, command in commands.items():
        options = {option for one in command.params for option in one.opts if option.startswith("--")}
        known = set(re.findall(r"--[a-z-]+", told[name]))
        # The short form stands for it.
        assert options - {"--limit"} == known, name
