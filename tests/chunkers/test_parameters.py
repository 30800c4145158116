"""Parameters are checked when a chunker is built, and the error says which, what it holds and what is legal."""

from __future__ import annotations

from typing import Any

import pytest

from chunkers import STRATEGIES, SettingError, build_chunker
from tests.chunkers.conftest import EchoWriter
from tests.doubles import HashEmbedder

WHOLE_MINIMUM = {
    "fixed_size": {"chunk_size": 1, "chunk_overlap": 0},
    "recursive": {"chunk_size": 1, "recursive_chunk_chars": 1},
    "sentence": {"chunk_size": 1, "sentence_overlap": 0},
    "semantic": {"chunk_size": 1, "semantic_min_chunk_size": 1},
    "contextual_retrieval": {"chunk_size": 1, "chunk_overlap": 0, "context_window_chars": 0},
    "semantic_parent_child": {"chunk_size": 1, "parent_max_tokens": 1},
}
WHOLE = [(strategy, name, minimum) for strategy, names in WHOLE_MINIMUM.items() for name, minimum in names.items()]
OVERLAPPING = ["fixed_size", "contextual_retrieval"]
SEMANTIC = ["semantic", "semantic_parent_child"]


def built(strategy: str, **parameters: Any) -> dict[str, Any]:
    return build_chunker(strategy, embedder=HashEmbedder(), context_writer=EchoWriter(), **parameters).parameters


@pytest.mark.parametrize("value", [1.0, 1.5, "1", True, float("nan"), [1]])
@pytest.mark.parametrize(("strategy", "name", "minimum"), WHOLE)
def test_only_whole_numbers_pass(strategy: str, name: str, minimum: int, value: object) -> None:
    with pytest.raises(SettingError) as raised:
        built(strategy, **{name: value})
    assert str(raised.value).startswith(f"{name}: {value!r} cannot be used; it must be a whole number")
    assert (raised.value.name, raised.value.value) == (name, value) or value != value


@pytest.mark.parametrize(("strategy", "name", "minimum"), WHOLE)
def test_a_number_under_the_minimum_is_refused(strategy: str, name: str, minimum: int) -> None:
    with pytest.raises(SettingError) as raised:
        built(strategy, **{name: minimum - 1})
    assert str(raised.value).startswith(f"{name}: {minimum - 1} cannot be used; it must be a whole number")
    assert str(minimum) in raised.value.legal


@pytest.mark.parametrize(("strategy", "name", "minimum"), WHOLE)
def test_the_minimum_passes(strategy: str, name: str, minimum: int) -> None:
    others = {"chunk_size": 1} if name == "parent_max_tokens" else {}
    others |= {"chunk_overlap": 0} if name == "chunk_size" and strategy in OVERLAPPING else {}
    assert built(strategy, **{name: minimum}, **others)[name] == minimum


@pytest.mark.parametrize("strategy", OVERLAPPING)
@pytest.mark.parametrize("overlap", [10, 11])
def test_an_overlap_that_is_not_below_the_size_is_refused(strategy: str, overlap: int) -> None:
    with pytest.raises(SettingError) as raised:
        built(strategy, chunk_size=10, chunk_overlap=overlap)
    assert str(raised.value) == (
        f"chunk_overlap: {overlap} cannot be used; it must be a whole number from 0 to 9, less than chunk_size (10)"
    )


@pytest.mark.parametrize("strategy", OVERLAPPING)
def test_an_overlap_of_size_minus_one_passes(strategy: str) -> None:
    assert built(strategy, chunk_size=10, chunk_overlap=9)["chunk_overlap"] == 9


@pytest.mark.parametrize("strategy", OVERLAPPING)
@pytest.mark.parametrize(("size", "overlap"), [(1, 0), (9, 0), (30, 3), (50, 5), (51, 50), (512, 50)])
def test_an_unset_overlap_is_50_or_a_tenth_of_a_small_size(strategy: str, size: int, overlap: int) -> None:
    assert built(strategy, chunk_size=size)["chunk_overlap"] == overlap


@pytest.mark.parametrize("strategy", OVERLAPPING)
def test_a_named_overlap_is_never_changed_to_fit(strategy: str) -> None:
    with pytest.raises(SettingError, match=r"chunk_overlap: 50 .* less than chunk_size \(50\)"):
        built(strategy, chunk_size=50, chunk_overlap=50)


