"""FastEmbed's models, with a real ONNX graph that is made here: tests ask no hub.

The graph has BERT's inputs and output. A token's vector is its own row plus the mean of the rows of the text, so the first token's, which
FastEmbed takes for this model, tells the texts apart. CI installs FastEmbed and onnx for the suites marked slow.
"""

from __future__ import annotations

import json
import shutil
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from chunkers import ModelError, SettingError
from chunkers.models import Embedder, open_embedder
from chunkers.models.fastembed_embedder import FastEmbedEmbedder
from chunkers.models.requests import InputTooLongError
from stores import Retriever, connect, list_collections
from tests.flows.conftest import TEXTS, clean_environment, ingest, source, told

__all__ = ["clean_environment", "source"]

pytestmark = pytest.mark.slow

NAME = "fastembed:sentence-transformers/all-MiniLM-L6-v2"
MODEL_FILE = "model.onnx"
LOOPBACK = ("127.0.0.1", "::1", "localhost")
DIMENSIONS = 384
LONGEST = 256
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model's files."""
    pytest.importorskip("fastembed")
    pytest.importorskip("onnx")
    folder = tmp_path_factory.mktemp("model")
    words = sorted({word.strip(".,:#[]").lower() for text in TEXTS.values() for word in text.split()} - {""})
    letters = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    vocabulary = dict.fromkeys([*SPECIAL, *letters, *(f"##{letter}" for letter in letters), *words])
    write_tokenizer(folder, list(vocabulary))
    write_graph(folder / MODEL_FILE, len(vocabulary), DIMENSIONS)
    return folder


def write_tokenizer(folder: Path, vocabulary: list[str]) -> None:
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    ids = {word: number for number, word in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    tokenizer.save(str(folder / "tokenizer.json"))
    for name, content in {
        "config.json": {"pad_token_id": 0},
        "tokenizer_config.json": {"model_max_length": LONGEST, "pad_token": "[PAD]"},
        "special_tokens_map.json": {"pad_token": "[PAD]", "cls_token": "[CLS]"},
    }.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")


def write_graph(file: Path, words: int, dimensions: int, table: np.ndarray | None = None) -> None:
    from onnx import TensorProto, checker, helper, numpy_helper, save

    if table is None:
        table = np.random.default_rng(7).standard_normal((words, dimensions))
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "sequence"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    output = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "sequence", dimensions])
    constants = {
        "table": table.astype(np.float32),
        "types": np.zeros((2, dimensions), dtype=np.float32),
        "last": np.array([-1], dtype=np.int64),
        "first": np.array([1], dtype=np.int64),
    }
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["words"]),
        helper.make_node("Gather", ["types", "token_type_ids"], ["kinds"]),
        helper.make_node("Add", ["words", "kinds"], ["rows"]),
        helper.make_node("Cast", ["attention_mask"], ["flat"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["flat", "last"], ["mask"]),
        helper.make_node("Mul", ["rows", "mask"], ["kept"]),
        helper.make_node("ReduceSum", ["kept", "first"], ["sum"], keepdims=1),
        helper.make_node("ReduceSum", ["mask", "first"], ["count"], keepdims=1),
        helper.make_node("Div", ["sum", "count"], ["mean"]),
        helper.make_node("Add", ["rows", "mean"], ["last_hidden_state"]),
    ]
    initial = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "tiny", inputs, [output], initial),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )
    checker.check_model(model)
    save(model, str(file))


