"""Which schedules are legal: none whose time clocks skip or repeat."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from chunkers import SettingError
from flows.schedule import Schedule

TODAY = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "zone"),
    [
        ("0 4 * * *", "UTC"),
        ("0 2 * * *", "UTC"),
        ("30 2 * * *", "Asia/Kolkata"),
        ("0 4 * * *", "Europe/Berlin"),
        ("0 4 * * *", "America/New_York"),
        ("0 4 * * *", "Australia/Lord_Howe"),
        ("0 4 * * *", "Africa/Cairo"),
        ("59 1 * * *", "Europe/Berlin"),
        ("0 3 * * *", "Europe/London"),
        ("*/5 * * * *", "Europe/Berlin"),
        ("0 * * * *", "America/Havana"),
        ("15 1-4 * * *", "Europe/Berlin"),
        ("30 2 * * 1-5", "Europe/Berlin"),  # clocks change on Sundays
        ("0 2 29 2 *", "America/New_York"),
    ],
)
def test_a_time_that_every_day_has_once_is_legal(cron: str, zone: str) -> None:
    assert Schedule(cron, zone, TODAY).cron == cron


@pytest.mark.parametrize(
    ("cron", "zone", "told"),
    [
        ("30 2 * * *", "Europe/Berlin", "skip 02:30 on 29 March 2026"),
        ("0 2 * * *", "Europe/Berlin", "skip 02:00 on 29 March 2026"),
        ("15 2 * * *", "America/New_York", "skip 02:15 on 08 March 2026"),
        ("30 1 * * *", "America/New_York", "come twice to 01:30 on 01 November 2026"),
        ("30 1 * * *", "Europe/London", "skip 01:30 on 29 March 2026"),
        ("0 0 * * *", "America/Havana", "skip 00:00 on 08 March 2026"),
        ("0 0 * * *", "Africa/Cairo", "skip 00:00 on 24 April 2026"),
        ("45 1 * * *", "Australia/Lord_Howe", "come twice to 01:45 on 05 April 2026"),
        ("30 2 * * 0", "Europe/Berlin", "skip 02:30"),
        ("0 0,2 * * *", "Europe/Berlin", "skip 02:00"),
    ],
)
def test_a_time_that_clocks_skip_or_repeat_is_refused_with_the_date(cron: str, zone: str, told: str) -> None:
    with pytest.raises(SettingError) as refused:
        Schedule(cron, zone, TODAY)
    assert told in str(refused.value)
    assert str(refused.value).startswith(f"schedule: '{cron}' cannot be used")


@pytest.mark.parametrize(
    "cron", ["", "  ", "4", "@daily", "0 4 * *", "0 0 4 * * *", "61 4 * * *", "a b c d e", "0 4 31 2 *"]
)
def test_what_is_no_cron_expression_is_refused(cron: str) -> None:
    with pytest.raises(SettingError, match="five fields of cron"):
        Schedule(cron, "UTC", TODAY)


@pytest.mark.parametrize(
    ("zone", "such"), [("Europe/Berln", "Europe/Berlin"), ("", ""), ("../etc/passwd", ""), ("CEST", ""), ("utc+2", "")]
)
def test_what_is_no_time_zone_is_refused_with_one_that_is(zone: str, such: str) -> None:
    with pytest.raises(SettingError, match=f"time_zone.*such as {such}"):
        Schedule("0 4 * * *", zone, TODAY)


def test_the_next_run_is_told_in_the_schedule_s_zone() -> None:
    found = Schedule("0 4 * * *", "Europe/Berlin", TODAY).next_run(datetime(2026, 3, 28, 12, tzinfo=UTC))
    assert found == datetime(2026, 3, 29, 4, tzinfo=ZoneInfo("Europe/Berlin"))
    assert found.astimezone(UTC).hour == 2
