"""`deploy/automations.yaml` on a real Prefect server: what is said, to whom it matters, and when nothing is said.

Notices are sent to an HTTP server of the tests', through a notification block as a person would make it. Runs are those of the deployments
that `quarry serve` and `deploy/prefect.yaml` make.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest
import yaml
from prefect.events.schemas.automations import AutomationCore
from prefect.states import Failed
from pydantic import ValidationError

from flows.server import prefect_environment, private_server

DEPLOY = Path(__file__).parents[2] / "deploy"
TEXT = (DEPLOY / "automations.yaml").read_text(encoding="utf-8")
SOME_ID = "6f0b5a3e-0000-4000-8000-000000000000"
FAILED, LATE, NOTHING = "chunk-quarry run failed", "chunk-quarry run late", "chunk-quarry nothing completed"
# A bound for what hangs, not a measure.
BOUND = 90.0
# The least that Prefect lets a trigger wait for something that does not come.
LEAST = timedelta(seconds=10)


def automations(block: str = SOME_ID) -> dict[str, AutomationCore]:
    """The file's automations by name, as Prefect's command reads them once the block's id is in it."""
    read = yaml.safe_load(TEXT.replace("BLOCK_ID", block))["automations"]
    return {one.name: one for one in map(AutomationCore.model_validate, read)}


@dataclass
class Mail:
    """What has been sent, in order."""

    messages: SimpleQueue[dict[str, str]]
    block: str

    def next(self, timeout: float = BOUND) -> dict[str, str]:
        return self.messages.get(timeout=timeout)

    def empty(self) -> bool:
        return self.messages.empty()


@pytest.fixture(scope="module")
def receiver() -> Iterator[tuple[str, SimpleQueue[dict[str, str]]]]:
    messages: SimpleQueue[dict[str, str]] = SimpleQueue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            messages.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/", messages
        server.shutdown()


@pytest.fixture
def mail(receiver: tuple[str, SimpleQueue[dict[str, str]]], prefect_server: None) -> Iterator[Mail]:
    from prefect.blocks.notifications import CustomWebhookNotificationBlock

    url, messages = receiver
    block = CustomWebhookNotificationBlock(
        name="mail", url=url, json_data={"subject": "{{subject}}", "body": "{{body}}"}
    )
    id_ = block.save("mail", overwrite=True)
    yield Mail(messages, str(id_))
    while not messages.empty():
        messages.get()


@contextmanager
def watched(mail: Mail, name: str, **changed: Any) -> Iterator[None]:
    """One of the file's automations while the block lasts, its trigger `changed`."""
    from prefect.client.orchestration import get_client

    one = automations(mail.block)[name]
    one = one.model_copy(update={"trigger": one.trigger.model_copy(update=changed)})
    with get_client(sync_client=True) as client:
        id_ = client.create_automation(one)
        try:
            yield
        finally:
            client.delete_automation(id_)


def served(source: Path) -> list[Any]:
    from flows.schedule import Schedule
    from flows.serve import _deployments

    parameters = {"source": str(source), "corpus": "docs", "strategies": ["recursive", "semantic"]}
    return list(_deployments(parameters, Schedule("0 4 * * *", "UTC"), "docs"))


