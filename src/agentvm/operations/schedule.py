"""Schedules — messages that agents receive on a schedule, and the runs of them."""

from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agentvm.errors import AgentVMError, Conflict, ContainerForbidden, ImageNotFound, NotFound, SessionNotFound
from agentvm.model.base import Record, record_from
from agentvm.model.ids import ContainerId, ImageId, SessionId, TurnId
from agentvm.model.schedule import (
    CatchUp,
    CatchUpSeconds,
    Cron,
    DisabledReason,
    JitterSeconds,
    MessageText,
    MissedPolicy,
    OnAsk,
    OverlapPolicy,
    RunsPerDay,
    Schedule,
    ScheduleId,
    SessionMode,
    SourceName,
    SourceRun,
    Zone,
)
from agentvm.model.turn import TurnBudget, TurnOrigin
from agentvm.operations.numbers import check_text
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Limit
from agentvm.operations.turn_sources import (
    Agent,
    RunListReply,
    RunReply,
    changed,
    found,
    given_changes,
    made_by,
    missing,
    name_of,
    page_of_sources,
    place,
    runs_of,
)
from agentvm.protocol.requests import Reply, Request
from agentvm.schedules.cron import next_time, parse, times
from agentvm.schedules.plan import wake_time

if TYPE_CHECKING:
    from agentvm.storage.sql.schedules import SourceStore

operation = OperationGroup("schedules")

USE = "agent:use"
UPCOMING_MAX = 3
_ALL, _ONE = "/v1/schedules", "/v1/schedules/{schedule_id}"
_NAMED = {"container_id": "container"}
_NOUN = "schedule"
_CHANGEABLE = (
    "name", "message", "session_mode", "cron", "zone", "missed", "catch_up", "catch_up_seconds", "overlap", "jitter_seconds",
    "on_ask", "budget", "runs_per_day",
)  # fmt: skip


class ScheduleView(Record):
    """A schedule. `nextAt` is its next time, `upcoming` that and the ones after it; none while it is disabled."""

    schedule_id: ScheduleId
    name: str
    container_id: ContainerId
    image_id: ImageId
    message: str
    cron: str
    zone: str
    session_mode: SessionMode
    session_id: SessionId | None = None
    missed: MissedPolicy
    catch_up: int
    catch_up_seconds: int
    overlap: OverlapPolicy
    jitter_seconds: int
    on_ask: OnAsk
    budget: TurnBudget | None = None
    runs_per_day: int | None = None
    enabled: bool
    disabled_reason: DisabledReason | None = None
    created_by: str
    created_at: int
    updated_at: int
    next_at: int | None = None
    upcoming: tuple[int, ...] = ()
    last_at: int | None = None
    last_turn_id: TurnId | None = None


class ScheduleReply(Reply):
    schedule: ScheduleView


class ScheduleCreate(Request[ScheduleReply]):
    """`agent` is the name of a definition, the URI or name of an agent, or the id of an image.

    Without a container: your own, or `default` if you may use all containers.
    """

    agent: Agent
    cron: Cron
    message: MessageText
    name: SourceName | None = None
    container_id: str | None = None
    zone: Zone = "UTC"
    session_mode: SessionMode = "same"
    session_id: SessionId | None = None
    """An existing session of the agent to go on in, for `same`."""
    missed: MissedPolicy = "once"
    catch_up: CatchUp = 10
    catch_up_seconds: CatchUpSeconds = 3_600
    overlap: OverlapPolicy = "skip"
    jitter_seconds: JitterSeconds = 0
    on_ask: OnAsk = "deny"
    budget: TurnBudget | None = None
    runs_per_day: RunsPerDay | None = None


