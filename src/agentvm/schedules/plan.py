"""RunPlan — decides about a due schedule: which run starts, and which times are skipped. Pure.

`next_at` of the row is the whole state: it moves in the commit that accepts a turn, or that notes why there was none. So runs
that are made up for after an outage are simply times that have not been passed.
"""

from dataclasses import dataclass
from itertools import islice

from agentvm.model.schedule import Schedule
from agentvm.schedules.cron import jitter_ms, next_time, times

LATE_MS = 60_000
"""A run that begins within this time of its due time, and of its jitter, is on time."""
COUNTED_MAX = 1_000
"""Missed times that are counted exactly; beyond them the count is a minimum."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The run that begins now, if there is one, after this many times that were missed."""

    missed: int = 0
    missed_from: int = 0
    """The first of them."""
    due_at: int | None = None
    is_catch_up: bool = False
    """The run is one that should have begun earlier."""
    next_at: int | None = None
    """The time after the run, or after those that were missed."""


def plan(schedule: Schedule, now: int) -> RunPlan:
    """Decides about a schedule that is due."""
    due_at = schedule.next_at
    if due_at is None or due_at > now:
        return RunPlan(next_at=due_at)
    passed = [due_at, *_until(schedule, due_at, now)]
    if len(passed) > COUNTED_MAX:
        passed += _recent(schedule, passed[-1], now)
    due = _due_times(schedule, passed, now)
    missed = passed[: len(passed) - len(due)]
    if not due:
        return RunPlan(missed=len(missed), missed_from=due_at, next_at=_after(schedule, passed[-1]))
    following = due[1] if len(due) > 1 else _after(schedule, due[0])
    return RunPlan(
        missed=len(missed),
        missed_from=due_at,
        due_at=due[0],
        is_catch_up=_is_late(schedule, due[0], now),
        next_at=following,
    )


def wake_time(schedule: Schedule, next_at: int | None) -> int | None:
    """Returns when the schedule is looked at for that time."""
    return None if next_at is None else next_at + jitter_ms(schedule.schedule_id, next_at, schedule.jitter_seconds)


def _due_times(schedule: Schedule, passed: list[int], now: int) -> list[int]:
    """Returns the times, of those that have come, that are run."""
    oldest = now - max(schedule.catch_up_seconds * 1000, 0)
    late = [at for at in passed if _is_late(schedule, at, now)]
    on_time = passed[len(late) :]
    recent = [at for at in late if at >= oldest]
    match schedule.missed:
        case "skip":
            return on_time[-1:]
        case "once":
            # One that is on time stands for those before it.
            return (on_time or recent)[-1:]
        case "all":
            return [*recent, *on_time][-schedule.catch_up :]


def _is_late(schedule: Schedule, at: int, now: int) -> bool:
    return now - at > LATE_MS + schedule.jitter_seconds * 1000


def _until(schedule: Schedule, after: int, now: int) -> list[int]:
    """Returns the times after that one that have come, as far as they are counted."""
    due_times: list[int] = []
    for at in islice(times(schedule.cron, schedule.zone, after), COUNTED_MAX):
        if at > now:
            break
        due_times.append(at)
    return due_times


def _recent(schedule: Schedule, after: int, now: int) -> list[int]:
    """Returns the times near `now`, for an outage so long that those before are not counted."""
    span = max(LATE_MS, schedule.jitter_seconds * 1000, min(schedule.catch_up_seconds * 1000, COUNTED_MAX * 60_000))
    return _until(schedule, max(after, now - span - LATE_MS), now)


def _after(schedule: Schedule, at: int) -> int | None:
    return next_time(schedule.cron, schedule.zone, at)
