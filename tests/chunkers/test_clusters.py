"""Grapheme clusters: where a cut would part what a reader takes for one character."""

from __future__ import annotations

import pytest
import regex

from chunkers.clusters import Clusters
from tests.chunkers.texts import SCRIPTS

FAMILY = "👨‍👩‍👧‍👦"


@pytest.mark.parametrize(
    "text",
    [
        *SCRIPTS.values(),
        FAMILY * 3,
        "🇩🇪🇫🇷🇯",
        "a🇩🇪\u0301🇫🇷 🇯🇵\u200d🇩",
        "\u0600🇩🇪🇫🇷",
        "ᄒ\u1161\u11abᄒ가\u11a8",
        "Z\u0301\u0302a\u0330 \u0301",
        "\n\u0301x",
        "a\r\n\u0301b\r\r\n",
        "👍🏽👩🏾‍🚒",
        "\u0301start",
        "क्षि",
    ],
)
def test_boundaries_are_those_of_the_unicode_rules(text: str) -> None:
    clusters = Clusters(text)
    edges = [0, *(cluster.end() for cluster in regex.finditer(r"\X", text))]
    for offset in range(len(text) + 1):
        assert clusters.floor(offset) == max(edge for edge in edges if edge <= offset)
        assert clusters.ceil(offset) == min(edge for edge in edges if edge >= offset)


def test_crlf_is_one_cluster_in_a_text_without_any_other() -> None:
    clusters = Clusters("a\r\nb")
    assert (clusters.floor(2), clusters.ceil(2)) == (1, 3)


def test_the_boundary_between_ascii_and_a_mark_on_it_is_none() -> None:
    clusters = Clusters("ae\u0301b")
    assert (clusters.floor(2), clusters.ceil(2)) == (1, 3)


@pytest.mark.parametrize(("unit", "width"), [("🇩🇪", 2), ("👨\u200d", None), ("\u0301", None), ("ᄒ", None)])
def test_a_long_run_of_joined_characters_is_paired_or_whole(unit: str, width: int | None) -> None:
    # How long it takes is in tests/benchmarks: a search that counts back from each flag would not end.
    text = "." + unit * 50_000
    clusters = Clusters(text)
    if width:
        assert (clusters.floor(50_000), clusters.ceil(50_000)) == (49_999, 50_001)
    else:
        begin = 0 if unit == "\u0301" else 1
        assert (clusters.floor(50_000), clusters.ceil(50_000)) == (begin, len(text))


def test_a_cluster_around_an_ascii_character_is_one() -> None:
    text = "x\u06003\ufe0f\u20e3y"
    clusters = Clusters(text)
    assert [(clusters.floor(at), clusters.ceil(at)) for at in range(len(text))] == [
        (0, 0),
        (1, 1),
        *[(1, 5)] * 3,
        (5, 5),
    ]