@operation(
    "schedule.create",
    needs=USE,
    command=True,
    audit="schedule.create",
    across=False,
    http=Http("POST", _ALL, status=201, rename=_NAMED, result="schedule", names=("NewSchedule", "Schedule")),
    raises=(Conflict, ContainerForbidden, ImageNotFound, SessionNotFound),
)
async def create(context: Context, request: ScheduleCreate) -> ScheduleReply:
    """Create a schedule: an agent receives a message at the times of `cron`.

    `cron` has five fields, or is a name such as `@daily`; `zone` is a name of the IANA database. Turns are billed to you, and
    nobody is asked in them: a call that needs an approval is denied, unless `onAsk` is `wait`.
    """
    cron, now = parse(request.cron, request.zone), context.vm.clock()
    image_id, container_id = await place(context, request.agent, request.container_id, request.session_mode, request.session_id)
    schedule_id = ScheduleId(context.vm.new_id("sched"))
    context.target = schedule_id
    schedule = record_from(
        Schedule,
        request,
        schedule_id=schedule_id,
        name=name_of(request.name, request.message, schedule_id),
        container_id=container_id,
        image_id=image_id,
        cron=cron,
        **made_by(context, now),
    )
    schedule = timed(schedule, now)
    await context.store.schedules((container_id,)).add(schedule)
    context.vm.schedules.wake()
    return ScheduleReply(schedule=_view(schedule))


class ScheduleList(Request["ScheduleListReply"]):
    """Schedules of a container, or of all that you may use. `cursor` is the `nextCursor` of the previous page."""

    container_id: str | None = None
    cursor: str | None = None
    limit: Limit = 100


class ScheduleListReply(Reply):
    schedules: tuple[ScheduleView, ...]
    next_cursor: str | None = None


@operation(
    "schedule.list",
    needs=USE,
    command=True,
    http=Http("GET", _ALL, rename=_NAMED, items="schedules", names=(None, "SchedulePage")),
    raises=(ContainerForbidden,),
)
async def list_all(context: Context, request: ScheduleList) -> ScheduleListReply:
    """List schedules, oldest first."""
    store = context.store.schedules(await context.sessions.containers(request.container_id))
    page = await page_of_sources(store, request.cursor, request.limit)
    return ScheduleListReply(schedules=tuple(map(_view, page.items)), next_cursor=page.next_cursor)


class ScheduleGet(Request[ScheduleReply]):
    schedule_id: ScheduleId


@operation("schedule.get", needs=USE, command=True, http=Http("GET", _ONE, result="schedule", names=(None, "Schedule")))
async def get(context: Context, request: ScheduleGet) -> ScheduleReply:
    """Show a schedule."""
    return ScheduleReply(schedule=_view(await _find(context, request.schedule_id)))


class ScheduleUpdate(Request[ScheduleReply]):
    """Members that are absent stay as they are. `enabled` of true resumes a schedule from now on."""

    schedule_id: ScheduleId
    name: SourceName | None = None
    message: MessageText | None = None
    cron: Cron | None = None
    zone: Zone | None = None
    session_mode: SessionMode | None = None
    missed: MissedPolicy | None = None
    catch_up: CatchUp | None = None
    catch_up_seconds: CatchUpSeconds | None = None
    overlap: OverlapPolicy | None = None
    jitter_seconds: JitterSeconds | None = None
    on_ask: OnAsk | None = None
    budget: TurnBudget | None = None
    runs_per_day: RunsPerDay | None = None
    enabled: bool | None = None


@operation(
    "schedule.update",
    needs=USE,
    command=True,
    audit="schedule.update",
    http=Http("PUT", _ONE, result="schedule", names=("ScheduleChanges", "Schedule")),
)
async def update(context: Context, request: ScheduleUpdate) -> ScheduleReply:
    """Update, disable or enable a schedule."""
    before, now = await _find(context, request.schedule_id), context.vm.clock()
    cron = parse(request.cron or before.cron, request.zone or before.zone)
    if request.name is not None:
        check_text(request.name, "name")

    def modify(schedule: Schedule) -> Schedule:
        given = given_changes(request, _CHANGEABLE)
        given |= {"cron": cron} if request.cron is not None else {}
        after = changed(schedule, given, request.enabled, now)
        is_retimed = any(getattr(after, name) != getattr(schedule, name) for name in ("cron", "zone", "jitter_seconds"))
        return timed(after, now) if is_retimed or request.enabled is not None else after

    schedule = found(await (await _store(context)).change(request.schedule_id, modify), _NOUN, request.schedule_id)
    context.vm.schedules.wake()
    return ScheduleReply(schedule=_view(schedule))


