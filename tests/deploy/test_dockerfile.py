"""`deploy/Dockerfile` without a container engine: what it is made of, as whom it runs, and that its constraints fit the package."""

from __future__ import annotations

import fnmatch
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PATH = ROOT / "deploy" / "Dockerfile"
TEXT = PATH.read_text(encoding="utf-8")
# Instructions with their continued lines joined and comments left out.
INSTRUCTIONS = [
    (line.split(None, 1)[0], line.split(None, 1)[1])
    for line in re.sub(r"\\\n\s*", "", re.sub(r"^\s*#.*\n", "", TEXT, flags=re.MULTILINE)).splitlines()
    if line.strip()
]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
# Lines that pip reads; each must pin one version.
PINS = [
    line
    for line in (ROOT / "deploy" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if line[:1] not in ("", "#")
]
PINNED = {canonicalize_name(line.split("==")[0]): line.split("==")[1] for line in PINS if "==" in line}
IGNORE = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()


def arguments(instruction: str) -> list[str]:
    return [rest for name, rest in INSTRUCTIONS if name == instruction]


def linter() -> str | None:
    """hadolint, which a virtual environment has beside its Python even when it is not on the path."""
    return shutil.which(
        "hadolint", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    )


def test_every_stage_is_from_one_base_pinned_to_a_whole_version() -> None:
    bases = {line.split(" AS ")[0] for line in arguments("FROM")}
    assert len(bases) == 1
    assert re.fullmatch(r"python:\d+\.\d+\.\d+-slim-\w+(@sha256:[0-9a-f]{64})?", bases.pop())


def test_the_base_has_a_python_that_the_package_knows() -> None:
    version = re.search(r"python:(\d+\.\d+)\.", TEXT)
    assert version
    assert f"Programming Language :: Python :: {version[1]}" in PROJECT["project"]["classifiers"]


def test_it_does_not_run_as_root_and_compose_agrees() -> None:
    *_, user = arguments("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    compose = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))
    ours = [service for service in compose["services"].values() if service["image"].startswith("chunk-quarry:")]
    assert {service["user"] for service in ours} == {user}
    assert [name for name, _ in INSTRUCTIONS].index("USER") > [name for name, _ in INSTRUCTIONS].index("ENV")


def test_what_is_copied_is_there_and_sent_to_the_builder() -> None:
    sources = [s for line in arguments("COPY") if not line.startswith("--from") for s in line.split()[:-1]]
    assert sources
    assert IGNORE[1] == "*"
    let_in = [line.removeprefix("!") for line in IGNORE if line.startswith("!")]
    assert sorted(sources) == sorted(let_in)
    assert [source for source in sources if not (ROOT / source).exists()] == []


@pytest.mark.parametrize("secret", ["deploy/.env", ".git/config", ".env"])
def test_no_secret_is_sent_to_the_builder(secret: str) -> None:
    assert not any(
        fnmatch.fnmatch(secret, line[1:]) or secret.startswith(f"{line[1:]}/") for line in IGNORE if line[:1] == "!"
    )


def test_every_package_that_is_installed_is_in_the_image() -> None:
    roots = {pattern.rstrip("*") for pattern in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert roots <= {line.split()[0] for line in arguments("COPY")}


def test_it_installs_with_the_constraints_and_keeps_no_cache() -> None:
    installs = [line for line in arguments("RUN") if "pip install" in line]
    assert installs
    assert all("-c deploy/constraints.txt" in line and "--no-cache-dir" in line for line in installs)
    assert any("PIP_CONSTRAINT=/source/deploy/constraints.txt" in line for line in arguments("ENV"))


def test_it_says_how_it_is_by_what_its_command_serves() -> None:
    assert arguments("HEALTHCHECK")
    (command,) = arguments("CMD")
    assert "--with-healthcheck" in command
    assert not any(name == "ADD" for name, _ in INSTRUCTIONS)


def test_every_constraint_pins_one_version() -> None:
    assert len(PINNED) == len(PINS)
    assert "chunk-quarry" not in PINNED


@pytest.mark.parametrize(
    "line",
    [
        *PROJECT["build-system"]["requires"],
        *PROJECT["project"]["dependencies"],
        *PROJECT["project"]["optional-dependencies"]["dask"],
    ],
)
def test_the_constraints_have_what_the_package_asks_for(line: str) -> None:
    wanted = Requirement(line)
    assert wanted.specifier.contains(PINNED[canonicalize_name(wanted.name)])


@pytest.mark.skipif(not linter(), reason="no hadolint")
def test_the_linter_finds_nothing() -> None:
    done = subprocess.run([str(linter()), str(PATH)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "")
