"""When a corpus is ingested: a cron expression and a time zone, checked when they are put together. Pure.

Where clocks change, some local times do not exist and some come twice, so a job at such a time is left out or run twice once a year. A
schedule with a time like that is refused, with the date. One that fires again within the hour is not: nothing is lost by it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from cronsim import CronSim, CronSimError

from chunkers import SettingError

_YEARS_AHEAD = 2
_STEP = timedelta(hours=1)
_EXAMPLE = "five fields of cron: minute, hour, day of the month, month, day of the week; such as '0 4 * * *' for 04:00 every day"


@dataclass(frozen=True, slots=True)
class Schedule:
    """A daily or other time to run.

    Attributes:
        cron: minute, hour, day of the month, month, day of the week.
        time_zone: name in the IANA time zone database, such as `Europe/Berlin`.
        today: from when changes of the clocks are looked for; now by default.

    Raises:
        SettingError: the expression or the zone cannot be used, or clocks skip or repeat a time of it.
    """

    cron: str
    time_zone: str = "UTC"
    today: datetime | None = None

    def __post_init__(self) -> None:
        zone = _zone(self.time_zone)
        if len(self.cron.split()) != 5:
            raise SettingError("schedule", self.cron, _EXAMPLE)
        try:
            first = next(CronSim(self.cron, datetime(2024, 1, 1)), None)
        except CronSimError as error:
            raise SettingError("schedule", self.cron, f"{_EXAMPLE} ({error})") from error
        if first is None:
            raise SettingError("schedule", self.cron, f"{_EXAMPLE}; this one never fires")
        for change in _changes(zone, self.today or datetime.now(UTC)):
            missed = self._only_fire_within(change)
            if missed:
                raise SettingError(
                    "schedule",
                    self.cron,
                    f"at a time that every day has once: in {self.time_zone} the clocks {change.what} {missed:%H:%M} on "
                    f"{missed:%d %B %Y}; choose an hour like 04:00, or time_zone=UTC",
                )

    def _only_fire_within(self, change: _Change) -> datetime | None:
        """A fire in the local times that are skipped or repeated, unless another follows within the hour."""
        fires = CronSim(self.cron, change.begin - timedelta(minutes=1))
        for fire in takewhile(lambda fire: fire < change.end, fires):
            following = next(CronSim(self.cron, fire), None)
            if following is None or following - fire > timedelta(hours=1):
                return fire
        return None

    def next_run(self, after: datetime) -> datetime:
        """The first time to run after `after`, which must have a time zone, in this schedule's own zone."""
        return next(CronSim(self.cron, after.astimezone(_zone(self.time_zone))))


@dataclass(frozen=True, slots=True)
class _Change:
    """Local times, without a zone, that clocks skip or repeat."""

    begin: datetime
    end: datetime
    what: str


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        near = difflib.get_close_matches(name, available_timezones(), n=1, cutoff=0.0)
        such = near[0] if near else "Europe/Berlin"
        raise SettingError("time_zone", name, f"a name of the time zone database, such as {such}") from error


def _changes(zone: ZoneInfo, since: datetime) -> Iterator[_Change]:
    """The changes of the clocks in the years after `since`, in order."""
    moment = since.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    until = moment + timedelta(days=366 * _YEARS_AHEAD)
    before = _offset(moment, zone)
    while moment < until:
        moment += _STEP
        after = _offset(moment, zone)
        if after != before:
            exact = _moment_of_change(moment - _STEP, moment, zone)
            naive = exact.replace(tzinfo=None)
            begin, end = sorted((naive + before, naive + after))
            yield _Change(begin, end, "skip" if after > before else "come twice to")
            before = after


def _offset(moment: datetime, zone: ZoneInfo) -> timedelta:
    return moment.astimezone(zone).utcoffset() or timedelta()


def _moment_of_change(low: datetime, high: datetime, zone: ZoneInfo) -> datetime:
    """The first minute with the offset of `high`."""
    before = _offset(low, zone)
    while high - low > timedelta(minutes=1):
        middle = low + (high - low) // 2
        middle = middle.replace(second=0, microsecond=0)
        if _offset(middle, zone) == before:
            low = middle
        else:
            high = middle
    return high
