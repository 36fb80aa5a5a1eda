"""Cron — times of a cron expression in a time zone, right over changes of the clock. Pure.

Five fields, or a name such as `@daily`. A time that the clock skips in spring runs when the clock has moved on, and one that
comes twice in autumn runs the first time only. An expression whose minute or hour begins with `*` follows the time that passes
instead: an hourly job runs in both hours that have the same name.

Written here: libraries that were tried are wrong where a clock is set by half an hour, or reckon with an offset instead of a
zone. The test looks at every minute around the changes of every zone.
"""

import calendar
import hashlib
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from agentvm.errors import InvalidInput

CRON_MAX = 200
ZONE_MAX = 100
NAMED = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = {name.upper(): number for number, name in enumerate(calendar.month_abbr) if name}
_DAYS = {name: number for number, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))}
_FIELDS: tuple[tuple[str, int, int, dict[str, int]], ...] = (
    ("minute", 0, 59, {}),
    ("hour", 0, 23, {}),
    ("day of month", 1, 31, {}),
    ("month", 1, 12, _MONTHS),
    ("day of week", 0, 7, _DAYS),
)
_SHAPE = "five fields: minute, hour, day of month, month, day of week"
_SEARCH_MAX = 30
"""Years within which the next time must be; beyond them there is none. 29 February may have to be a Sunday."""
_YEAR_MAX = 9_990
_DAY_MINUTES = 24 * 60
_MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class CronExpression:
    """The times of an expression, each field as the numbers that fit."""

    marks: tuple[int, ...]
    """Minutes of a day, in order."""
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """Sunday is 0."""
    needs_both: bool
    """Whether day of month and day of week must both fit: one of them begins with `*`."""
    follows_time: bool
    """Whether it follows the time that passes, and not the clock on the wall."""

    def has_day(self, day: date) -> bool:
        fits = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        return all(fits) if self.needs_both else any(fits)


def parse(cron: str, zone: str) -> str:
    """Returns an expression as it is stored; `InvalidInput` for one that is none, or is never due, and for no zone."""
    text = " ".join(cron.split())
    if len(text) > CRON_MAX:
        raise InvalidInput(f"cron must have at most {CRON_MAX} characters")
    read(text)
    zone_of(zone)
    if next_time(text, "UTC", int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * 1000) is None:
        raise InvalidInput("cron: this day does not exist; check the day and the month")
    return text


@lru_cache(maxsize=10_000)
def read(cron: str) -> CronExpression:
    """Returns the times of an expression; `InvalidInput` names the fault."""
    if cron.startswith("@") and cron.lower() not in NAMED:
        raise InvalidInput(f"cron: {cron} is not one of {', '.join(NAMED)}")
    fields = NAMED.get(cron.lower(), cron).upper().split()
    if len(fields) == len(_FIELDS) + 1:
        raise InvalidInput(f"cron has {_SHAPE}; seconds cannot be chosen")
    if len(fields) != len(_FIELDS):
        raise InvalidInput(f"cron has {_SHAPE}; this has {len(fields)}")
    minutes, hours, days, months, weekdays = (_numbers(text, *about) for text, about in zip(fields, _FIELDS, strict=True))
    return CronExpression(
        marks=tuple(sorted(hour * 60 + minute for hour in hours for minute in minutes)),
        days=days,
        months=months,
        weekdays=frozenset(day % 7 for day in weekdays),
        needs_both=fields[2].startswith("*") or fields[4].startswith("*"),
        follows_time=fields[0].startswith("*") or fields[1].startswith("*"),
    )


def _numbers(field: str, name: str, least: int, most: int, names: dict[str, int]) -> frozenset[int]:
    """Returns the numbers of a field: `*`, `5`, `1-5`, `*/10`, `MON-FRI`, and lists of these."""

    def number(text: str) -> int:
        value = names.get(text, int(text) if text.isascii() and text.isdigit() and len(text) <= 3 else -1)
        if not least <= value <= most:
            raise InvalidInput(f"cron: the {name} {field} is not {least} to {most}, or a list, range or step of them")
        return value

    values: set[int] = set()
    for part in field.split(","):
        span, slash, step_text = part.partition("/")
        step = 1
        if slash:
            if not (step_text.isascii() and step_text.isdigit() and 0 < int(step_text[:5]) <= most + 1):
                raise InvalidInput(f"cron: the step of the {name} {field} is not 1 to {most + 1}")
            step = int(step_text)
        first, dash, last = span.partition("-")
        if span == "*":
            bounds = least, most
        else:
            bounds = number(first), number(last) if dash else most if slash else number(first)
        if bounds[0] > bounds[1]:
            raise InvalidInput(f"cron: the range of the {name} {field} ends before it begins")
        values.update(range(bounds[0], bounds[1] + 1, step))
    return frozenset(values)


