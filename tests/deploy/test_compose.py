"""`deploy/compose.yaml` without a container engine: what is pinned, who may reach what, as whom, and that each name in it exists."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.settings import Settings, variable
from tests.deploy import healthy

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
TEXT = (DEPLOY / "compose.yaml").read_text(encoding="utf-8")
FILE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
EXAMPLE = (DEPLOY / "example.env").read_text(encoding="utf-8")
ONE_SHOT = {name for name, service in SERVICES.items() if service["restart"] == "no"}
# Of programs that are neither ours nor Prefect's.
OTHERS = r"QDRANT__[A-Z_]+|POSTGRES_(USER|DB|PASSWORD)|PYTHONWARNINGS"
SECRET = re.compile("KEY|PASSWORD|AUTH")
each_service = pytest.mark.parametrize("name", SERVICES)


def environment(name: str) -> dict[str, str | None]:
    return SERVICES[name].get("environment", {})


def mounts(name: str) -> dict[str, str]:
    """Where each volume or folder of a service is seen, with what is there."""
    found = {}
    for volume in SERVICES[name].get("volumes", []):
        source, target = (volume["source"], volume["target"]) if isinstance(volume, dict) else volume.split(":")
        found[target] = source
    return found


@each_service
def test_an_image_is_pinned_to_a_whole_version(name: str) -> None:
    image = SERVICES[name]["image"]
    assert re.fullmatch(r"[\w./-]+:v?(\d+\.\d+\.\d+|1[0-9]\.\d+-bookworm)(-unprivileged)?", image), image


def test_our_image_has_the_version_of_the_package() -> None:
    import tomllib

    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    ours = {service["image"] for service in SERVICES.values() if "/" not in service["image"]} - {
        SERVICES["postgres"]["image"]
    }
    assert ours == {f"chunk-quarry:{version}"}
    assert set(re.findall(r"chunk-quarry:[\d.]+", (DEPLOY / "README.md").read_text(encoding="utf-8"))) == ours


@each_service
def test_every_service_that_stays_says_how_it_is(name: str) -> None:
    check = SERVICES[name]["healthcheck"]
    assert check == {"disable": True} if name in ONE_SHOT else check["test"][0] in ("CMD", "CMD-SHELL")


@each_service
def test_nobody_is_root_or_can_become_it(name: str) -> None:
    service = SERVICES[name]
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", service["user"])
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not service.get("privileged")


@each_service
def test_a_port_is_published_for_this_machine_only(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))
    assert SERVICES[name].get("network_mode") is None


def test_only_qdrant_and_prefect_are_published_and_only_prefect_reaches_its_database() -> None:
    assert {name for name, service in SERVICES.items() if service.get("ports")} == {"qdrant", "server"}
    assert {name for name, service in SERVICES.items() if "database" in service.get("networks", [])} == {
        "postgres",
        "server",
    }
    assert SERVICES["postgres"]["networks"] == ["database"]
    assert FILE["networks"]["database"]["internal"] is True


@each_service
def test_a_service_starts_again_has_an_init_and_bounded_logs(name: str) -> None:
    service = SERVICES[name]
    assert service["restart"] == ("no" if name in ONE_SHOT else "unless-stopped")
    assert service["init"] is True
    assert service["logging"]["options"]["max-size"]


def test_the_key_and_the_password_must_be_given() -> None:
    for name, value in (("qdrant", "QDRANT__SERVICE__API_KEY"), ("worker", "QDRANT_API_KEY")):
        assert str(environment(name)[value]).startswith("${QDRANT_API_KEY:?")
    for name, value in (("postgres", "POSTGRES_PASSWORD"), ("server", "PREFECT_SERVER_DATABASE_PASSWORD")):
        assert str(environment(name)[value]).startswith("${POSTGRES_PASSWORD:?")


@each_service
def test_no_secret_has_a_value_in_the_file(name: str) -> None:
    for variable_, value in environment(name).items():
        if SECRET.search(variable_):
            assert value is None or re.fullmatch(r"\$\{\w+:\?[^}]+\}", value), variable_


def test_the_example_names_what_must_be_given_and_holds_no_secret() -> None:
    required = set(re.findall(r"\$\{(\w+):\?", TEXT))
    given = dict(re.findall(r"^(\w+)=(.*)$", EXAMPLE, re.MULTILINE))
    assert given == dict.fromkeys(required, "")
    known = {
        *required,
        *re.findall(r"\$\{(\w+)", TEXT),
        *(name for service in SERVICES for name in environment(service)),
    }
    offered = re.findall(r"^#(\w+)=(.*)$", EXAMPLE, re.MULTILINE)
    assert {name for name, _ in offered} <= known
    assert not any(value for name, value in offered if SECRET.search(name))


@pytest.mark.parametrize("ignored", ["deploy/.env"])
def test_the_file_with_the_secrets_is_not_kept_in_git(ignored: str) -> None:
    assert ".env" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines(), ignored


@each_service
def test_every_variable_is_a_setting_of_somebody(name: str) -> None:
    import prefect.settings

    ours = {variable(field) for field in Settings.model_fields}
    for variable_ in environment(name):
        if variable_ not in ours and not re.fullmatch(OTHERS, variable_):
            assert getattr(prefect.settings, variable_).name == variable_


def test_prefect_takes_the_servers_values(monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.settings import Settings as PrefectSettings

    values = {name: value for name, value in environment("server").items() if value and "$" not in value}
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PREFECT_SERVER_DATABASE_PASSWORD", "p@s/s:%w")
    server = PrefectSettings().server
    assert server.services.task_run_recorder.flush_interval >= 1
    assert server.services.db_vacuum.enabled_vacuum_types >= {"events", "flow_runs"}
    assert server.database.password.get_secret_value() == "p@s/s:%w"


def test_the_worker_takes_every_setting_of_a_run() -> None:
    elsewhere = {"schedule", "time_zone", "home"}  # of `quarry serve`; of the image
    of_runs = {field for field in Settings.model_fields if not field.startswith(("search_", "fusion_"))}
    assert {variable(field) for field in of_runs - elsewhere} <= set(environment("worker"))


def test_a_setting_that_is_not_given_is_left_to_the_program() -> None:
    optional = [value for name, value in environment("worker").items() if name.startswith(("QUARRY_", "OPENAI_"))]
    assert optional
    assert all(value is None for value in optional)


def test_every_volume_is_declared_and_used() -> None:
    named = {source for name in SERVICES for source in mounts(name).values() if re.fullmatch(r"\w+", source)}
    assert named == set(FILE["volumes"])


def test_data_lies_on_volumes_and_the_corpus_cannot_be_written() -> None:
    assert "/qdrant/storage" in mounts("qdrant")
    assert "/qdrant/snapshots" in mounts("qdrant")
    assert "/var/lib/postgresql/data" in mounts("postgres")
    assert "QUARRY_HOME=/var/lib/quarry" in (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
    assert mounts("worker")["/var/lib/quarry"] == "home"
    (corpus,) = [volume for volume in SERVICES["worker"]["volumes"] if isinstance(volume, dict)]
    assert corpus["read_only"] is True
    assert corpus["bind"]["create_host_path"] is False


def test_the_deployments_read_what_is_mounted_and_use_the_pool_that_is_made_and_polled() -> None:
    deployments = yaml.safe_load((DEPLOY / "prefect.yaml").read_text(encoding="utf-8"))["deployments"]
    assert {deployment["parameters"]["source"] for deployment in deployments} <= set(mounts("worker"))
    (pool,) = {deployment["work_pool"]["name"] for deployment in deployments}
    worker = SERVICES["worker"]["command"]
    assert worker[worker.index("--pool") + 1] == pool
    script = SERVICES["register"]["command"][-1]
    assert f"prefect work-pool inspect {pool} " in script
    assert f"prefect work-pool create {pool} --type process" in script
    assert "--concurrency-limit" not in script


def test_our_image_is_built_once_and_never_pulled() -> None:
    policies = {name: service["pull_policy"] for name, service in SERVICES.items() if "pull_policy" in service}
    assert policies == {"register": "never", "worker": "never"}
    assert [name for name, service in SERVICES.items() if "build" in service] == ["server"]


def test_every_file_that_a_command_names_is_in_the_image() -> None:
    copied = re.search(
        r"^COPY (deploy/prefect.yaml .*) deploy/$", (DEPLOY / "Dockerfile").read_text(encoding="utf-8"), re.M
    )
    assert copied
    named = set(re.findall(r"deploy/[\w.]+", str([(s.get("command"), s["healthcheck"]) for s in SERVICES.values()])))
    assert named
    assert named <= set(copied[1].split())
    for service in SERVICES.values():
        if "build" in service:
            assert (DEPLOY / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


def test_things_start_in_order() -> None:
    waits = {
        name: {on: how["condition"] for on, how in SERVICES[name]["depends_on"].items()}
        for name in ("server", "register", "worker")
    }
    assert waits == {
        "server": {"postgres": "service_healthy"},
        "register": {"server": "service_healthy"},
        "worker": {
            "qdrant": "service_healthy",
            "server": "service_healthy",
            "register": "service_completed_successfully",
        },
    }


def test_the_server_of_qdrant_is_near_the_client() -> None:
    constraints = (DEPLOY / "constraints.txt").read_text(encoding="utf-8")
    client = re.search(r"^qdrant-client==1\.(\d+)\.", constraints, re.MULTILINE)
    server = re.search(r":v1\.(\d+)\.", SERVICES["qdrant"]["image"])
    assert client
    assert server
    assert abs(int(client[1]) - int(server[1])) <= 1


class Answer(BaseHTTPRequestHandler):
    status = 200

    def do_GET(self) -> None:
        self.send_response(self.status if self.path in ("/readyz", "/health") else 404)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def answering() -> Iterator[tuple[int, type[Answer]]]:
    class Mine(Answer):
        pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Mine) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port, Mine
        server.shutdown()
        thread.join()


@pytest.mark.skipif(not shutil.which("bash"), reason="no bash")
@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_the_check_of_qdrant_tells_a_ready_server_from_another(
    answering: tuple[int, type[Answer]], status: int, code: int
) -> None:
    port, handler = answering
    handler.status = status
    *_, script = SERVICES["qdrant"]["healthcheck"]["test"]
    script = script.replace("$$", "$").replace("6333", str(port))
    assert subprocess.run(["bash", "-c", script], timeout=20, check=False).returncode == code


@pytest.mark.parametrize(("status", "code"), [(200, 0), (503, 1)])
def test_our_check_tells_a_healthy_server_from_another(
    answering: tuple[int, type[Answer]], status: int, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    port, handler = answering
    handler.status = status
    assert healthy.main(str(port), "/health") == code


def test_our_check_fails_where_nobody_answers() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        port = server.server_port
    assert healthy.main(str(port), "/health") == 1


@pytest.mark.skipif(not shutil.which("docker-compose"), reason="no docker-compose")
def test_compose_reads_the_file(tmp_path: Path) -> None:
    # Version 1, which is what distributions package, knows neither of these; all else is the same.
    known = re.sub(r"^(name:| +bind: \{ create_host_path).*\n", "", TEXT, flags=re.MULTILINE)
    (tmp_path / "compose.yaml").write_text(known, encoding="utf-8")
    filled = re.sub(r"^(\w+)=$", r"\1=/word", EXAMPLE, flags=re.MULTILINE)
    for name, content, code in (("full.env", filled, 0), ("bare.env", EXAMPLE, 1)):
        (tmp_path / name).write_text(content, encoding="utf-8")
        command = ["docker-compose", "--env-file", name, "-f", "compose.yaml", "config", "--quiet"]
        bare = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
        done = subprocess.run(command, cwd=tmp_path, env=bare, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, done.stderr
