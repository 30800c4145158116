"""`deploy/README.md`: its commands exist, and its sums are right."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml
from typer.main import get_command

from flows.cli import app

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "deploy" / "README.md").read_text(encoding="utf-8")
SHELL = "\n".join(re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)) + "\n" + "\n".join(re.findall(r"`([^`\n]+)`", TEXT))
# Up to a redirection or a comment.
OURS = sorted(
    {line.strip() for line in re.findall(r"(?:^| )(quarry [a-z][^\n>|]*)", re.sub(r"\s#.*", "", SHELL), re.MULTILINE)}
)
SERVICES = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))["services"]


@pytest.mark.parametrize("line", OURS)
def test_a_command_of_ours_parses(line: str) -> None:
    _, name, *arguments = shlex.split(line)
    command = get_command(app).commands[name]
    if arguments:
        command.make_context(name, arguments)


def test_there_are_commands_of_ours() -> None:
    assert {line.split()[1] for line in OURS} >= {"status", "verify", "search", "ingest", "drop"}


@pytest.mark.parametrize("service", sorted(set(re.findall(r"docker compose (?:exec|run)(?: -\w)* (\w+)", TEXT))))
def test_a_service_exists(service: str) -> None:
    assert service in SERVICES


@pytest.mark.parametrize("volume", sorted(set(re.findall(r"--volume chunk-quarry_(\w+):", TEXT))))
def test_a_volume_exists(volume: str) -> None:
    assert volume in yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))["volumes"]


@pytest.mark.parametrize("file", sorted(set(re.findall(r"\bdeploy/[\w.]+", TEXT))))
def test_a_file_exists(file: str) -> None:
    assert file == "deploy/.env" or (ROOT / file).is_file()


def test_a_deployment_exists() -> None:
    deployments = yaml.safe_load((ROOT / "deploy" / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    named = {found.split("/")[1] for found in re.findall(r"\b(?:ingest|backfill)/[a-z-]+", TEXT)}
    assert named <= {deployment["name"] for deployment in deployments}


def number(text: str) -> float:
    return float(text.replace(",", ""))


SUMS = re.findall(r"\(([\d, +]+)\) x 1\.5 = ([\d,]+) \| ([\d.]+) GB \| ([\d.]+) ([GT])B \|", TEXT)


@pytest.mark.parametrize(("terms", "chunk", "million", "hundred", "unit"), SUMS)
def test_the_sums_are_right(terms: str, chunk: str, million: str, hundred: str, unit: str) -> None:
    bytes_ = sum(number(term) for term in terms.split(" + ")) * 1.5
    assert bytes_ == number(chunk)
    assert bytes_ * 1e6 / 1e9 == pytest.approx(number(million), rel=0.07)
    assert bytes_ * 1e8 / (1e9 if unit == "G" else 1e12) == pytest.approx(number(hundred), rel=0.03)


def test_all_rows_were_found() -> None:
    assert len(SUMS) == TEXT.count("x 1.5 =")


@pytest.mark.parametrize("dimensions", [256, 1536])
def test_the_dimensions_are_those_of_the_models(dimensions: int) -> None:
    from chunkers.models.wordllama_embedder import DIMENSIONS

    assert f"({dimensions * 4:,} + 232 + 900)" in TEXT
    assert DIMENSIONS == 256
