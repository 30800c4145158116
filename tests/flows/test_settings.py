from __future__ import annotations

import inspect
import os
from pathlib import Path

import pytest
from pydantic import ValidationError

import chunkers
from chunkers import strategies
from flows.settings import Settings, SettingsError
from stores import Fusion


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.upper().startswith(("QUARRY_", "OPENAI_", "QDRANT_")):
            monkeypatch.delenv(name)


def faults(overrides: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(SettingsError) as error:
        Settings.load(overrides)
    return str(error.value).splitlines()


def test_the_defaults_are_those_of_the_strategies() -> None:
    loaded = Settings.load()
    for strategy in chunkers.STRATEGIES:
        signature = inspect.signature(strategies._CHUNKERS[strategy]).parameters
        for name, value in loaded.strategy_parameters(strategy).items():
            assert value == signature[name].default


def test_every_parameter_of_a_strategy_can_be_set() -> None:
    for strategy in chunkers.STRATEGIES:
        wanted = set(inspect.signature(strategies._CHUNKERS[strategy]).parameters) - {"embedder", "context_writer"}
        assert set(Settings.load().strategy_parameters(strategy)) == wanted


def test_an_unknown_strategy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="fixed_size, recursive"):
        Settings.load().strategy_parameters("fixed")


def test_variables_have_our_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARRY_CHUNK_SIZE", "256")
    monkeypatch.setenv("QUARRY_SEMANTIC_THRESHOLD", "0.7")
    loaded = Settings.load()
    assert (loaded.chunk_size, loaded.semantic_threshold) == (256, 0.7)


def test_the_variables_of_openai_and_qdrant_keep_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", " sk-1\n")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1")
    monkeypatch.setenv("QDRANT_URL", "http://localhost:6333")
    monkeypatch.setenv("QDRANT_API_KEY", "q")
    loaded = Settings.load()
    assert loaded.openai_api_key is not None
    assert loaded.qdrant_api_key is not None
    assert loaded.openai_api_key.get_secret_value() == "sk-1"
    assert loaded.qdrant_api_key.get_secret_value() == "q"
    assert (loaded.openai_base_url, loaded.qdrant_url) == ("http://localhost:8000/v1", "http://localhost:6333")


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "OPENAI_BASE_URL", "QDRANT_URL", "QDRANT_API_KEY", "QUARRY_SEMANTIC_THRESHOLD"]
)
def test_an_empty_variable_is_unset(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    unset = Settings.load()
    monkeypatch.setenv(name, "")
    assert Settings.load() == unset


def test_a_model_s_folder_is_absolute_for_this_run_and_for_its_workers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert Settings.load().model_folder is None
    loaded = Settings.load({"model-folder": "models/bge"})
    assert loaded.model_folder == tmp_path / "models" / "bge"
    assert loaded.given == {"model_folder": str(tmp_path / "models" / "bge")}


def test_the_home_is_absolute_from_the_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert Settings.load().home == tmp_path / ".quarry"
    monkeypatch.setenv("HOME", "/somewhere")
    monkeypatch.setenv("QUARRY_HOME", "~/store")
    assert Settings.load().home == Path("/somewhere/store")


# Faults


@pytest.mark.parametrize(
    ("name", "value", "legal"),
    [
        ("QUARRY_CHUNK_SIZE", "many", "whole number"),
        ("QUARRY_CHUNK_SIZE", "0", "at least 1"),
        ("QUARRY_CHUNK_SIZE", "1.5", "whole number"),
        ("QUARRY_CHUNK_OVERLAP", "-1", "at least 0"),
        ("QUARRY_SEMANTIC_THRESHOLD", "nan", "cosine"),
        ("QUARRY_SEMANTIC_THRESHOLD", "101", "percentile"),
        ("QUARRY_SEMANTIC_THRESHOLD_MODE", "relative", "absolute or percentile"),
        ("QUARRY_EMBEDDING_MODEL", "  ", "name"),
        ("QUARRY_CACHE_MAX_MB", "0", "megabytes, at least 1"),
        ("QUARRY_CACHE_MAX_MB", "4 GB", "whole number"),
        ("OPENAI_BASE_URL", "localhost:8000", "http://"),
        ("QDRANT_URL", "a b", "address"),
    ],
)
def test_a_bad_value_is_one_line_with_name_value_and_what_is_legal(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, legal: str
) -> None:
    monkeypatch.setenv(name, value)
    (line,) = faults()
    assert line.startswith(f"{name}: ")
    assert repr(value) in line or not value.strip()
    assert legal in line


def test_every_fault_has_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARRY_CHUNK_SIZE", "x")
    monkeypatch.setenv("QUARRY_CHUNK_OVERLAP", "y")
    assert [line.split(":")[0] for line in faults()] == ["QUARRY_CHUNK_SIZE", "QUARRY_CHUNK_OVERLAP"]


def test_a_misspelt_variable_is_refused_with_the_nearest_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARRY_CHUNKSIZE", "256")
    assert faults() == ["QUARRY_CHUNKSIZE: no such setting; the nearest name is QUARRY_CHUNK_SIZE"]


def test_variables_of_others_are_none_of_our_business(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "x")
    monkeypatch.setenv("QUARRYING", "x")
    assert Settings.load().chunk_size == 512


def test_keys_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("QUARRY_CHUNK_SIZE", "x")
    assert "secret" not in "".join(faults())
    monkeypatch.delenv("QUARRY_CHUNK_SIZE")
    loaded = Settings.load()
    assert "secret" not in f"{loaded!r} {loaded} {loaded.model_dump_json()}"


def test_a_password_in_an_address_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "user:secret@host")
    (line,) = faults()
    assert "secret" not in line


