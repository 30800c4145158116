"""`deploy/prefect.yaml`, as Prefect will read it: without a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.flows import Flow, load_flow_from_entrypoint

from flows.schedule import Schedule

PATH = Path(__file__).parents[2] / "deploy" / "prefect.yaml"
FILE: dict[str, Any] = yaml.safe_load(PATH.read_text(encoding="utf-8"))
DEPLOYMENTS: list[dict[str, Any]] = FILE["deployments"]
SCHEDULES = [schedule for deployment in DEPLOYMENTS for schedule in deployment["schedules"]]


def flow_of(deployment: dict[str, Any]) -> Flow[..., Any]:
    return load_flow_from_entrypoint(deployment["entrypoint"])


def test_the_file_deploys_a_nightly_ingest_and_a_backfill_on_demand() -> None:
    names = [f"{flow_of(deployment).name}/{deployment['name']}" for deployment in DEPLOYMENTS]
    assert names == ["ingest/corpus", "backfill/corpus"]


def test_nothing_is_pulled_since_the_package_is_installed() -> None:
    # Without the key Prefect would put the deploying machine's folder there.
    assert FILE["pull"] == []
    assert all("/" not in deployment["entrypoint"] for deployment in DEPLOYMENTS)


def test_each_schedule_has_a_slug_of_its_own_a_time_zone_and_a_state() -> None:
    slugs = [schedule["slug"] for schedule in SCHEDULES]
    assert slugs
    assert len(slugs) == len(set(slugs))
    assert all(schedule["timezone"] and schedule["active"] in (True, False) for schedule in SCHEDULES)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule["slug"])
def test_no_schedule_is_at_an_hour_that_clocks_skip_or_repeat(schedule: dict[str, Any]) -> None:
    assert Schedule(schedule["cron"], schedule["timezone"]).cron == "0 4 * * *"


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Africa/Cairo", "Australia/Lord_Howe"])
def test_the_default_hour_is_legal_in_zones_whose_clocks_change(zone: str) -> None:
    assert Schedule("0 4 * * *", zone)


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda deployment: deployment["name"])
def test_default_parameters_are_legal_for_the_flow(deployment: dict[str, Any]) -> None:
    assert flow_of(deployment).validate_parameters(deployment["parameters"])["source"].startswith("/")


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda deployment: deployment["name"])
def test_a_second_run_is_dropped_or_waits(deployment: dict[str, Any]) -> None:
    limit = deployment["concurrency_limit"]
    assert limit["limit"] == 1
    assert limit["collision_strategy"] in ("CANCEL_NEW", "ENQUEUE")


def test_nothing_secret_is_in_the_file() -> None:
    text = PATH.read_text(encoding="utf-8")
    assert not any(word in text for word in ("API_KEY", "sk-", "password", "PASSWORD"))
