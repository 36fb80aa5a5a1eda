"""Times — option types for points in time and durations: `30d`, `2026-11-15`, `2026-11-15T10:00`."""

import re
import time
from datetime import UTC, datetime

import click

LATEST_MS = 253_402_300_799_999
"""The end of the year 9999; a later time is a typo."""

_UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_DURATION = re.compile(r"([0-9]{1,9})([smhdw])")


def duration(text: str) -> int:
    """A duration in seconds."""
    seconds = _seconds(text)
    if seconds is None:
        raise click.BadParameter(f"{text!r} is not a valid duration; use for example 90s, 30m, 12h, 7d or 2w.")
    return seconds


def past(text: str) -> int:
    """A point in time in ms: a date or a time (UTC unless it has an offset), or a duration before now."""
    return moment(text, now=time.time_ns() // 1_000_000, sign=-1)


def future(text: str) -> int:
    """Like `past`, but a duration counts from now on."""
    return moment(text, now=time.time_ns() // 1_000_000, sign=1)


def moment(text: str, *, now: int, sign: int) -> int:
    seconds = _seconds(text)
    try:
        if seconds is not None:
            at = now + sign * seconds * 1000
        else:
            parsed = datetime.fromisoformat(text.strip())
            at = int((parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        at = -1
    if not 0 <= at <= LATEST_MS:
        raise click.BadParameter(f"{text!r} is not a valid time; use for example 30d, 2026-11-15 or 2026-11-15T10:00.")
    return at


def _seconds(text: str) -> int | None:
    match = _DURATION.fullmatch(text.strip().lower())
    return None if match is None else int(match[1]) * _UNIT_SECONDS[match[2]]
