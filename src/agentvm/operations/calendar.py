"""Calendar — the hours, days and months of a time, in UTC. Pure."""

from datetime import UTC, datetime, timedelta
from typing import Literal

from agentvm.errors import InvalidInput

Step = Literal["hour", "day", "month"]

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
STEPS_MAX = 1_000

_NAMES: dict[Step, str] = {"hour": "%Y-%m-%dT%H:00Z", "day": "%Y-%m-%d", "month": "%Y-%m"}


def step_name(by: Step, at: int) -> str:
    """Returns the name of the step that holds the moment, as in the ledger."""
    return _moment(at).strftime(_NAMES[by])


def steps_between(by: Step, first: int, last: int) -> list[int]:
    """Returns the beginning of each step, from that of the first moment to that of the last; none if `last` is earlier."""
    starts: list[int] = []
    at = _start(by, _moment(first))
    while (start := int(at.timestamp() * 1000)) <= last:
        if len(starts) == STEPS_MAX:
            raise InvalidInput(f"There are more than {STEPS_MAX} steps between `since` and `until`; use larger steps")
        starts.append(start)
        at = _following(by, at)
    return starts


def _moment(at: int) -> datetime:
    try:
        return datetime.fromtimestamp(at / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        raise InvalidInput("`since` is too far away") from None


def _start(by: Step, at: datetime) -> datetime:
    hour = at.replace(minute=0, second=0, microsecond=0)
    if by == "hour":
        return hour
    day = hour.replace(hour=0)
    return day if by == "day" else day.replace(day=1)


def _following(by: Step, at: datetime) -> datetime:
    try:
        if by == "month":
            return (at + timedelta(days=32)).replace(day=1)
        return at + (timedelta(hours=1) if by == "hour" else timedelta(days=1))
    except OverflowError:
        raise InvalidInput("`until` is too far away") from None
