"""Keys and passwords: in nothing that a failing run prints, logs, stores or leaves with Prefect."""

from __future__ import annotations

import base64
import json
import logging
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from chunkers.models.openai_embedder import OpenAIEmbedder
from tests.flows.conftest import quarry
from tests.flows.test_automations import BOUND, new_run, served
from tests.openai_server import Fault, OpenAIServer, Request, disconnect
from tests.openai_server import status as refused
from tests.qdrant_server import QdrantServer
from tests.qdrant_server import status as unavailable

KEY, PASSWORD, QUERY, STORE_KEY = "sk-canary-4711", "canary/pass word", "canary-of-a-query", "canary-of-qdrant-0815"
QUOTED = "canary%2Fpass%20word"
BASIC = base64.b64encode(f"user:{PASSWORD}".encode()).decode()
SECRETS = (KEY, PASSWORD, QUOTED, BASIC, QUERY, STORE_KEY)
# Of a secret in any form.
CANARY = b"canary"

Arrange = Callable[[OpenAIServer, QdrantServer], None]


def model_says(make: Callable[[Request], Fault]) -> Arrange:
    def arrange(model: OpenAIServer, store: QdrantServer) -> None:
        model.always = make

    return arrange


def store_says(http: int) -> Arrange:
    def arrange(model: OpenAIServer, store: QdrantServer) -> None:
        store.fail("PUT", "/points", always=unavailable(http, f"api-key: {STORE_KEY} was shown"))

    return arrange


# What fails, and says what it was shown, as some services and proxies do.
FAILING: dict[str, Arrange] = {
    "401 with the key": model_says(lambda request: refused(401, message=f"Incorrect API key provided: {KEY}")),
    "500 with all headers": model_says(lambda request: refused(500, message=json.dumps(request.headers))),
    "400 with all headers": model_says(lambda request: refused(400, message=f"{request.headers} {KEY!r}")),
    "a page with all headers": model_says(lambda request: Fault(502, {}, f"<html>{request.headers}</html>".encode())),
    "200 with the key": model_says(lambda request: Fault(body={"error": KEY})),
    "no JSON": model_says(lambda request: Fault(body=f"{KEY} {PASSWORD}".encode())),
    "no answer": model_says(lambda request: disconnect()),
    "store 403 with the key": store_says(403),
    "store 400 with the key": store_says(400),
}


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("QUARRY_REQUEST_ATTEMPTS", "1")
    with OpenAIServer(key=None) as model, QdrantServer(key=STORE_KEY) as store:
        monkeypatch.setenv("OPENAI_BASE_URL", model.url.replace("//", f"//user:{QUOTED}@"))
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("QDRANT_URL", store.url)
        monkeypatch.setenv("QDRANT_API_KEY", STORE_KEY)
        yield model, store


def left(folder: Path) -> bytes:
    """All that stands in files below a folder."""
    return b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())


def logged(caplog: pytest.LogCaptureFixture) -> str:
    """Every record, with all that it carries, also where no formatter shows it."""
    return caplog.text + "".join(str({**vars(record), "exc_info": None}) for record in caplog.records)


