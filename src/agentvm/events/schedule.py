"""Schedules — runs that begin, and times at which there was none."""

from agentvm.events.base import EventData
from agentvm.model.schedule import ScheduleId, SourceRun


class RunStarted(EventData):
    """A run of a schedule or trigger: stored in the commit that accepts its turn, and not told."""

    type = "run_started"
    source = "session"
    category = "turn"
    told = False
    run: SourceRun


class ScheduleMissed(EventData):
    """A schedule was due `count` times and did not run; `reason` says why."""

    type = "schedule_missed"
    source = "container"
    category = "lifecycle"
    needs = "sessions:read"
    schedule_id: ScheduleId
    name: str
    count: int
    due_at: int
    reason: str
