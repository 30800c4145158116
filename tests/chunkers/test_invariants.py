"""DESIGN's invariants, for every strategy, generated texts and generated settings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import regex
from hypothesis import example, given, settings
from hypothesis import strategies as st

from chunkers import STRATEGIES, Chunk, Document, Parent, chunk_document
from chunkers.encoding import encoding
from tests.chunkers.conftest import EchoWriter
from tests.doubles import HashEmbedder

FRAGMENTS = [
    "# Title\n",
    "## 24/7 support\n\n",
    "Setext\n===\n",
    "Sub\n---\n",
    "```python\nx = 1\n\n# no heading\n```\n",
    "````\n```\n# x\n```\n````\n",
    "~~~\nopen fence\n",
    "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n",
    "- item\n  - nested\n    - deep\n",
    "1. one\n2. two\n\n",
    "> quoted\n> more\n",
    "<pre>\n# not a heading\n</pre>\n",
    '[ref]: https://x.y/z "t"\n',
    "---\n",
    "<|endoftext|>",
    "<|fim_prefix|>",
    "Dr. Smith of Acme Inc. met the U.S. team at 9 a.m. on Jan. 5. They agreed. ",
    "a@b.co, https://x.y/z?q=1.2, v1.2.3 ",
    "今天天气很好。我们去公园吧！“好的，”他说。",
    "これは文です。次の文？はい！",
    "नमस्ते दुनिया। यह हिन्दी है।",
    "مرحبا بالعالم؟ نعم.",
    "สวัสดีชาวโลกนี่คือข้อความ",
    "👨‍👩‍👧‍👦",
    "🇩🇪🇫🇷🇯🇵",
    "🚀",
    "e\u0301",
    "a\u0301\u0302\u0303",
    "ᄒ\u1161\u11ab",
    "Grüße aus Köln. ",
    "\r\n",
    "\r\n\r\n",
    "\n\n",
    "\r",
    "\t",
    "\u00a0",
    "\u2028",
    "\u200b",
    "\ufeff",
    "\x00",
    "\x1c",
    "word ",
    "The same sentence again. ",
    "key: value\n",
    "x" * 60,
    "^" * 40,
    " " * 30,
    "\n" * 12,
    "aGVsbG8gd29ybGQgdGhpcyBpcyBiYXNlNjQ=",
    "½²Ⅷ",
    "12345678901234",
    "don't I'll it's ",
    "    indented code\n",
    "....",
    "﷽",
    "\ufffd",
]

texts = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=12)), max_size=24).map("".join)
sizes = st.one_of(st.integers(1, 12), st.integers(1, 64), st.integers(1, 2000))


@st.composite
def parameters(draw: st.DrawFn, strategy: str) -> dict[str, Any]:
    size = draw(sizes)
    drawn: dict[str, Any] = {"chunk_size": size}
    if strategy in ("fixed_size", "contextual_retrieval"):
        drawn["chunk_overlap"] = draw(st.integers(0, size - 1))
    if strategy == "recursive":
        drawn["recursive_chunk_chars"] = draw(st.integers(1, 3000))
    if strategy == "sentence":
        drawn["sentence_overlap"] = draw(st.integers(0, 4))
    if strategy in ("semantic", "semantic_parent_child"):
        mode = draw(st.sampled_from(["absolute", "percentile"]))
        bounds = (-1, 1) if mode == "absolute" else (0, 100)
        drawn |= {
            "semantic_threshold_mode": mode,
            "semantic_threshold": draw(st.one_of(st.none(), st.floats(*bounds))),
        }
    if strategy == "semantic":
        drawn["semantic_min_chunk_size"] = draw(st.integers(1, 6))
    if strategy == "semantic_parent_child":
        drawn["parent_max_tokens"] = draw(st.one_of(st.none(), st.integers(size, size + 500)))
    return drawn


def chunked(text: str, strategy: str, drawn: dict[str, Any]) -> tuple[Document, list[Chunk], list[Parent]]:
    document = Document(uri="a.md", text=text, title="A")
    chunks, parents = chunk_document(document, strategy, embedder=HashEmbedder(), context_writer=EchoWriter(), **drawn)
    return document, chunks, parents


def assert_invariants(
    document: Document,
    chunks: list[Chunk],
    parents: list[Parent],
    cap: int,
    parent_cap: int,
    characters: int | None = None,
) -> None:
    text = document.text
    covered = bytearray(len(text))
    last_start = -1
    boundaries = {0, *(cluster.end() for cluster in regex.finditer(r"\X", text))}
    for index, chunk in enumerate(chunks):
        assert text[chunk.start_char : chunk.end_char] == chunk.text
        assert chunk.index == index
        assert chunk.start_char > last_start
        last_start = chunk.start_char
        covered[chunk.start_char : chunk.end_char] = b"\1" * (chunk.end_char - chunk.start_char)
    for slice_, limit in [*((chunk, cap) for chunk in chunks), *((parent, parent_cap) for parent in parents)]:
        assert text[slice_.start_char : slice_.end_char] == slice_.text
        assert slice_.text.strip()
        assert slice_.token_count == len(encoding().encode(slice_.text, disallowed_special=()))
        assert slice_.token_count <= limit or len(slice_.text) == 1
        for offset in (slice_.start_char, slice_.end_char):
            # A cut inside a cluster is right only where the whole cluster is over the cap.
            if offset not in boundaries:
                begin = max(boundary for boundary in boundaries if boundary < offset)
                end = min(boundary for boundary in boundaries if boundary > offset)
                cluster = text[begin:end].rstrip()
                over = len(encoding().encode(cluster, disallowed_special=())) > limit
                too_long = characters is not None and len(cluster) > characters
                assert over or too_long or not text[offset:end].strip(), (slice_, cluster)
    assert all(covered[n] for n, character in enumerate(text) if not character.isspace())
    assert len({chunk.id for chunk in chunks} | {parent.id for parent in parents}) == len(chunks) + len(parents)
    by_id = {parent.id: parent for parent in parents}
    for chunk in chunks:
        if chunk.parent_id is not None:
            parent = by_id[chunk.parent_id]
            assert parent.start_char <= chunk.start_char
            assert chunk.end_char <= parent.end_char
    assert {chunk.parent_id for chunk in chunks} - {None} == set(by_id)


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=120, deadline=None)
@given(data=st.data(), text=texts)
@example(data=None, text="")
@example(data=None, text=" \n\t ")
def test_invariants_hold_for_generated_texts_and_settings(strategy: str, data: st.DataObject | None, text: str) -> None:
    drawn = data.draw(parameters(strategy)) if data else {}
    document, chunks, parents = chunked(text, strategy, drawn)
    cap = drawn.get("chunk_size", 512)
    parent_cap = drawn.get("parent_max_tokens") or max(2048, cap)
    assert_invariants(document, chunks, parents, cap, parent_cap, drawn.get("recursive_chunk_chars"))


@pytest.mark.parametrize("strategy", STRATEGIES)
@settings(max_examples=20, deadline=None)
@given(data=st.data(), text=texts)
def test_same_input_and_settings_give_the_same_chunks(strategy: str, data: st.DataObject, text: str) -> None:
    drawn = data.draw(parameters(strategy))
    assert chunked(text, strategy, drawn)[1:] == chunked(text, strategy, drawn)[1:]


# Real texts, where there are any beside the checkout: a folder of files to put all strategies to the test with.
TEXTS = Path(os.environ.get("QUARRY_TEST_TEXTS") or Path(__file__).parents[3] / "shared" / "eval" / "corpora")


@pytest.mark.parametrize("cap", [7, 64, 512, 2000])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_invariants_hold_for_real_texts(strategy: str, cap: int) -> None:
    paths = sorted(path for path in TEXTS.glob("**/*") if path.is_file())
    if not paths:
        pytest.skip("no folder of real texts; QUARRY_TEST_TEXTS names one")
    for path in paths:
        document, chunks, parents = chunked(path.read_text(encoding="utf-8"), strategy, {"chunk_size": cap})
        assert_invariants(document, chunks, parents, cap, max(2048, cap), 2000 if strategy == "recursive" else None)
