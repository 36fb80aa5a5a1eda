"""When — how a person says a time: `30d`, `2026-11-15`, `2026-11-15T10:00`. For the `type` of an option."""

import re
import time
from datetime import UTC, datetime

import click

LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999: what is later is a typo."""

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_SPAN = re.compile(r"([0-9]{1,9})([smhdw])")


def span(text: str) -> int:
    """A span of time, in seconds."""
    seconds = _seconds(text)
    if seconds is None:
        raise click.BadParameter(f"{text!r} is no span of time; write it like 90s, 30m, 12h, 7d or 2w.")
    return seconds


def past(text: str) -> int:
    """A moment, in ms: a date or a time (UTC unless it says otherwise), or so long ago."""
    return moment(text, now=time.time_ns() // 1_000_000, sign=-1)


def future(text: str) -> int:
    """As `past`, but a span is from now on."""
    return moment(text, now=time.time_ns() // 1_000_000, sign=1)


def moment(text: str, *, now: int, sign: int) -> int:
    seconds = _seconds(text)
    try:
        if seconds is not None:
            at = now + sign * seconds * 1000
        else:
            given = datetime.fromisoformat(text.strip())
            at = int((given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        at = -1
    if not 0 <= at <= LATEST:
        raise click.BadParameter(f"{text!r} is no time; write it like 30d, 2026-11-15 or 2026-11-15T10:00.")
    return at


def _seconds(text: str) -> int | None:
    found = _SPAN.fullmatch(text.strip().lower())
    return None if found is None else int(found[1]) * _SECONDS[found[2]]
