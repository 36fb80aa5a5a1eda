"""Triggers — begin a turn when a program asks that knows a secret."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from agentvm.errors import AccessDenied, Conflict, ContainerForbidden, ImageNotFound, NotFound, QuotaExceeded, SessionNotFound
from agentvm.model.base import Record, record_from
from agentvm.model.ids import ContainerId, ImageId, SessionId, TurnId
from agentvm.model.schedule import (
    DisabledReason,
    MessageText,
    OnAsk,
    RunsPerDay,
    SessionMode,
    SourceName,
    Trigger,
    TriggerId,
)
from agentvm.model.turn import TurnBudget
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

if TYPE_CHECKING:
    from agentvm.storage.sql.schedules import SourceStore

operation = OperationGroup("triggers")

USE = "agent:use"
ROTATION_MS = 24 * 3_600_000
"""After a rotation the old secret is good this long as well."""
BODY_MAX_BYTES = 256 * 1024
_ALL, _ONE = "/v1/triggers", "/v1/triggers/{trigger_id}"
_NAMED = {"container_id": "container"}
_NOUN = "trigger"
_CHANGEABLE = ("name", "message", "session_mode", "on_ask", "budget", "runs_per_day")


class TriggerView(Record):
    """A trigger. `secret` signs requests, only in the response that created it."""

    trigger_id: TriggerId
    name: str
    container_id: ContainerId
    image_id: ImageId
    message: str
    session_mode: SessionMode
    session_id: SessionId | None = None
    on_ask: OnAsk
    budget: TurnBudget | None = None
    runs_per_day: int | None = None
    enabled: bool
    disabled_reason: DisabledReason | None = None
    created_by: str
    created_at: int
    updated_at: int
    last_at: int | None = None
    last_turn_id: TurnId | None = None
    path: str
    secret: str | None = None


class TriggerReply(Reply):
    trigger: TriggerView


class TriggerCreate(Request[TriggerReply]):
    """`agent` is the name of a definition, the URI or name of an agent, or the id of an image.

    Without a container: your own, or `default` if you may use all containers.
    """

    agent: Agent
    message: MessageText
    name: SourceName | None = None
    container_id: str | None = None
    session_mode: SessionMode | None = None
    """By default `same` with a `sessionId`, else `new`."""
    session_id: SessionId | None = None
    """An existing session of the agent to go on in, for `same`."""
    on_ask: OnAsk = "deny"
    budget: TurnBudget | None = None
    runs_per_day: RunsPerDay | None = None


@operation(
    "trigger.create",
    needs=USE,
    command=True,
    audit="trigger.create",
    across=False,
    http=Http("POST", _ALL, status=201, rename=_NAMED, result="trigger", names=("NewTrigger", "Trigger")),
    raises=(Conflict, ContainerForbidden, ImageNotFound, SessionNotFound),
)
async def create(context: Context, request: TriggerCreate) -> TriggerReply:
    """Create a trigger: another program starts turns of an agent.

    The message is yours; what the program sends follows it as data. The secret is shown once; requests are signed with it.
    """
    now = context.vm.clock()
    mode = request.session_mode or ("new" if request.session_id is None else "same")
    image_id, container_id = await place(context, request.agent, request.container_id, mode, request.session_id)
    trigger_id = TriggerId(context.vm.new_id("trig"))
    context.target = trigger_id
    secret, sealed = context.vm.triggers.new_secret(context.tenant_id, trigger_id)
    trigger = record_from(
        Trigger,
        request,
        trigger_id=trigger_id,
        name=name_of(request.name, request.message, trigger_id),
        container_id=container_id,
        image_id=image_id,
        session_mode=mode,
        secret=sealed,
        **made_by(context, now),
    )
    await context.store.triggers((container_id,)).add(trigger)
    return TriggerReply(trigger=replace(_view(trigger), secret=secret.reveal()))


class TriggerListReply(Reply):
    triggers: tuple[TriggerView, ...]
    next_cursor: str | None = None


class TriggerList(Request[TriggerListReply]):
    """Triggers of a container, or of all that you may use. `cursor` is the `nextCursor` of the previous page."""

    container_id: str | None = None
    cursor: str | None = None
    limit: Limit = 100


@operation(
    "trigger.list",
    needs=USE,
    command=True,
    http=Http("GET", _ALL, rename=_NAMED, items="triggers", names=(None, "TriggerPage")),
    raises=(ContainerForbidden,),
)
async def list_all(context: Context, request: TriggerList) -> TriggerListReply:
    """List triggers, oldest first."""
    store = context.store.triggers(await context.sessions.containers(request.container_id))
    page = await page_of_sources(store, request.cursor, request.limit)
    return TriggerListReply(triggers=tuple(map(_view, page.items)), next_cursor=page.next_cursor)


class TriggerGet(Request[TriggerReply]):
    trigger_id: TriggerId


@operation("trigger.get", needs=USE, command=True, http=Http("GET", _ONE, result="trigger", names=(None, "Trigger")))
async def get(context: Context, request: TriggerGet) -> TriggerReply:
    """Show a trigger."""
    trigger = await (await _store(context)).get(request.trigger_id)
    return TriggerReply(trigger=_view(found(trigger, _NOUN, request.trigger_id)))


class TriggerUpdate(Request[TriggerReply]):
    """Members that are absent stay as they are."""

    trigger_id: TriggerId
    name: SourceName | None = None
    message: MessageText | None = None
    session_mode: SessionMode | None = None
    on_ask: OnAsk | None = None
    budget: TurnBudget | None = None
    runs_per_day: RunsPerDay | None = None
    enabled: bool | None = None


@operation(
    "trigger.update",
    needs=USE,
    command=True,
    audit="trigger.update",
    http=Http("PUT", _ONE, result="trigger", names=("TriggerChanges", "Trigger")),
)
async def update(context: Context, request: TriggerUpdate) -> TriggerReply:
    """Update, disable or enable a trigger."""
    now = context.vm.clock()
    if request.name is not None:
        check_text(request.name, "name")

    def modify(trigger: Trigger) -> Trigger:
        return changed(trigger, given_changes(request, _CHANGEABLE), request.enabled, now)

    return TriggerReply(trigger=_view(await _change(context, request.trigger_id, modify)))


class TriggerRotate(Request[TriggerReply]):
    trigger_id: TriggerId


@operation(
    "trigger.rotate",
    needs=USE,
    command=True,
    audit="trigger.rotate",
    http=Http("POST", f"{_ONE}/rotate", status=201, result="trigger", names=(None, "Trigger")),
)
async def rotate(context: Context, request: TriggerRotate) -> TriggerReply:
    """Replace the secret of a trigger.

    The new one is shown once. For 24 hours requests may be signed with either.
    """
    now = context.vm.clock()
    secret, sealed = context.vm.triggers.new_secret(context.tenant_id, request.trigger_id)

    def modify(trigger: Trigger) -> Trigger:
        until = now + ROTATION_MS
        return replace(trigger, secret=sealed, previous_secret=trigger.secret, previous_until=until, updated_at=now)

    trigger = await _change(context, request.trigger_id, modify)
    return TriggerReply(trigger=replace(_view(trigger), secret=secret.reveal()))


class TriggerDelete(Request[Reply]):
    trigger_id: TriggerId


@operation("trigger.delete", needs=USE, command=True, audit="trigger.delete", http=Http("DELETE", _ONE))
async def delete(context: Context, request: TriggerDelete) -> Reply:
    """Delete a trigger and the list of its runs. Sessions and turns stay."""
    if not await (await _store(context)).remove(request.trigger_id):
        raise missing(_NOUN, request.trigger_id)
    return Reply()


class TriggerRuns(Request[RunListReply]):
    trigger_id: TriggerId


@operation("trigger.runs", needs=USE, command=True, http=Http("GET", f"{_ONE}/runs", items="runs", names=(None, "RunPage")))
async def list_runs(context: Context, request: TriggerRuns) -> RunListReply:
    """List the last runs of a trigger, newest first."""
    return await runs_of(await _store(context), _NOUN, request.trigger_id)


class TriggerFire(Request[RunReply]):
    trigger_id: TriggerId


@operation(
    "trigger.fire",
    needs=(),
    http=Http(
        "POST",
        _ONE,
        status=202,
        body="bytes",
        max_body_bytes=BODY_MAX_BYTES,
        caller="nobody",
        names=(None, "StartedRun"),
    ),
    raises=(AccessDenied, Conflict, NotFound, QuotaExceeded),
)
async def fire(context: Context, request: TriggerFire) -> RunReply:
    """Start a turn of a trigger's agent, with the body as data.

    Needs no key: the request is signed with the trigger's secret as Standard Webhooks has it, in the headers `webhook-id`,
    `webhook-timestamp` and `webhook-signature`. The same `webhook-id` again is the same turn. The body is text of at most
    256 KiB.
    """
    vm, http = context.vm, context.http
    started = await vm.triggers.fire(request.trigger_id, http.signed, http.body, vm.starter)
    return RunReply(session_id=started.session_id, turn_id=started.turn_id, is_new=started.is_new)


async def _store(context: Context) -> "SourceStore[Trigger]":
    return context.store.triggers(await context.sessions.containers())


async def _change(context: Context, trigger_id: TriggerId, modify: Callable[[Trigger], Trigger]) -> Trigger:
    return found(await (await _store(context)).change(trigger_id, modify), _NOUN, trigger_id)


def _view(trigger: Trigger) -> TriggerView:
    path = f"/v1/triggers/{trigger.trigger_id}"
    return record_from(TriggerView, trigger, enabled=trigger.disabled_at is None, path=path, secret=None)