@lru_cache(maxsize=1_000)
def zone_of(name: str) -> ZoneInfo:
    """Returns a time zone; `InvalidInput` for a name that is none."""
    try:
        # Only names of the database: ZoneInfo itself refuses an absolute path and `..`.
        if not name or len(name) > ZONE_MAX or not name.isascii():
            raise ValueError(name)
        return ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        raise InvalidInput("zone must be a name of the IANA database, such as Europe/Berlin or Asia/Shanghai") from None


def times(cron: str, zone: str, after: int) -> Iterator[int]:
    """Yields the times of an expression after that moment, in ms."""
    expression, own, last = read(cron), zone_of(zone), after
    # A time that the clock skips may come on the day after its own.
    day = datetime.fromtimestamp(after / 1000, own).date() - timedelta(days=1)
    give_up = day.year + _SEARCH_MAX
    while day.year < min(give_up, _YEAR_MAX):
        if day.month not in expression.months:
            day = date(day.year + day.month // 12, day.month % 12 + 1, 1)
            continue
        if expression.has_day(day):
            for at in _times_of(expression, own, day, last):
                yield at
                last, give_up = at, day.year + _SEARCH_MAX
        day += timedelta(days=1)


def _times_of(expression: CronExpression, zone: ZoneInfo, day: date, after: int) -> Iterator[int]:
    """Yields the times of one day after that moment."""
    midnight = datetime(day.year, day.month, day.day)
    offsets = {
        moment.replace(tzinfo=zone, fold=fold).utcoffset()
        for moment in (midnight, midnight + timedelta(days=1))
        for fold in (0, 1)
    }
    if len(offsets) == 1:
        begin = int(midnight.replace(tzinfo=zone).timestamp()) * 1000
        for mark in expression.marks[bisect_right(expression.marks, (after - begin) // _MINUTE_MS) :]:
            yield begin + mark * _MINUTE_MS
        return
    find = _passing if expression.follows_time else _on_the_wall
    yield from sorted({at for mark in expression.marks for at in find(midnight + timedelta(minutes=mark), zone) if at > after})


def _passing(shown: datetime, zone: ZoneInfo) -> Iterator[int]:
    """Yields every moment at which the clock shows that time: none, one or two."""
    for fold in (0, 1):
        moment = shown.replace(tzinfo=zone, fold=fold)
        if _is_shown(moment):
            yield int(moment.timestamp()) * 1000


def _on_the_wall(shown: datetime, zone: ZoneInfo) -> Iterator[int]:
    """Yields the first moment at which the clock shows that time, or the next time that it does show."""
    for _ in range(2 * _DAY_MINUTES):
        moment = shown.replace(tzinfo=zone, fold=0)
        if _is_shown(moment):
            yield int(moment.timestamp()) * 1000
            return
        shown += timedelta(minutes=1)


def _is_shown(moment: datetime) -> bool:
    """Returns whether the clock ever shows a time: it is set forward over some."""
    return moment.replace(tzinfo=None) == moment.astimezone(UTC).astimezone(moment.tzinfo).replace(
        tzinfo=None, fold=moment.fold
    )


def next_time(cron: str, zone: str, after: int) -> int | None:
    """Returns the next time after that moment; None if there is none any more."""
    return next(times(cron, zone, after), None)


def jitter_ms(source_id: str, due_at: int, seconds: int) -> int:
    """Returns by how much a run is put off, at random but the same whenever it is asked for."""
    if not seconds:
        return 0
    digest = hashlib.sha256(f"{source_id}:{due_at}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % (seconds * 1000 + 1)