def test_the_cause_of_a_fault_does_not_carry_the_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARRY_CHUNK_SIZE", "x")
    with pytest.raises(SettingsError) as error:
        Settings.load()
    assert not isinstance(error.value.__context__, ValidationError)


# Overrides


def test_an_override_beats_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARRY_CHUNK_SIZE", "bad")
    assert Settings.load({"chunk_size": "128"}).chunk_size == 128


@pytest.mark.parametrize("name", ["chunk_size", "chunk-size", "CHUNK_SIZE", "QUARRY_CHUNK_SIZE", " chunk_size "])
def test_a_name_may_be_written_in_several_ways(name: str) -> None:
    assert Settings.load({name: "128"}).chunk_size == 128


def test_an_empty_override_is_the_default_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARRY_CHUNK_SIZE", "128")
    loaded = Settings.load({"semantic_threshold": "", "chunk_size": " "})
    assert (loaded.chunk_size, loaded.semantic_threshold) == (512, None)


def test_an_override_wins_over_the_environment_and_keeps_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARRY_CHUNK_SIZE", "64")
    monkeypatch.setenv("QUARRY_SENTENCE_OVERLAP", "3")
    loaded = Settings.load({"chunk_size": "128"})
    assert (loaded.chunk_size, loaded.sentence_overlap) == (128, 3)


def test_a_bad_override_is_named_as_it_was_written() -> None:
    (line,) = faults({"chunk-size": "x"})
    assert line.startswith("chunk-size: 'x' cannot be used")


def test_an_unknown_override_names_the_known_ones() -> None:
    (line,) = faults({"size": "1"})
    assert line.startswith("size: no such setting; known are cache_max_mb, chunk_overlap, chunk_size, ")


def test_a_key_cannot_be_given_on_the_command_line() -> None:
    (line,) = faults({"openai_api_key": "sk-secret"})
    assert "OPENAI_API_KEY" in line
    assert "secret" not in line


def test_the_settings_fuse_as_the_library_does() -> None:
    assert Settings.load().fusion() == Fusion()
