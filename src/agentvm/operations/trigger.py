"""Triggers — start a turn on a signed request of another program."""

from msgspec.structs import replace

from agentvm.errors import AccessDenied, Conflict, ContainerForbidden, ImageNotFound, NotFound, QuotaExceeded, SessionNotFound
from agentvm.model.base import record_from
from agentvm.model.schedule import SessionMode, Trigger, TriggerId
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

operation = OperationGroup("triggers")

ROTATION_MS = 24 * 3_600_000
"""After a rotation the old secret is good this long as well."""
BODY_MAX_BYTES = 256 * 1024
_ALL, _ONE = "/v1/triggers", "/v1/triggers/{trigger_id}"
_NAMED = {"container_id": "container"}
_TRIGGERS: Sources[Trigger] = Sources("trigger", lambda store, containers: store.triggers(containers))


class TriggerView(TurnSourceView):
    """A trigger. `secret` signs requests, only in the response that created it."""

    trigger_id: TriggerId
    path: str
    secret: str | None = None


class TriggerReply(Reply):
    trigger: TriggerView


class TriggerCreate(NewSource[TriggerReply]):
    """`agent` is the name of a definition, the URI or name of an agent, or the id of an image.

    Without a container: your own, or `default` if you may use all containers.
    """

    session_mode: SessionMode | None = None
    """By default `same` with a `sessionId`, else `new`."""


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

    The agent receives your message, followed by the body of the request as data. The secret is shown once; requests are signed
    with it.
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


class TriggerList(SourceList[TriggerListReply]):
    """Triggers of a container, or of all that you may use. `cursor` is the `nextCursor` of the previous page."""


@operation(
    "trigger.list",
    needs=USE,
    command=True,
    http=Http("GET", _ALL, rename=_NAMED, items="triggers", names=(None, "TriggerPage")),
    raises=(ContainerForbidden,),
)
async def list_all(context: Context, request: TriggerList) -> TriggerListReply:
    """List triggers, oldest first."""
    page = await _TRIGGERS.page(context, request)
    return TriggerListReply(triggers=tuple(map(_view, page.items)), next_cursor=page.next_cursor)


class TriggerGet(Request[TriggerReply]):
    trigger_id: TriggerId


@operation("trigger.get", needs=USE, command=True, http=Http("GET", _ONE, result="trigger", names=(None, "Trigger")))
async def get(context: Context, request: TriggerGet) -> TriggerReply:
    """Show a trigger."""
    return TriggerReply(trigger=_view(await _TRIGGERS.get(context, request.trigger_id)))


class TriggerUpdate(SourceChanges[TriggerReply]):
    """Members that are absent stay as they are."""

    trigger_id: TriggerId


@operation(
    "trigger.update",
    needs=USE,
    command=True,
    audit="trigger.update",
    http=Http("PUT", _ONE, result="trigger", names=("TriggerChanges", "Trigger")),
)
async def update(context: Context, request: TriggerUpdate) -> TriggerReply:
    """Update, disable or enable a trigger."""
    return TriggerReply(trigger=_view(await _TRIGGERS.update(context, request.trigger_id, request)))


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

    trigger = await _TRIGGERS.change(context, request.trigger_id, modify)
    return TriggerReply(trigger=replace(_view(trigger), secret=secret.reveal()))


class TriggerDelete(Request[Reply]):
    trigger_id: TriggerId


@operation("trigger.delete", needs=USE, command=True, audit="trigger.delete", http=Http("DELETE", _ONE))
async def delete(context: Context, request: TriggerDelete) -> Reply:
    """Delete a trigger and the list of its runs. Sessions and turns stay."""
    return await _TRIGGERS.delete(context, request.trigger_id)


class TriggerRuns(Request[RunListReply]):
    trigger_id: TriggerId


@operation("trigger.runs", needs=USE, command=True, http=Http("GET", f"{_ONE}/runs", items="runs", names=(None, "RunPage")))
async def list_runs(context: Context, request: TriggerRuns) -> RunListReply:
    """List the last runs of a trigger, newest first."""
    return await _TRIGGERS.runs(context, request.trigger_id)


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


def _view(trigger: Trigger) -> TriggerView:
    path = f"/v1/triggers/{trigger.trigger_id}"
    return record_from(TriggerView, trigger, enabled=trigger.disabled_at is None, path=path, secret=None)
