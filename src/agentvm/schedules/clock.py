"""Schedule clock — begins the runs of schedules when they are due. One timer for all of them; a schedule that waits is a row.

Theory of operation. The clock sleeps until the earliest `wake_at`, reads the due rows, and decides about each with `plan`. A
run moves its row on in the commit that accepts its turn, under the key `sched:<id>:<due>`; times without a run move it on in a
commit of their own. After a crash in between, the row still contains the due time, and the key finds the turn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import anyio
import anyio.lowlevel
import msgspec

from agentvm.errors import AgentVMError, ImageNotFound, InboxFull, QuotaExceeded, SessionNotFound, ShuttingDown, StoreFailed
from agentvm.errors.cluster import SessionMoved
from agentvm.events.base import EventData, EventScope
from agentvm.events.schedule import ScheduleMissed
from agentvm.log import get_logger
from agentvm.model.ids import Clock, ContainerId, TenantId
from agentvm.model.schedule import DisabledReason, DueSchedule, RunState, Schedule, SourceRun
from agentvm.model.turn import TurnOrigin
from agentvm.schedules.plan import RunPlan, plan, wake_time
from agentvm.schedules.starter import TurnStarter
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)

BATCH_MAX = 500
"""Schedules that are looked at together."""
STARTS_MAX = 64
"""Runs that are begun at the same time."""
LONGEST_SLEEP_SECONDS = 60.0
"""While there are schedules, the time is looked at so often: the clock on the wall may be set."""
RETRY_SECONDS = 10.0
CLUSTER_SECONDS = 5.0
"""Time between two looks at the schedules in a cluster."""
CATCH_UPS_MAX = 5
CATCH_UP_EVERY_MS = 60_000 // CATCH_UPS_MAX
"""After an outage a tenant's runs begin in a burst of five, then one at a time."""
POSTPONE_MS = 30_000
"""Time after which a run is tried again that found too many others running."""
SLOT_KEPT_MS = 600_000
"""A schedule that has not used its time by then has none any more: it was changed or deleted."""
TRANSIENT_METRICS = ("running_agents", "queued_messages")

PublishEvent = Callable[[TenantId, EventScope, EventData], None]
_Passed = tuple[TenantId, ContainerId, SourceRun]


@dataclass(frozen=True, slots=True)
class _Sorted:
    """The work of one look at the schedules."""

    begin: list[tuple[DueSchedule, RunPlan]]
    passed: list[_Passed]
    postponed: list[tuple[DueSchedule, int]]


class CatchUpRate:
    """How many runs of each tenant are made up for: five at once, then one every twelve seconds."""

    def __init__(self) -> None:
        self._free_at: dict[TenantId, int] = {}

    def take(self, tenant_id: TenantId, now: int) -> int:
        """Returns when the next may begin; `now` if at once."""
        free_at = max(self._free_at.get(tenant_id, 0), now) + CATCH_UP_EVERY_MS
        self._free_at[tenant_id] = free_at
        return max(now, free_at - CATCH_UPS_MAX * CATCH_UP_EVERY_MS)

    def forget(self, now: int) -> None:
        """Drops the tenants whose slots are all free again."""
        self._free_at = {tenant: at for tenant, at in self._free_at.items() if at > now}