@pytest.fixture
def embedder(made: Path) -> FastEmbedEmbedder:
    return FastEmbedEmbedder(NAME, made)


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Path:
    """A copy of the folder, to be spoilt."""
    return Path(shutil.copytree(made, tmp_path / "copy"))


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Lets nothing connect beyond this machine; a list of what tried.

    Loopback passes: threads of the Prefect server that earlier tests of this process started may speak there at any time.
    """
    tried: list[object] = []
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def refuse(address: object) -> NoReturn:
        tried.append(address)
        raise OSError("no network")

    def connect_here(self: socket.socket, address: Any) -> None:
        if self.family != getattr(socket, "AF_UNIX", None) and address[0] not in LOOPBACK:
            refuse(address)
        connect(self, address)

    def look_up_here(host: Any, *names: Any, **options: Any) -> Any:
        if host is not None and host not in LOOPBACK:
            refuse((host, *names))
        return look_up(host, *names, **options)

    monkeypatch.setattr(socket.socket, "connect", connect_here)
    monkeypatch.setattr(socket, "getaddrinfo", look_up_here)
    return tried


def test_no_name_is_looked_up_where_there_is_no_network(no_network: list[object]) -> None:
    with pytest.raises(OSError, match="no network"):
        socket.create_connection(("huggingface.co", 443), timeout=1)
    with pytest.raises(OSError, match="no network"), socket.socket() as away:
        away.connect(("192.0.2.1", 443))
    assert len(no_network) == 2


def test_it_plays_the_role(embedder: FastEmbedEmbedder) -> None:
    assert isinstance(embedder, Embedder)
    assert (embedder.name, embedder.dimensions, embedder.max_input_tokens) == (NAME, DIMENSIONS, LONGEST)


def test_nothing_is_loaded_for_the_name_and_the_dimensions(tmp_path: Path) -> None:
    pytest.importorskip("fastembed")
    nothing = FastEmbedEmbedder("fastembed:BAAI/bge-base-en-v1.5", tmp_path)
    assert nothing.dimensions == 768
    assert nothing._loaded is None


def test_vectors_are_fastembed_s_own(embedder: FastEmbedEmbedder, made: Path) -> None:
    fastembed = pytest.importorskip("fastembed")
    texts = ["The pump starts at dawn.", "Tea", "Oil the bearings every month, and use thin oil."]
    own = fastembed.TextEmbedding(NAME.removeprefix("fastembed:"), specific_model_path=str(made))
    expected = np.array(list(own.embed(texts)))
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    vectors = embedder.embed(texts)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_vectors_come_in_the_order_asked_whatever_the_lengths(embedder: FastEmbedEmbedder) -> None:
    texts = [f"gate {number} " + "oil " * (number * 37 % 200) for number in range(120)]
    together = embedder.embed(texts)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(embedder.embed([text])[0], vector, atol=1e-5)


def test_no_texts_are_no_vectors(embedder: FastEmbedEmbedder) -> None:
    assert embedder.embed([]).shape == (0, DIMENSIONS)


def test_a_blank_text_is_refused(embedder: FastEmbedEmbedder) -> None:
    with pytest.raises(ValueError, match="text 1 of 2 is blank"):
        embedder.embed(["text", " \n"])


def test_a_text_that_just_fits_is_embedded_whole(embedder: FastEmbedEmbedder) -> None:
    text = "oil " * (LONGEST - 3) + "tea"
    assert embedder.count_tokens(text) == LONGEST
    (whole,) = embedder.embed([text])
    (beginning,) = embedder.embed(["oil " * (LONGEST - 2)])
    assert whole @ beginning < 1 - 1e-6


def test_a_text_over_the_limit_is_refused_and_never_cut(
    embedder: FastEmbedEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert embedder.count_tokens("oil " * 5000) == 5002
    monkeypatch.setattr(embedder, "_vectors", None)
    with pytest.raises(InputTooLongError, match="lower chunk_size") as caught:
        embedder.embed(["tea", "oil " * (LONGEST - 1)])
    assert (caught.value.index, caught.value.tokens, caught.value.cap) == (1, LONGEST + 1, LONGEST)


def test_a_special_token_in_a_text_is_ordinary_text(embedder: FastEmbedEmbedder) -> None:
    assert embedder.count_tokens("[SEP]") > 3
    plain, spoken = embedder.embed(["oil tea", "oil [PAD] tea"])
    assert plain @ spoken < 1 - 1e-6


@pytest.mark.parametrize("text", ["\x00", "\u200b", "\ud800", "🏳️‍🌈", "日本語"])
def test_an_odd_text_has_a_unit_vector(embedder: FastEmbedEmbedder, text: str) -> None:
    assert np.linalg.norm(embedder.embed([text])[0]) == pytest.approx(1, abs=1e-5)


def test_threads_share_one_model_and_get_what_one_thread_gets(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, shared = FastEmbedEmbedder(NAME, made), FastEmbedEmbedder(NAME, made)
    loads: list[object] = []
    load = FastEmbedEmbedder._load

    def counted(self: FastEmbedEmbedder) -> Any:
        loads.append(self)
        return load(self)

    monkeypatch.setattr(FastEmbedEmbedder, "_load", counted)
    batches = [[f"gate {batch} " + "and oil " * (number % 17) for number in range(60)] for batch in range(12)]
    with ThreadPoolExecutor(6) as pool:
        for batch, vectors in zip(batches, pool.map(shared.embed, batches), strict=True):
            np.testing.assert_allclose(vectors, alone.embed(batch), atol=1e-5)
    assert loads.count(shared) == 1


def test_a_stopped_run_embeds_nothing_more(made: Path) -> None:
    cancelled = threading.Event()
    embedder = FastEmbedEmbedder(NAME, made, cancelled=cancelled)
    cancelled.set()
    with pytest.raises(ModelError, match="the run was stopped") as caught:
        embedder.embed(["text"])
    assert caught.value.fatal


@pytest.mark.parametrize("name", ["sentence-transformers/all-MiniLM-L6", "SENTENCE-TRANSFORMERS/ALL-MINILM-L6-V2"])
def test_an_unknown_model_is_refused_with_names_that_are_near(name: str) -> None:
    pytest.importorskip("fastembed")
    with pytest.raises(SettingError, match=NAME):
        _ = FastEmbedEmbedder(f"fastembed:{name}").dimensions


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    pytest.importorskip("fastembed")
    with pytest.raises(SettingError, match=r"nowhere.*a folder that exists"):
        FastEmbedEmbedder(NAME, tmp_path / "nowhere").count_tokens("text")


def test_files_that_a_folder_lacks_are_named(copy: Path) -> None:
    for name in (MODEL_FILE, "tokenizer_config.json"):
        (copy / name).unlink()
    with pytest.raises(SettingError, match=r"copy.*has no model\.onnx, tokenizer_config\.json"):
        _ = FastEmbedEmbedder(NAME, copy).max_input_tokens


def no_graph(folder: Path) -> None:
    (folder / MODEL_FILE).write_bytes(b"no graph")


def no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")


def no_limit(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text('{"pad_token": "[PAD]"}', encoding="utf-8")


def another_model(folder: Path) -> None:
    write_graph(folder / MODEL_FILE, 2000, 8)


def not_a_number(folder: Path) -> None:
    write_graph(folder / MODEL_FILE, 2000, DIMENSIONS, np.full((2000, DIMENSIONS), np.nan))


@pytest.mark.parametrize("spoil", [no_graph, no_tokenizer, no_limit, another_model, not_a_number])
def test_a_folder_whose_files_cannot_be_used_is_named_in_one_line(copy: Path, spoil: Callable[[Path], None]) -> None:
    spoil(copy)
    with pytest.raises(SettingError, match=r"^model_folder: .*copy.*cannot be used: .+") as caught:
        _ = FastEmbedEmbedder(NAME, copy).max_input_tokens
    assert "\n" not in str(caught.value)


def test_a_folder_needs_no_network(embedder: FastEmbedEmbedder, no_network: list[object]) -> None:
    embedder.embed(["text"])
    assert no_network == []


def test_a_model_that_cannot_be_fetched_is_an_error_that_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("fastembed")
    # FastEmbed then looks into its cache alone, and does not wait for a hub.
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    with pytest.raises(ModelError, match=r"could not be fetched.*QUARRY_MODEL_FOLDER") as caught:
        open_embedder(NAME).embed(["text"])
    assert caught.value.fatal


def test_the_environment_names_the_folder(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARRY_MODEL_FOLDER", str(made))
    assert open_embedder(NAME).embed(["text"]).shape == (1, DIMENSIONS)


@pytest.fixture
def local(made: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[object]) -> list[object]:
    """Settings of runs with the model of the folder; a list of what tried the network."""
    monkeypatch.setenv("QUARRY_EMBEDDING_MODEL", NAME)
    monkeypatch.setenv("QUARRY_MODEL_FOLDER", str(made))
    monkeypatch.setenv("QUARRY_CHUNK_SIZE", "64")
    return no_network


def test_a_corpus_is_ingested_and_searched_with_it(source: Path, local: list[object]) -> None:
    report = told("ingest", source, "--plain")
    assert {own["failed"] == [] for own in report["strategies"].values()} == {True}
    assert all(own["embedded"] + own["cached"] > 0 for own in report["strategies"].values())
    with connect() as client:
        assert {(info.embedding_model, info.dimensions) for info in list_collections(client)} == {(NAME, DIMENSIONS)}
        found = Retriever(client, "docs").search("green tea water", "recursive", mode="dense")
    assert found[0].source == "notes/tea.md"
    hits = told("search", "Oil the bearings every month", "--mode", "dense", "--strategy", "sentence")["hits"]
    assert hits[0]["source"] == "guide.md"
    assert local == []


def test_a_second_run_embeds_nothing(source: Path, local: list[object]) -> None:
    assert ingest(source).exit_status == 0
    again = ingest(source)
    assert [own.embedded for own in again.strategies.values()] == [0] * 6


def test_the_folder_of_one_run_reaches_the_search(
    source: Path, made: Path, local: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("QUARRY_MODEL_FOLDER")
    assert ingest(source, "recursive", overrides={"model_folder": str(made)}).exit_status == 0
    assert told("search", "tea", "--mode", "dense", "--set", f"model_folder={made}")["hits"]


def test_a_dry_run_counts_the_texts_and_no_requests(source: Path, local: list[object]) -> None:
    dry = ingest(source, "recursive", dry_run=True).strategies["recursive"]
    real = ingest(source, "recursive").strategies["recursive"]
    assert (dry.embedded, dry.requests) == (real.embedded, 0)


def test_a_chunk_size_over_the_limit_is_refused_before_work_starts(source: Path, local: list[object]) -> None:
    with pytest.raises(SettingError, match=f"at most {LONGEST}"):
        ingest(source, "recursive", overrides={"chunk_size": "300"})