class ScheduleDelete(Request[Reply]):
    schedule_id: ScheduleId


@operation("schedule.delete", needs=USE, command=True, audit="schedule.delete", http=Http("DELETE", _ONE))
async def delete(context: Context, request: ScheduleDelete) -> Reply:
    """Delete a schedule and the list of its runs. Sessions and turns stay."""
    if not await (await _store(context)).remove(request.schedule_id):
        raise missing(_NOUN, request.schedule_id)
    return Reply()


class ScheduleRuns(Request[RunListReply]):
    schedule_id: ScheduleId


@operation("schedule.runs", needs=USE, command=True, http=Http("GET", f"{_ONE}/runs", items="runs", names=(None, "RunPage")))
async def list_runs(context: Context, request: ScheduleRuns) -> RunListReply:
    """List the last runs of a schedule, and the times at which it did not run, newest first."""
    return await runs_of(await _store(context), _NOUN, request.schedule_id)


class ScheduleRunNow(Request[RunReply]):
    schedule_id: ScheduleId


@operation(
    "schedule.run",
    needs=USE,
    command=True,
    audit="schedule.run",
    http=Http("POST", f"{_ONE}/run", status=202, names=(None, "StartedRun")),
    raises=(Conflict,),
)
async def run_now(context: Context, request: ScheduleRunNow) -> RunReply:
    """Run a schedule once now, besides its times, as it would run then."""
    schedule, now = await _find(context, request.schedule_id), context.vm.clock()
    key = f"sched:{schedule.schedule_id}:{context.vm.new_id('run')}"
    run = SourceRun(source_id=schedule.schedule_id, client_key=key, due_at=now, at=now, state="started")
    origin = TurnOrigin(kind="schedule", id=schedule.schedule_id, unattended=schedule.on_ask == "deny", budget=schedule.budget)
    try:
        started = await context.vm.starter.start(context.tenant_id, schedule, origin, schedule.message, run, tainted=False)
    except NotFound as error:
        raise Conflict(f"The schedule cannot run: {error}") from None
    return RunReply(session_id=started.session_id, turn_id=started.turn_id, is_new=True)


def timed(schedule: Schedule, now: int) -> Schedule:
    """Returns a schedule with its next time from now on; none for one that is disabled, or is never due again."""
    if schedule.disabled_at is not None:
        return replace(schedule, next_at=None, wake_at=None)
    next_at = next_time(schedule.cron, schedule.zone, now)
    return replace(schedule, next_at=next_at, wake_at=wake_time(schedule, next_at))


async def _store(context: Context) -> "SourceStore[Schedule]":
    return context.store.schedules(await context.sessions.containers())


async def _find(context: Context, schedule_id: ScheduleId) -> Schedule:
    return found(await (await _store(context)).get(schedule_id), _NOUN, schedule_id)


def _view(schedule: Schedule) -> ScheduleView:
    upcoming: tuple[int, ...] = ()
    if schedule.next_at is not None and schedule.disabled_at is None:
        upcoming = (schedule.next_at, *_following(schedule, schedule.next_at))
    return record_from(ScheduleView, schedule, enabled=schedule.disabled_at is None, upcoming=upcoming)


def _following(schedule: Schedule, after: int) -> tuple[int, ...]:
    try:
        return tuple(islice(times(schedule.cron, schedule.zone, after), UPCOMING_MAX - 1))
    except AgentVMError:
        # The zone is not known on this machine.
        return ()