def filed(source: Path) -> list[Any]:
    """The deployments of `deploy/prefect.yaml`, without their pool and schedule."""
    from prefect.flows import load_flow_from_entrypoint

    read = yaml.safe_load((DEPLOY / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    return [
        load_flow_from_entrypoint(one["entrypoint"]).to_deployment(
            one["name"], tags=one["tags"], parameters={**one["parameters"], "source": str(source)}
        )
        for one in read
    ]


def new_run(deployment: Any) -> Any:
    """A new run of a deployment; nobody takes it up."""
    from prefect.client.orchestration import get_client

    id_ = deployment.apply()
    with get_client(sync_client=True) as client:
        return client.create_flow_run_from_deployment(id_)


def becomes(run: Any, *states: Any) -> None:
    """The server is told that the run is in these states, one after the other."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        for state in states:
            client.set_flow_run_state(run.id, state, force=True)


@pytest.mark.flow
@pytest.mark.parametrize("deployments", [served, filed])
def test_a_run_that_fails_is_told_with_what_failed(
    deployments: Callable[[Path], list[Any]], source: Path, mail: Mail, semantic_fails: None
) -> None:
    from prefect.flow_engine import run_flow

    from flows.backfill import backfill

    run = new_run(deployments(source)[1])
    with watched(mail, FAILED):
        state = run_flow(backfill, flow_run=run, return_type="state")
        told = mail.next()
    assert told["subject"].startswith("backfill docs")
    assert told["subject"].endswith(": Failed")
    assert state.message in told["body"]
    assert "semantic (the disk is full)" in told["body"]
    assert str(run.id) in told["body"]


@pytest.mark.flow
def test_a_crash_is_told_and_other_ends_and_other_people_s_runs_are_not(source: Path, mail: Mail) -> None:
    from prefect import flow
    from prefect.states import Cancelled, Completed, Crashed

    @flow
    def foreign() -> None:
        pass

    nightly = served(source)[0]
    with watched(mail, FAILED):
        becomes(new_run(foreign.to_deployment("nightly", tags=["theirs"])), Failed(message="not ours"))
        becomes(new_run(nightly), Completed(message="all done"))
        becomes(new_run(nightly), Cancelled(message="stopped"))
        becomes(new_run(nightly), Crashed(message="the process was killed"))
        # Events are looked at in order.
        told = mail.next()
        assert told["subject"].endswith(": Crashed")
        assert told["body"].startswith("the process was killed")
        assert mail.empty()


@pytest.mark.slow
@pytest.mark.flow
def test_a_late_run_is_told_unless_somebody_takes_it_up(source: Path, mail: Mail) -> None:
    from prefect.states import AwaitingConcurrencySlot, Cancelled, Late, Pending, Running

    nightly = served(source)[0]
    taken_up = [Pending(), Running(), AwaitingConcurrencySlot(), Cancelled()]
    with watched(mail, LATE, within=LEAST):
        for state in taken_up:
            becomes(new_run(nightly), Late(), state)
        late = new_run(nightly)
        becomes(late, Late())
        told = mail.next()
        assert told["subject"] == "ingest/docs is late"
        assert f"started at {datetime.now(UTC):%Y-}" in told["body"]
        assert str(late.id) in told["body"]
        # It was the last to become late.
        assert mail.empty()


@pytest.mark.slow
@pytest.mark.flow
def test_a_night_without_a_completed_run_is_told_unless_the_next_one_completes_in_time(
    source: Path, mail: Mail
) -> None:
    from prefect import flow
    from prefect.states import Completed, Running

    @flow
    def other() -> None:
        pass

    stops = served(source)[0]
    goes_on = other.to_deployment("docs", tags=stops.tags)
    with watched(mail, NOTHING, within=LEAST):
        becomes(new_run(goes_on), Running(), Completed())
        last = new_run(stops)
        becomes(last, Running(), Completed())
        becomes(new_run(stops), Running(), Failed(message="no"))
        becomes(new_run(served(source)[1]), Running(), Completed())  # a backfill is no night
        told = None
        end = time.monotonic() + BOUND
        while told is None and time.monotonic() < end:
            becomes(new_run(goes_on), Running(), Completed())
            with suppress(Empty):
                told = mail.next(timeout=1)
        assert told
        assert told["subject"] == "ingest/docs: nothing completed in 26 hours"
        assert f"{last.name} was Completed at" in told["body"]
        # Once, until something is tried again.
        assert mail.next()["subject"].startswith("other/docs")
        becomes(new_run(stops), Running(), Failed(message="no"))
        assert mail.next()["subject"].startswith("ingest/docs")


@pytest.mark.slow
@pytest.mark.flow
def test_a_first_run_that_never_completes_is_told(source: Path, mail: Mail) -> None:
    from prefect.states import Late

    first = new_run(filed(source)[0])
    with watched(mail, NOTHING, within=LEAST):
        becomes(first, Late())
        told = mail.next()
    assert told["subject"] == "ingest/corpus: nothing completed in 26 hours"
    assert f"{first.name} was Late at" in told["body"]


def test_the_file_waits_for_what_a_person_wants_to_know() -> None:
    assert list(automations()) == [FAILED, LATE, NOTHING]
    waits = {name: one.trigger.within for name, one in automations().items()}  # type: ignore[union-attr]
    assert waits == {FAILED: timedelta(0), LATE: timedelta(minutes=10), NOTHING: timedelta(hours=26)}
    assert all(one.enabled for one in automations().values())


def test_a_file_without_the_block_s_id_is_refused_by_prefect() -> None:
    with pytest.raises(ValidationError, match=r"block_document_id\n +Input should be a valid UUID"):
        automations("BLOCK_ID")


def test_nothing_secret_is_in_the_file() -> None:
    assert not any(word in TEXT for word in ("API_KEY", "sk-", "password", "http:", "https:"))


@pytest.mark.slow
@pytest.mark.flow
def test_the_readme_s_commands_load_the_file_and_its_notices_link_to_the_run(
    tmp_path: Path, receiver: tuple[str, SimpleQueue[dict[str, str]]]
) -> None:
    from prefect.client.orchestration import SyncPrefectClient

    url, messages = receiver
    readme = (DEPLOY.parent / "README.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"### Being told\n.*?```sh\n(.*?)```", readme, re.DOTALL)
    # As in a fresh clone.
    (tmp_path / "deploy").symlink_to(DEPLOY)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    with private_server(tmp_path / "home") as api:
        done = subprocess.run(
            ["bash", "-ec", commands],
            input=url.replace("http:", "json:") + "\n",
            env={**os.environ, **prefect_environment(api, home=tmp_path / "home")},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=BOUND,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert all(f"'{name}' with id" in done.stdout for name in (FAILED, LATE, NOTHING))
        with SyncPrefectClient(api) as client:
            flow = client.create_flow_from_name("ingest")
            deployment = client.create_deployment(flow, "corpus", tags=["chunk-quarry", "nightly"], paused=True)
            id_ = client.create_flow_run_from_deployment(deployment).id
            client.set_flow_run_state(id_, Failed(message="1 of 6 strategies failed: semantic"), force=True)
        told = messages.get(timeout=BOUND)
        assert told["title"].endswith(": Failed")
        assert told["message"].startswith("1 of 6 strategies failed: semantic\n")
        page = f"{api.removesuffix('/api')}/runs/flow-run/{id_}"
        assert page in told["message"].splitlines()
        as_a_browser = urllib.request.Request(page, headers={"Accept": "text/html"})
        with urllib.request.urlopen(as_a_browser, timeout=BOUND) as answer:
            assert answer.status == 200