@pytest.mark.parametrize("arrange", FAILING.values(), ids=FAILING)
def test_no_secret_is_in_what_a_failing_plain_run_prints_and_stores(
    arrange: Arrange, source: Path, tmp_path: Path, services: Any
) -> None:
    arrange(*services)
    result = quarry("ingest", source, "--plain", "--json", "--set", "request_timeout=5")
    assert result.exit_code == 1
    assert "***" in result.output or "no answer" in result.output or "rror" in result.output
    assert CANARY not in result.output.encode()
    table = quarry("ingest", source, "--plain")
    assert table.exit_code == 1
    assert CANARY not in table.output.encode()
    kept = left(tmp_path / "home")
    assert kept
    assert CANARY not in kept
    stored = json.dumps([str(request.json) for request in services[1].sent("PUT", "/points")])
    assert not [secret for secret in SECRETS if secret in stored]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OPENAI_BASE_URL", f"user:{PASSWORD}@host/v1"),
        ("OPENAI_BASE_URL", f"http://user:{QUOTED}@host:port/v1"),
        ("OPENAI_BASE_URL", f"ftp://host/v1?api-key={QUERY}"),
        ("OPENAI_API_KEY", f"{KEY}\nand more"),
        ("OPENAI_API_KEY", f"{KEY}\u00e4"),
        ("QDRANT_URL", f"user:{PASSWORD}@host"),
        ("QDRANT_URL", f"http://user:{QUOTED}@127.0.0.1:1"),
        ("QDRANT_URL", f"http://127.0.0.1:1/?api-key={QUERY}"),
        ("QDRANT_API_KEY", f"{STORE_KEY}\nand more"),
        ("QDRANT_API_KEY", f"{STORE_KEY}\u00e4"),
        ("PREFECT_API_URL", f"http://user:{QUOTED}@127.0.0.1:1/api"),
    ],
)
def test_no_secret_is_in_the_complaint_about_a_setting(
    name: str, value: str, source: Path, services: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    result = quarry("ingest", source, *([] if name == "PREFECT_API_URL" else ["--plain"]))
    assert result.exit_code in (1, 2)
    assert "canary" not in result.output
    assert "Traceback" not in result.output


def wait_until_stored(database: Path, run: UUID) -> None:
    """Until the database has the event of the run's end, and so all before it."""
    asked = "SELECT count(*) FROM events WHERE event LIKE 'prefect.flow-run.Failed' AND resource_id = ?"
    end = time.monotonic() + BOUND
    while time.monotonic() < end:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
            if connection.execute(asked, [f"prefect.flow-run.{run}"]).fetchone()[0]:
                return
        time.sleep(0.2)
    pytest.fail("the server does not store the run's events")


@pytest.mark.flow
@pytest.mark.parametrize("name", ["401 with the key", "500 with all headers", "no JSON", "store 403 with the key"])
def test_no_secret_is_in_anything_that_a_failing_run_leaves_with_prefect_or_in_the_log(
    name: str,
    source: Path,
    tmp_path: Path,
    services: Any,
    prefect_server: None,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from prefect.flow_engine import run_flow
    from prefect.logging.handlers import APILogHandler
    from prefect.settings import PREFECT_HOME, PREFECT_SERVER_DATABASE_CONNECTION_URL

    from flows.ingest import ingest

    caplog.set_level(logging.DEBUG)
    # Prefect's console writes to what was the standard error of the first run here, and logging would tell of that.
    monkeypatch.setattr(logging, "raiseExceptions", False)
    FAILING[name](*services)
    run = new_run(served(source)[0])
    state = run_flow(ingest, flow_run=run, return_type="state")
    assert state.is_failed()
    APILogHandler().flush()
    database = Path(PREFECT_SERVER_DATABASE_CONNECTION_URL.value().removeprefix("sqlite+aiosqlite:///"))
    wait_until_stored(database, run.id)
    kept = b"".join(file.read_bytes() for file in database.parent.glob(f"{database.name}*"))
    assert str(source).encode() in kept
    assert state.message[:40].encode() in kept
    said = logged(caplog) + "".join(capfd.readouterr())
    assert "recursive stops: " in said or "documents failed" in said
    for text in (kept, said.encode(), left(tmp_path / "home"), left(PREFECT_HOME.value())):
        assert not [secret for secret in SECRETS if secret.encode() in text]


def test_the_log_of_a_library_is_redacted_in_a_run(services: Any, caplog: pytest.LogCaptureFixture) -> None:
    from flows import logs

    OpenAIEmbedder("m", api_key=KEY, base_url=f"http://user:{QUOTED}@host/v1")
    logs.set_up_for_run()
    caplog.set_level(logging.DEBUG)
    log = logging.getLogger("a.library")
    log.info("GET %s", f"http://user:{QUOTED}@host/v1?key={KEY}")
    try:
        raise ValueError(f"Illegal header value {KEY!r}")
    except ValueError:
        log.exception("failed")
    assert "GET http://***@host/v1?key=***" in caplog.text
    assert "Illegal header value '***'" in caplog.text
    assert "canary" not in caplog.text
