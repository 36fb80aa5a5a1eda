"""Schedule — a message that an agent receives on a schedule, a trigger that sends one when it is asked to, and their runs."""

from typing import Annotated, Literal, NewType

from msgspec import Meta

from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, ImageId, KeyId, SessionId, TenantId, TurnId, UserId
from agentvm.model.turn import TurnBudget, TurnOutcome

ScheduleId = NewType("ScheduleId", str)
TriggerId = NewType("TriggerId", str)

SessionMode = Literal["same", "new"]
"""Whether every run continues in one session, or has a session of its own."""
MissedPolicy = Literal["skip", "once", "all"]
"""After an outage: nothing is made up for, the last run is, or every run is, up to `catchUp` of them."""
OverlapPolicy = Literal["skip", "queue"]
"""When a run is due while the one before has not ended: it is left out, or it waits."""
OnAsk = Literal["deny", "wait"]
"""When a call needs an approval or an answer: it is denied, or the turn waits as in a conversation."""
RunState = Literal["started", "skipped", "missed", "failed"]
DisabledReason = Literal["agent_gone", "session_gone"]
"""Why the server disabled a schedule or a trigger: there is nothing to run any more."""

MESSAGE_MAX = 32 * 1024
NAME_MAX = 200
JITTER_MAX_SECONDS = 3_600
CATCH_UP_MAX = 100
CATCH_UP_MAX_SECONDS = 31 * 86_400
RUNS_PER_DAY_MAX = 100_000

MessageText = Annotated[str, Meta(min_length=1, max_length=MESSAGE_MAX)]
SourceName = Annotated[str, Meta(min_length=1, max_length=NAME_MAX)]
CatchUp = Annotated[int, Meta(ge=1, le=CATCH_UP_MAX)]
CatchUpSeconds = Annotated[int, Meta(ge=0, le=CATCH_UP_MAX_SECONDS)]
JitterSeconds = Annotated[int, Meta(ge=0, le=JITTER_MAX_SECONDS)]
RunsPerDay = Annotated[int, Meta(ge=1, le=RUNS_PER_DAY_MAX)]
Cron = Annotated[str, Meta(min_length=1, max_length=200)]
Zone = Annotated[str, Meta(min_length=1, max_length=100)]


class TurnSource(Record):
    """An agent, a message for it, and bounds: the common part of schedules and triggers.

    `user_id` and `key_id` are those of its creator: its turns are billed to that user, and need their permissions.
    """

    name: SourceName
    container_id: ContainerId
    image_id: ImageId
    message: MessageText
    session_mode: SessionMode = "same"
    session_id: SessionId | None = None
    """The session of the mode `same`; None for one that its first run creates."""
    on_ask: OnAsk = "deny"
    budget: TurnBudget | None = None
    """Bounds of each run, besides those of the tenant."""
    runs_per_day: RunsPerDay | None = None
    """Runs of one day (UTC)."""
    user_id: UserId | None = None
    key_id: KeyId | None = None
    created_by: str
    created_at: int
    updated_at: int
    disabled_at: int | None = None
    disabled_reason: DisabledReason | None = None
    last_at: int | None = None
    """The time of the last run that was started."""
    last_turn_id: TurnId | None = None
    day: int = 0
    """The day of `day_runs`, in days since 1970."""
    day_runs: int = 0

    def is_used_up(self, now: int) -> bool:
        """Returns whether all runs of the day were made."""
        return self.runs_per_day is not None and self.day == day_of(now) and self.day_runs >= self.runs_per_day


class Schedule(TurnSource):
    """A message at times of a clock. `next_at` is the next time; `wake_at` is when it is looked at, None while disabled."""

    schedule_id: ScheduleId
    cron: Cron
    zone: Zone
    missed: MissedPolicy = "once"
    catch_up: CatchUp = 10
    """Runs that `all` makes up for."""
    catch_up_seconds: CatchUpSeconds = 3_600
    """Runs that are older are not made up for."""
    overlap: OverlapPolicy = "skip"
    jitter_seconds: JitterSeconds = 0
    next_at: int | None = None
    wake_at: int | None = None


class Trigger(TurnSource):
    """A message that is sent on a request signed with a secret. The secrets are sealed."""

    trigger_id: TriggerId
    secret: bytes
    previous_secret: bytes | None = None
    """The secret before the last rotation, which is good until `previous_until`."""
    previous_until: int | None = None


class DueSchedule(Record):
    tenant_id: TenantId
    schedule: Schedule


class _RunFacts(Record):
    due_at: int
    at: int
    state: RunState
    reason: str | None = None
    count: int = 1
    """Times that this row stands for, if there was no run."""
    session_id: SessionId | None = None
    turn_id: TurnId | None = None


class SourceRun(_RunFacts):
    """One run of a schedule or trigger, or times at which there was none. `client_key` is that of its turn.

    `next_at` and `wake_at` are the next times of the schedule; a trigger has neither.
    """

    source_id: str
    client_key: str
    next_at: int | None = None
    wake_at: int | None = None


class RunRecord(_RunFacts):
    """A run with the outcome of its turn; None while that continues."""

    number: int
    outcome: TurnOutcome | None = None


def trigger_secret_name(trigger_id: TriggerId) -> str:
    """Returns the name under which the secret of a trigger is sealed."""
    return f"trigger:{trigger_id}"


def day_of(at: int) -> int:
    """Returns the day of a time, in days since 1970."""
    return at // 86_400_000
