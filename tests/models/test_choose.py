"""Models by name, and the endpoint that the environment names."""

from __future__ import annotations

import subprocess
import sys

import pytest

from chunkers import models
from chunkers.errors import SettingError
from chunkers.models import Endpoint, endpoint_from_environment, open_context_writer, open_embedder
from chunkers.models.openai_embedder import OpenAIEmbedder
from chunkers.models.openai_writer import OpenAIContextWriter
from chunkers.models.outline import OutlineWriter
from chunkers.models.wordllama_embedder import WordllamaEmbedder

ENDPOINT = Endpoint("sk-key", "http://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("name", "endpoint", "kind", "opened"),
    [
        ("auto", None, WordllamaEmbedder, "wordllama"),
        ("auto", ENDPOINT, OpenAIEmbedder, "text-embedding-3-small"),
        ("wordllama", None, WordllamaEmbedder, "wordllama"),
        ("wordllama", ENDPOINT, WordllamaEmbedder, "wordllama"),
        ("text-embedding-3-large", ENDPOINT, OpenAIEmbedder, "text-embedding-3-large"),
        ("bge-m3", ENDPOINT, OpenAIEmbedder, "bge-m3"),
    ],
)
def test_an_embedder_is_opened_by_name(name: str, endpoint: Endpoint | None, kind: type, opened: str) -> None:
    embedder = open_embedder(name, endpoint)
    assert isinstance(embedder, kind)
    assert embedder.name == opened


@pytest.mark.parametrize(
    ("name", "endpoint", "kind", "opened"),
    [
        ("auto", None, OutlineWriter, "outline"),
        ("auto", ENDPOINT, OpenAIContextWriter, "gpt-4o-mini"),
        ("outline", ENDPOINT, OutlineWriter, "outline"),
        ("llama3.2", ENDPOINT, OpenAIContextWriter, "llama3.2"),
    ],
)
def test_a_context_writer_is_opened_by_name(name: str, endpoint: Endpoint | None, kind: type, opened: str) -> None:
    writer = open_context_writer(name, endpoint)
    assert isinstance(writer, kind)
    assert writer.name == opened


@pytest.mark.parametrize("opener", [open_embedder, open_context_writer])
def test_a_model_of_an_endpoint_is_never_replaced_by_another(opener: object) -> None:
    assert callable(opener)
    with pytest.raises(SettingError, match="OPENAI_API_KEY or OPENAI_BASE_URL"):
        opener("text-embedding-3-small", None)


@pytest.mark.parametrize("name", ["", "  "])
def test_a_blank_name_is_refused(name: str) -> None:
    with pytest.raises(SettingError, match="embedding_model"):
        open_embedder(name, ENDPOINT)


@pytest.mark.parametrize(
    ("key", "url", "endpoint"),
    [
        (None, None, None),
        ("", " ", None),
        ("sk-key\n", None, Endpoint("sk-key", None)),
        (None, "http://localhost:8080/v1", Endpoint(None, "http://localhost:8080/v1")),
        ("sk-key", "http://localhost:8080/v1", Endpoint("sk-key", "http://localhost:8080/v1")),
    ],
)
def test_the_environment_names_an_endpoint_or_none(
    monkeypatch: pytest.MonkeyPatch, key: str | None, url: str | None, endpoint: Endpoint | None
) -> None:
    for name, value in (("OPENAI_API_KEY", key), ("OPENAI_BASE_URL", url)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    assert endpoint_from_environment() == endpoint


def test_an_endpoint_shows_no_secret() -> None:
    endpoint = Endpoint("sk-key", "http://user:password@127.0.0.1:9/v1?token=secret")
    assert endpoint.shown == "http://127.0.0.1:9/v1"
    assert repr(endpoint) == "Endpoint()"


@pytest.mark.parametrize(
    "url", ["localhost:8080/v1", "ftp://host/v1", "http://", "http://[::1", "http://host:99999/v1", ""]
)
def test_an_address_that_is_no_http_url_is_refused(url: str) -> None:
    with pytest.raises(SettingError, match="OPENAI_BASE_URL"):
        Endpoint(None, url)


def test_a_password_in_a_refused_address_is_not_shown() -> None:
    with pytest.raises(SettingError) as caught:
        Endpoint(None, "ftp://user:password@host")
    assert "password" not in str(caught.value)


@pytest.mark.parametrize("key", ["sk-kéy", "sk-key\n", ""])
def test_a_key_that_cannot_be_sent_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(SettingError, match=r"OPENAI_API_KEY: '\*\*\*'") as caught:
        Endpoint(key, None)
    assert "sk-" not in str(caught.value)


def test_the_package_loads_nothing_heavy() -> None:
    code = "import sys, chunkers, chunkers.models; print([n for n in ('openai', 'wordllama', 'sqlite3') if n in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_opening_the_built_in_models_loads_no_client() -> None:
    code = (
        "import sys; from chunkers.models import open_embedder, open_context_writer as writer;"
        "open_embedder('auto'); writer('auto'); print('openai' in sys.modules, 'wordllama' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False False"


@pytest.mark.parametrize("name", models.__all__)
def test_every_name_of_the_package_is_there(name: str) -> None:
    assert getattr(models, name).__name__ if name != "Vectors" else models.Vectors


def test_another_name_is_not_there() -> None:
    with pytest.raises(AttributeError, match="Nonsense"):
        models.Nonsense  # noqa: B018
