"""The private server: once with Prefect itself, otherwise with a stand-in of the same name that starts in no time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

import pytest

from flows import server
from flows.server import ServerError, prefect_environment, private_server

# Answers on the port that it is told, and writes down its process, environment and arguments.
STAND_IN = """
import http.server, json, os, signal, sys
told = {"pid": os.getpid(), "sid": os.getsid(0), "environment": dict(os.environ), "arguments": sys.argv, "cwd": os.getcwd()}
with open("told.json", "w") as file:
    json.dump(told, file)
exec(os.environ.get("STAND_IN", ""))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/api/health" else 404)
        self.end_headers()
    def log_message(self, *arguments):
        pass
http.server.HTTPServer(("127.0.0.1", int(os.environ["PREFECT_SERVER_API_PORT"])), Handler).serve_forever()
"""


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts the stand-in in Prefect's place, for child processes only; called with code that it runs first."""
    package = tmp_path / "path" / "prefect"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(STAND_IN)
    monkeypatch.setenv("PYTHONPATH", str(package.parent))
    return lambda code: monkeypatch.setenv("STAND_IN", code)


def told(home: Path) -> dict[str, object]:
    found: dict[str, object] = json.loads((home / "prefect" / "told.json").read_text())
    return found


def is_running(pid: object) -> bool:
    try:
        os.kill(int(str(pid)), 0)
    except ProcessLookupError:
        return False
    # A killed orphan may stay as a zombie where nothing collects it.
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


def wait_until_gone(pid: object, seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not is_running(pid)


@pytest.mark.flow
def test_prefect_s_own_server_runs_while_the_block_does(tmp_path: Path) -> None:
    messages: list[str] = []
    with private_server(tmp_path, notify=messages.append) as url:
        with urllib.request.urlopen(f"{url}/admin/version") as answer:
            assert answer.read().startswith(b'"3.')
        assert (tmp_path / "prefect" / "prefect.db").exists()
    assert messages == ["starting a private Prefect server; the first time it creates its database, up to 30 s"]
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"{url}/health")


def test_the_server_runs_in_a_session_of_its_own_and_ends_with_the_block(
    tmp_path: Path, stand_in: Callable[[str], None]
) -> None:
    with private_server(tmp_path) as url:
        found = told(tmp_path)
        assert found["sid"] != os.getsid(0)
        assert url == f"http://127.0.0.1:{found['environment']['PREFECT_SERVER_API_PORT']}/api"  # type: ignore[index]
        assert found["arguments"] == ["prefect", "server", "start"]
    assert not is_running(found["pid"])


def test_a_server_that_ends_before_the_block_is_told(tmp_path: Path, stand_in: Callable[[str], None]) -> None:
    told_of: SimpleQueue[ServerError] = SimpleQueue()
    with private_server(tmp_path, ended=told_of.put):
        os.kill(int(str(told(tmp_path)["pid"])), signal.SIGKILL)
        assert str(told_of.get(timeout=10)).startswith("the private Prefect server ended with status -9; its log")
    with private_server(tmp_path, ended=told_of.put):
        pass
    assert told_of.empty()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_the_server_ends_when_the_block_is_left_by_an_exception(
    tmp_path: Path, stand_in: Callable[[str], None], error: type[BaseException]
) -> None:
    with pytest.raises(error), private_server(tmp_path):
        raise error
    assert not is_running(told(tmp_path)["pid"])


def test_a_server_that_ignores_term_is_killed(
    tmp_path: Path, stand_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in("signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    monkeypatch.setattr(server, "STOP_BOUND", 0.2)
    with private_server(tmp_path):
        pass
    assert not is_running(told(tmp_path)["pid"])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_ends_by_itself_when_its_run_is_killed(
    tmp_path: Path, stand_in: Callable[[str], None], number: signal.Signals
) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from flows.server import private_server\n"
        "with private_server(Path(sys.argv[2])) as url: print(url, flush=True); sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(Path(server.__file__).parents[1]), str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stdout.readline().startswith(b"http://127.0.0.1:")
        run.send_signal(number)
        run.wait()
    assert wait_until_gone(told(tmp_path)["pid"])


def test_a_server_that_ends_at_once_is_an_error_with_its_log(tmp_path: Path, stand_in: Callable[[str], None]) -> None:
    stand_in("sys.exit('no such table: flow_run')")
    with (
        pytest.raises(ServerError, match=r"status 1; its log \(.*server.log\) ends with:\n  no such table"),
        private_server(tmp_path),
    ):
        pass


def test_a_server_that_never_answers_is_stopped_with_an_error(
    tmp_path: Path, stand_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in("signal.pause()")
    monkeypatch.setattr(server, "START_BOUND", 0.5)
    with pytest.raises(ServerError, match="did not answer"), private_server(tmp_path):
        pass
    assert not (tmp_path / "prefect" / "told.json").exists() or not is_running(told(tmp_path)["pid"])


def test_another_port_is_tried_when_the_first_was_taken(tmp_path: Path, stand_in: Callable[[str], None]) -> None:
    stand_in(
        "tried = open('tried', 'a+'); tried.seek(0)\n"
        "if not tried.read(): tried.write('x'); tried.close(); sys.exit('Port is already in use.')"
    )
    with private_server(tmp_path):
        assert (tmp_path / "prefect" / "tried").read_text() == "x"


def test_the_user_s_own_prefect_settings_do_not_reach_the_server(
    tmp_path: Path, stand_in: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_DATABASE_CONNECTION_URL", "postgresql://elsewhere")
    monkeypatch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "true")
    with private_server(tmp_path):
        found = told(tmp_path)
    environment = found["environment"]
    assert isinstance(environment, dict)
    assert "PREFECT_API_DATABASE_CONNECTION_URL" not in environment
    assert environment["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"
    assert environment["DO_NOT_TRACK"] == "1"
    assert environment["PREFECT_HOME"] == found["cwd"] == str(tmp_path / "prefect")


# The client's environment


def test_a_client_is_pointed_at_the_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", raising=False)
    found = prefect_environment("http://127.0.0.1:4200/api", home=tmp_path)
    assert found["PREFECT_API_URL"] == "http://127.0.0.1:4200/api"
    assert found["PREFECT_HOME"] == str(tmp_path / "prefect")
    assert found["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] == "WARNING"
    assert found["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false"


def test_a_client_of_the_user_s_server_keeps_the_user_s_prefect_home() -> None:
    assert "PREFECT_HOME" not in prefect_environment("http://127.0.0.1:4200/api")


def test_what_the_user_says_of_logging_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "DEBUG")
    assert prefect_environment("http://x/api")["PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL"] == "DEBUG"


def test_a_proxy_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy:3128")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("NO_PROXY", "example.org")
    assert prefect_environment("http://x/api")["no_proxy"] == "example.org,127.0.0.1,localhost"


def test_no_module_here_imports_prefect() -> None:
    code = "import sys, flows.loading, flows.settings, flows.server; sys.exit('prefect' in sys.modules)"
    root = Path(server.__file__).parents[1]
    assert subprocess.run([sys.executable, "-c", code], cwd=root, check=False).returncode == 0


def test_the_server_s_recorder_gets_whole_seconds() -> None:
    """Prefect cuts off the rest: with 0.25 its recorder waited for nothing, without end, and took a processor for itself."""
    from flows.server import _SERVER

    given = _SERVER["PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL"]
    assert int(given) >= 1
