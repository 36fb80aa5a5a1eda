"""Schedules — messages that agents receive on a schedule, and the runs of them."""

from itertools import islice

from msgspec.structs import replace

from agentvm.errors import AgentVMError, Conflict, ContainerForbidden, ImageNotFound, NotFound, SessionNotFound
from agentvm.model.base import record_from
from agentvm.model.schedule import (
    CatchUp,
    CatchUpSeconds,
    Cron,
    JitterSeconds,
    MissedPolicy,
    OverlapPolicy,
    Schedule,
    ScheduleId,
    SessionMode,
    SourceRun,
    Zone,
)
from agentvm.model.turn import TurnOrigin
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.turn_sources import (
    USE,
    NewSource,
    RunListReply,
    RunReply,
    SourceChanges,
    SourceList,
    Sources,
    TurnSourceView,
    made_by,
    name_of,
    place,
)
from agentvm.protocol.requests import Reply, Request
from agentvm.schedules.cron import next_time, parse, times
from agentvm.schedules.plan import wake_time

operation = OperationGroup("schedules")

UPCOMING_MAX = 3
_ALL, _ONE = "/v1/schedules", "/v1/schedules/{schedule_id}"
_NAMED = {"container_id": "container"}
_TIMING = ("cron", "zone", "missed", "catch_up", "catch_up_seconds", "overlap", "jitter_seconds")
_SCHEDULES: Sources[Schedule] = Sources("schedule", lambda store, containers: store.schedules(containers))


class ScheduleView(TurnSourceView):
    """A schedule. `nextAt` is its next time, `upcoming` that and the ones after it; none while it is disabled."""

    schedule_id: ScheduleId
    cron: str
    zone: str
    missed: MissedPolicy
    catch_up: int
    catch_up_seconds: int
    overlap: OverlapPolicy
    jitter_seconds: int
    next_at: int | None = None
    upcoming: tuple[int, ...] = ()


class ScheduleReply(Reply):
    schedule: ScheduleView


class ScheduleCreate(NewSource[ScheduleReply]):
    """`agent` is the name of a definition, the URI or name of an agent, or the id of an image.

    Without a container: your own, or `default` if you may use all containers.
    """

    cron: Cron
    zone: Zone = "UTC"
    session_mode: SessionMode = "same"
    missed: MissedPolicy = "once"
    catch_up: CatchUp = 10
    catch_up_seconds: CatchUpSeconds = 3_600
    overlap: OverlapPolicy = "skip"
    jitter_seconds: JitterSeconds = 0


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

    `cron` has five fields, or is a name such as `@daily`; `zone` is a name of the IANA database. Turns are billed to you. A
    call that needs an approval is denied, unless `onAsk` is `wait`.
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


class ScheduleList(SourceList["ScheduleListReply"]):
    """Schedules of a container, or of all that you may use. `cursor` is the `nextCursor` of the previous page."""


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
    page = await _SCHEDULES.page(context, request)
    return ScheduleListReply(schedules=tuple(map(_view, page.items)), next_cursor=page.next_cursor)


class ScheduleGet(Request[ScheduleReply]):
    schedule_id: ScheduleId


@operation("schedule.get", needs=USE, command=True, http=Http("GET", _ONE, result="schedule", names=(None, "Schedule")))
async def get(context: Context, request: ScheduleGet) -> ScheduleReply:
    """Show a schedule."""
    return ScheduleReply(schedule=_view(await _SCHEDULES.get(context, request.schedule_id)))


class ScheduleUpdate(SourceChanges[ScheduleReply]):
    """Members that are absent stay as they are. `enabled` of true resumes a schedule from now on."""

    schedule_id: ScheduleId
    cron: Cron | None = None
    zone: Zone | None = None
    missed: MissedPolicy | None = None
    catch_up: CatchUp | None = None
    catch_up_seconds: CatchUpSeconds | None = None
    overlap: OverlapPolicy | None = None
    jitter_seconds: JitterSeconds | None = None


@operation(
    "schedule.update",
    needs=USE,
    command=True,
    audit="schedule.update",
    http=Http("PUT", _ONE, result="schedule", names=("ScheduleChanges", "Schedule")),
)
async def update(context: Context, request: ScheduleUpdate) -> ScheduleReply:
    """Update, disable or enable a schedule."""
    before, now = await _SCHEDULES.get(context, request.schedule_id), context.vm.clock()
    cron = parse(request.cron or before.cron, request.zone or before.zone)
    own = {name: value for name in _TIMING if (value := getattr(request, name)) is not None}
    own |= {"cron": cron} if request.cron is not None else {}

    def retime(schedule: Schedule) -> Schedule:
        after = replace(schedule, **own)
        is_retimed = any(getattr(after, name) != getattr(schedule, name) for name in ("cron", "zone", "jitter_seconds"))
        return timed(after, now) if is_retimed or request.enabled is not None else after

    schedule = await _SCHEDULES.update(context, request.schedule_id, request, retime)
    context.vm.schedules.wake()
    return ScheduleReply(schedule=_view(schedule))


class ScheduleDelete(Request[Reply]):
    schedule_id: ScheduleId


@operation("schedule.delete", needs=USE, command=True, audit="schedule.delete", http=Http("DELETE", _ONE))
async def delete(context: Context, request: ScheduleDelete) -> Reply:
    """Delete a schedule and the list of its runs. Sessions and turns stay."""
    return await _SCHEDULES.delete(context, request.schedule_id)


class ScheduleRuns(Request[RunListReply]):
    schedule_id: ScheduleId


@operation("schedule.runs", needs=USE, command=True, http=Http("GET", f"{_ONE}/runs", items="runs", names=(None, "RunPage")))
async def list_runs(context: Context, request: ScheduleRuns) -> RunListReply:
    """List the last runs of a schedule, and the times at which it did not run, newest first."""
    return await _SCHEDULES.runs(context, request.schedule_id)


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
    """Run a schedule once now, in addition to its times."""
    schedule, now = await _SCHEDULES.get(context, request.schedule_id), context.vm.clock()
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
