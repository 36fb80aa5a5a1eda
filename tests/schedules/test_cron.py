"""Times of cron expressions, against a count of every minute."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import examples

from agentvm.errors import InvalidInput
from agentvm.schedules.cron import jitter_ms, next_time, parse, times, zone_of

MINUTE = timedelta(minutes=1)


def ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000


def values(field: str, low: int, high: int) -> set[int]:
    """The numbers of a field of digits, lists, ranges and steps."""
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = (f"{low}-{high}" if span == "*" else span).partition("-")
        found |= set(range(int(first), int(last or (high if step else first)) + 1, int(step or 1)))
    return found


def oracle(cron: str, zone: str, start: datetime, end: datetime) -> list[int]:
    """Every time between two moments, found by looking at every minute."""
    minutes, hours, *_ = cron.split()
    wanted = values(minutes, 0, 59), values(hours, 0, 23)
    own, found = ZoneInfo(zone), set[int]()
    if minutes.startswith("*") or hours.startswith("*"):
        # Follows the moments as they pass, whatever the clock on the wall does.
        moment = start
        while moment <= end:
            local = moment.astimezone(own)
            if local.minute in wanted[0] and local.hour in wanted[1]:
                found.add(ms(moment))
            moment += MINUTE
    else:
        # Follows the clock on the wall: what it skips comes when it has moved on, what it repeats comes once.
        local = start.astimezone(own).replace(tzinfo=None) - timedelta(days=1)
        while local <= end.astimezone(own).replace(tzinfo=None) + timedelta(days=1):
            if local.minute in wanted[0] and local.hour in wanted[1]:
                shown = local
                while shown != shown.replace(tzinfo=own).astimezone(UTC).astimezone(own).replace(tzinfo=None):
                    shown += MINUTE
                found.add(ms(shown.replace(tzinfo=own, fold=0)))
            local += MINUTE
    return sorted(at for at in found if ms(start) < at <= ms(end))


def transitions(zone: str, first_year: int, last_year: int) -> Iterator[datetime]:
    """The moments at which the offset of a zone changes, to the minute."""
    own, moment = ZoneInfo(zone), datetime(first_year, 1, 1, tzinfo=UTC)
    while moment.year <= last_year:
        following = moment + timedelta(days=1)
        if moment.astimezone(own).utcoffset() != following.astimezone(own).utcoffset():
            low, high = moment, following
            while high - low > MINUTE:
                middle = low + (high - low) // 2
                middle = middle.replace(second=0, microsecond=0)
                if middle.astimezone(own).utcoffset() == moment.astimezone(own).utcoffset():
                    low = middle
                else:
                    high = middle
            yield high
        moment = following


CRONS = ("30 2 * * *", "0 0 * * *", "*/15 * * * *", "0 * * * *", "15,45 1-3 * * *", "0 */2 * * *", "*/20 0 * * *", "5 3 * * *")


CHANGING = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "America/Santiago")


def found_between(cron: str, zone: str, start: datetime, end: datetime) -> list[int]:
    return list(takewhile(lambda at: at <= ms(end), times(cron, zone, ms(start))))


@pytest.mark.parametrize("zone", CHANGING)
def test_times_around_each_change_of_the_clock_are_those_that_a_person_would_find(zone: str) -> None:
    for change in transitions(zone, 2026, 2027):
        start, end = change - timedelta(hours=27), change + timedelta(hours=27)
        for cron in CRONS:
            assert found_between(cron, zone, start, end) == oracle(cron, zone, start, end), (zone, cron, change)


_OTHERS = ("Etc/", "SystemV/", "posix", "right")
ZONES = sorted(name for name in available_timezones() if "/" in name and not name.startswith(_OTHERS))


@settings(max_examples=examples(15, 2_000), deadline=None)
@given(zone=st.sampled_from(ZONES), cron=st.sampled_from(CRONS), year=st.integers(2020, 2035))
def test_times_in_every_zone_are_those_that_a_person_would_find(zone: str, cron: str, year: int) -> None:
    for change in transitions(zone, year, year):
        start, end = change - timedelta(hours=13), change + timedelta(hours=13)
        assert found_between(cron, zone, start, end) == oracle(cron, zone, start, end), (zone, cron, change)


def test_a_time_that_the_clock_skips_runs_when_it_has_moved_on_and_one_that_it_repeats_runs_once() -> None:
    day = ms(datetime(2026, 3, 29, tzinfo=UTC))
    assert next_time("30 2 * * *", "Europe/Berlin", day) == ms(datetime(2026, 3, 29, 1, 0, tzinfo=UTC))
    autumn = ms(datetime(2026, 10, 24, 12, tzinfo=UTC))
    first, second = islice(times("30 2 * * *", "Europe/Berlin", autumn), 2)
    assert (first, second) == (ms(datetime(2026, 10, 25, 0, 30, tzinfo=UTC)), ms(datetime(2026, 10, 26, 1, 30, tzinfo=UTC)))


def test_names_are_expressions() -> None:
    start = ms(datetime(2026, 1, 1, tzinfo=UTC))
    assert parse("  @Daily ", "UTC") == "@Daily"
    assert next_time("@Daily", "UTC", start) == ms(datetime(2026, 1, 2, tzinfo=UTC))
    assert next_time("@yearly", "Asia/Shanghai", start) == ms(datetime(2026, 12, 31, 16, tzinfo=UTC))


@pytest.mark.parametrize(
    ("cron", "zone", "said"),
    [
        ("* * * * * *", "UTC", "seconds cannot be chosen"),
        ("*/5 * * * * *", "UTC", "seconds cannot be chosen"),
        ("* * * *", "UTC", "this has 4"),
        ("@secondly", "UTC", "not one of"),
        ("61 * * * *", "UTC", "the minute 61 is not 0 to 59"),
        ("0 0 31 2 *", "UTC", "does not exist"),
        ("*/0 * * * *", "UTC", "step of the minute"),
        ("5-1 * * * *", "UTC", "ends before it begins"),
        ("* * * * L", "UTC", "day of week L"),
        ("*/99999999999 * * * *", "UTC", "step"),
        ("\u0661 * * * *", "UTC", "the minute"),
        ("0 0 * * * " + "1," * 200, "UTC", "200 characters"),
        ("0 0 * * *", "Mars/Base", "IANA"),
        ("0 0 * * *", "../../etc/passwd", "IANA"),
        ("0 0 * * *", "", "IANA"),
        ("0 0 * * *", "+02:00", "IANA"),
    ],
)
def test_what_is_no_expression_or_no_zone_is_refused_with_the_reason(cron: str, zone: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        parse(cron, zone)


def test_times_go_on_over_leap_years_and_end_some_day() -> None:
    start = ms(datetime(2026, 1, 1, tzinfo=UTC))
    assert next_time("0 0 29 2 *", "UTC", start) == ms(datetime(2028, 2, 29, tzinfo=UTC))
    assert next_time("0 0 1 1 *", "UTC", ms(datetime(9995, 1, 1, tzinfo=UTC))) is None


def test_jitter_is_within_its_bound_and_always_the_same() -> None:
    put_off = [jitter_ms("sched_1", at * 60_000, 30) for at in range(200)]
    assert min(put_off) >= 0
    assert max(put_off) <= 30_000
    assert len(set(put_off)) > 100
    assert put_off == [jitter_ms("sched_1", at * 60_000, 30) for at in range(200)]
    assert jitter_ms("sched_1", 0, 0) == 0


def test_a_zone_is_read_once() -> None:
    assert zone_of("Europe/Berlin") is zone_of("Europe/Berlin")
