"""What of FastEmbed's embedder needs no FastEmbed; `test_fastembed_models.py` has the rest."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from chunkers import SettingError
from chunkers.models import Endpoint, ModelOptions, open_embedder
from chunkers.models.fastembed_embedder import FastEmbedEmbedder, _batches

NAME = "fastembed:BAAI/bge-small-en-v1.5"


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the package were installed."""
    monkeypatch.setattr("chunkers.models.fastembed_embedder.find_spec", lambda name: object())


@pytest.mark.parametrize("endpoint", [None, Endpoint("sk-key")])
def test_a_name_with_the_prefix_is_a_local_model_with_or_without_an_endpoint(
    there: None, endpoint: Endpoint | None
) -> None:
    embedder = open_embedder(NAME, endpoint)
    assert isinstance(embedder, FastEmbedEmbedder)
    assert embedder.name == NAME


def test_a_folder_that_is_given_goes_before_that_of_the_environment(
    there: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUARRY_MODEL_FOLDER", " /models/bge ")
    for given, used in ((None, Path("/models/bge")), (Path("/other"), Path("/other"))):
        embedder = open_embedder(NAME, options=ModelOptions(folder=given))
        assert isinstance(embedder, FastEmbedEmbedder)
        assert embedder._folder == used


def test_an_empty_variable_is_no_folder(there: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARRY_MODEL_FOLDER", "")
    embedder = open_embedder(NAME)
    assert isinstance(embedder, FastEmbedEmbedder)
    assert embedder._folder is None


def test_without_the_package_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(SettingError, match=r"pip install 'chunk-quarry\[fastembed\]'"):
        open_embedder(NAME)


def test_a_package_that_cannot_be_imported_is_an_error_that_says_why(
    there: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> None:
        raise ImportError("onnxruntime is of another Python")

    monkeypatch.setattr("chunkers.models.fastembed_embedder.import_module", broken)
    with pytest.raises(SettingError, match="onnxruntime is of another Python"):
        _ = open_embedder(NAME).dimensions


@pytest.mark.parametrize(
    ("counts", "batches"),
    [
        ([], []),
        ([5, 3, 4], [[1, 2, 0]]),
        ([512] * 17, [list(range(16)), [16]]),
        ([8192, 1, 8192], [[1], [0], [2]]),
        ([9000, 9000], [[0], [1]]),
    ],
)
def test_texts_of_like_length_go_through_the_model_together_in_bounded_batches(
    counts: list[int], batches: list[list[int]]
) -> None:
    assert list(_batches(counts)) == batches