class ScheduleClock:
    """The schedules of all tenants; `run` is its task."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._woken = anyio.Event()
        self._rate = CatchUpRate()
        self._slots: dict[str, int] = {}
        """Schedules that wait for their turn to be made up for, and when it comes."""

    def wake(self) -> None:
        """Looks at the schedules again: one was added or changed."""
        self._woken.set()

    async def run(self, starter: TurnStarter, publish: PublishEvent, *, is_shared: bool = False) -> None:
        """Begins runs until cancelled. If the database `is_shared`, other nodes add schedules without notifying this one."""
        while True:
            self._woken = anyio.Event()
            try:
                done = await self.run_due(starter, publish)
                following = await self._store.due_schedules.next_due()
            except AgentVMError as error:
                logger.error("schedules_not_read", code=error.code, error=str(error))
                await anyio.sleep(RETRY_SECONDS)
                continue
            seconds = None if following is None else max(0.0, (following - self._clock()) / 1000)
            if is_shared:
                seconds = min(CLUSTER_SECONDS, CLUSTER_SECONDS if seconds is None else seconds)
            if seconds is not None:
                # Rows that are due and could not be moved on are tried again later.
                least = 0.0 if done or seconds else RETRY_SECONDS
                seconds = max(least, min(seconds, LONGEST_SLEEP_SECONDS))
            with anyio.move_on_after(seconds):
                await self._woken.wait()

    async def run_due(self, starter: TurnStarter, publish: PublishEvent) -> int:
        """Deals with schedules that are due; returns how many have moved on."""
        now = self._clock()
        due = await self._store.due_schedules.list_due(now, BATCH_MAX)
        if not due:
            return 0
        self._rate.forget(now)
        self._slots = {schedule_id: at for schedule_id, at in self._slots.items() if at > now - SLOT_KEPT_MS}
        work = await self._sort(due, now, publish)
        if work.postponed:
            await self._store.due_schedules.postpone(work.postponed)
        if work.passed:
            await self._store.due_schedules.pass_over(work.passed)
        limiter, moved = anyio.CapacityLimiter(STARTS_MAX), len(work.passed) + len(work.postponed)

        async def begin(schedule: DueSchedule, planned: RunPlan) -> None:
            nonlocal moved
            async with limiter:
                moved += await self._begin(schedule, planned, starter, publish)

        async with anyio.create_task_group() as tasks:
            for schedule, planned in work.begin:
                tasks.start_soon(begin, schedule, planned)
        return moved

    async def _sort(self, due: Sequence[DueSchedule], now: int, publish: PublishEvent) -> _Sorted:
        work = _Sorted([], [], [])
        for item in due:
            schedule, planned = item.schedule, plan(item.schedule, now)
            await anyio.lowlevel.checkpoint()
            reason = None if planned.due_at is None else await self._hindrance(item, now)
            if planned.missed or planned.due_at is None:
                first = planned.due_at or planned.next_at
                work.passed.append(_pass(item, planned, "missed", "the server was down or too busy", now, next_at=first))
                _publish_missed(publish, item, planned.missed, planned.missed_from, "outage")
                continue
            if reason is not None:
                work.passed.append(_pass(item, planned, "skipped", reason, now, next_at=planned.next_at))
                _publish_missed(publish, item, 1, planned.due_at or now, reason)
                continue
            begins_at = self._slot(item, now) if planned.is_catch_up else now
            if begins_at > now:
                work.postponed.append((item, begins_at))
            else:
                self._slots.pop(schedule.schedule_id, None)
                work.begin.append((item, planned))
        return work

    def _slot(self, due: DueSchedule, now: int) -> int:
        """Returns when a run that is made up for may begin; once it has a time it keeps it."""
        schedule_id = due.schedule.schedule_id
        if schedule_id not in self._slots:
            self._slots[schedule_id] = self._rate.take(due.tenant_id, now)
        return self._slots[schedule_id]

    async def _hindrance(self, due: DueSchedule, now: int) -> str | None:
        """Returns why a schedule does not run although it is due."""
        schedule = due.schedule
        if schedule.is_used_up(now):
            return "budget"
        if schedule.overlap == "skip" and schedule.last_turn_id is not None:
            last = await self._store.tenant(due.tenant_id).find_turn(schedule.last_turn_id)
            if last is not None and last.outcome is None:
                return "overlap"
        return None

    async def _begin(self, due: DueSchedule, planned: RunPlan, starter: TurnStarter, publish: PublishEvent) -> bool:
        """Begins a run; returns whether the schedule has moved on."""
        schedule, now, due_at = due.schedule, self._clock(), planned.due_at or 0
        run = SourceRun(
            source_id=schedule.schedule_id,
            client_key=client_key(schedule, due_at),
            due_at=due_at,
            at=now,
            state="started",
            next_at=planned.next_at,
            wake_at=wake_time(schedule, planned.next_at),
        )
        origin = TurnOrigin(
            kind="schedule",
            id=schedule.schedule_id,
            unattended=schedule.on_ask == "deny",
            budget=schedule.budget,
        )
        try:
            started = await starter.start(due.tenant_id, schedule, origin, schedule.message, run, tainted=False)
        except (StoreFailed, ShuttingDown) as error:
            logger.warning("schedule_not_run", schedule_id=schedule.schedule_id, code=error.code)
            return False
        except AgentVMError as error:
            await self._fail(due, planned, error, publish)
            return True
        if not started.is_new:
            # It was begun, and something has moved the row back since: it continues from here.
            run = msgspec.structs.replace(run, session_id=started.session_id, turn_id=started.turn_id)
            await self._store.due_schedules.pass_over([(due.tenant_id, schedule.container_id, run)])
        return True

    async def _fail(self, due: DueSchedule, planned: RunPlan, error: AgentVMError, publish: PublishEvent) -> None:
        schedule, now = due.schedule, self._clock()
        logger.warning("schedule_failed", schedule_id=schedule.schedule_id, code=error.code, error=str(error))
        if _is_transient(error):
            await self._store.due_schedules.postpone([(due, now + POSTPONE_MS)])
            return
        passed = _pass(due, planned, "failed", f"{error.code}: {error}"[:500], now, next_at=planned.next_at)
        await self._store.due_schedules.pass_over([passed])
        if (reason := gone_reason(error)) is not None:
            store = self._store.tenant(due.tenant_id).schedules((schedule.container_id,))
            await store.disable(schedule.schedule_id, reason, now)
        _publish_missed(publish, due, 1, planned.due_at or now, error.code)


def client_key(schedule: Schedule, due_at: int) -> str:
    """Returns the key of a run's turn: of two that begin it, one does."""
    return f"sched:{schedule.schedule_id}:{due_at}"


def gone_reason(error: AgentVMError) -> DisabledReason | None:
    """Returns why a source can never run again; None if it may."""
    match error:
        case ImageNotFound():
            return "agent_gone"
        case SessionNotFound():
            return "session_gone"
        case _:
            return None


def _is_transient(error: AgentVMError) -> bool:
    """Returns whether the same may succeed in a moment, because only others have to end first."""
    return isinstance(error, InboxFull | SessionMoved) or (
        isinstance(error, QuotaExceeded) and (error.details or {}).get("metric") in TRANSIENT_METRICS
    )


def _pass(due: DueSchedule, planned: RunPlan, state: RunState, reason: str, now: int, *, next_at: int | None) -> _Passed:
    schedule = due.schedule
    run = SourceRun(
        source_id=schedule.schedule_id,
        client_key=f"{state}:{schedule.next_at}",
        due_at=schedule.next_at or now,
        at=now,
        state=state,
        reason=reason,
        count=max(planned.missed, 1) if state == "missed" else 1,
        next_at=next_at,
        wake_at=wake_time(schedule, next_at),
    )
    return due.tenant_id, schedule.container_id, run


def _publish_missed(publish: PublishEvent, due: DueSchedule, count: int, due_at: int, reason: str) -> None:
    schedule = due.schedule
    missed = ScheduleMissed(schedule_id=schedule.schedule_id, name=schedule.name, count=count, due_at=due_at, reason=reason)
    publish(due.tenant_id, EventScope(container_id=schedule.container_id, image_id=schedule.image_id), missed)