@pytest.mark.parametrize("strategy", SEMANTIC)
@pytest.mark.parametrize(
    ("mode", "value"),
    [
        ("absolute", -1.01),
        ("absolute", 1.01),
        ("absolute", 25),
        ("percentile", -0.1),
        ("percentile", 100.1),
        *((mode, value) for mode in ("absolute", "percentile") for value in (float("nan"), float("inf"), "0.5", True)),
    ],
)
def test_a_threshold_out_of_its_modes_range_is_refused(strategy: str, mode: str, value: object) -> None:
    with pytest.raises(SettingError) as raised:
        built(strategy, semantic_threshold=value, semantic_threshold_mode=mode)
    bounds = {"absolute": "-1 to 1", "percentile": "0 to 100"}[mode]
    assert str(raised.value) == (
        f"semantic_threshold: {value!r} cannot be used; it must be a number from {bounds} when the mode is {mode!r}, or unset"
    )


@pytest.mark.parametrize("strategy", SEMANTIC)
@pytest.mark.parametrize(
    ("mode", "value"), [("absolute", -1), ("absolute", 0.75), ("absolute", 1), ("percentile", 0), ("percentile", 100)]
)
def test_a_threshold_in_its_modes_range_passes(strategy: str, mode: str, value: float) -> None:
    assert built(strategy, semantic_threshold=value, semantic_threshold_mode=mode)["semantic_threshold"] == value


@pytest.mark.parametrize("strategy", SEMANTIC)
@pytest.mark.parametrize("mode", ["Absolute", "", None, 1])
def test_an_unknown_threshold_mode_is_refused(strategy: str, mode: object) -> None:
    with pytest.raises(SettingError) as raised:
        built(strategy, semantic_threshold_mode=mode)
    assert str(raised.value) == (
        f"semantic_threshold_mode: {mode!r} cannot be used; it must be 'absolute' or 'percentile'"
    )


def test_a_parent_cap_below_the_chunk_size_is_refused() -> None:
    with pytest.raises(SettingError) as raised:
        built("semantic_parent_child", chunk_size=100, parent_max_tokens=99)
    assert str(raised.value) == "parent_max_tokens: 99 cannot be used; it must be at least chunk_size (100)"


@pytest.mark.parametrize("strategy", ["", "Recursive", "late", None])
def test_an_unknown_strategy_is_refused(strategy: Any) -> None:
    with pytest.raises(SettingError) as raised:
        built(strategy)
    assert str(raised.value) == f"strategy: {strategy!r} cannot be used; it must be one of {', '.join(STRATEGIES)}"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_unknown_parameter_is_refused_with_those_that_are_known(strategy: str) -> None:
    with pytest.raises(SettingError) as raised:
        built(strategy, chunksize=3)
    assert str(raised.value).startswith(
        f"chunksize: 3 cannot be used; it must be left out: {strategy} takes chunk_size, "
    )


def test_a_parameter_of_another_strategy_is_refused() -> None:
    with pytest.raises(SettingError, match="sentence_overlap: 1 cannot be used; it must be left out: recursive takes"):
        built("recursive", sentence_overlap=1)


@pytest.mark.parametrize(
    ("strategy", "defaults"),
    [
        ("fixed_size", {"chunk_size": 512, "chunk_overlap": 50}),
        ("recursive", {"chunk_size": 512, "recursive_chunk_chars": 2000}),
        ("sentence", {"chunk_size": 512, "sentence_overlap": 2}),
        (
            "semantic",
            {
                "chunk_size": 512,
                "semantic_threshold": HashEmbedder.semantic_threshold,
                "semantic_threshold_mode": "absolute",
                "semantic_min_chunk_size": 5,
            },
        ),
        ("contextual_retrieval", {"chunk_size": 512, "chunk_overlap": 50, "context_window_chars": 500}),
        (
            "semantic_parent_child",
            {
                "chunk_size": 512,
                "parent_max_tokens": 2048,
                "semantic_threshold": HashEmbedder.paragraph_threshold,
                "semantic_threshold_mode": "absolute",
            },
        ),
    ],
)
def test_defaults_are_those_of_the_design_and_all_are_told(strategy: str, defaults: dict[str, Any]) -> None:
    assert built(strategy) == defaults
