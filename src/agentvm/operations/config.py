"""Settings — the effective values, their sources, and how they are changed while the server runs.

An operator's request is about the server, and with `?tenant=` about that tenant; other users' requests are about their own
tenant. A tenant sees and sets its own settings, and none of the server's.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
from msgspec import Meta

from agentvm.errors import InvalidInput, PreconditionFailed, shorten
from agentvm.model.base import Record, record_from
from agentvm.model.ids import TenantId
from agentvm.model.setting import ChangeRequest, ChangeResult
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.numbers import JSON_INTEGER_MAX, check_text
from agentvm.operations.operation import Context, Empty, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, number_of, paged
from agentvm.protocol.records import SettingView
from agentvm.protocol.requests import Request

if TYPE_CHECKING:
    from agentvm.config.scope import SettingsScope

operation = OperationGroup("config")

READ, WRITE = "config:read", "config:write"
REVISION_DIGITS_MAX = 15

_ALL, _ONE = "/v1/config", "/v1/config/{key}"

T = TypeVar("T")
Revision = Annotated[int, Meta(ge=0, le=JSON_INTEGER_MAX)]


class ConfigView(Record):
    """`revision` counts the changes. `pendingRestart` names settings that differ from those the server was started with."""

    revision: int
    tenant_id: TenantId | None = None
    config: dict[str, object]
    pending_restart: tuple[str, ...] = ()
    settings: tuple[SettingView, ...] | None = None


class GroupView(Record):
    """The settings below a key."""

    key: str
    value: dict[str, object]
    settings: tuple[SettingView, ...]


class Changed(Record):
    """`from` and `to` are absent where this layer had, or has, no value."""

    key: str
    before: object = msgspec.field(name="from", default=None)
    to: object = None


class OutcomeView(Record):
    """The result of a change, or with `dryRun` of one that was not made."""

    revision: int
    changed: tuple[Changed, ...]
    live: tuple[str, ...]
    """Settings that are effective already."""
    restart_required: tuple[str, ...]
    """Settings that are effective after the next start."""
    dry_run: bool = False


class ChangeView(Record):
    """One change. The values before it are in earlier changes."""

    revision: int
    at: int
    actor: str
    request_id: str | None = None
    note: str | None = None
    changes: tuple[Changed, ...]


class DiffView(Record):
    since: int = msgspec.field(name="from")
    to: int
    changed: tuple[Changed, ...]


class ConfigShow(Request[ConfigView]):
    """With `view=full` each setting is explained."""

    view: str | None = None


@operation("config.show", needs=READ, http=Http("GET", _ALL, id="config_get_all"))
async def show(context: Context, request: ConfigShow) -> HttpReply[ConfigView]:
    """Show the effective settings, without secrets."""
    if request.view not in (None, "full"):
        raise InvalidInput("`view` must be full or absent")
    scope = context.settings
    view = ConfigView(
        revision=scope.revision,
        tenant_id=scope.tenant_id,
        config=scope.tree(),
        pending_restart=scope.pending,
        settings=scope.views() if request.view == "full" else None,
    )
    return _tagged(view, view.revision)


class ConfigEdit(Request[OutcomeView]):
    """`revision` is the one that was seen: a change is refused if there is a newer one. `note` goes into the history."""

    note: str | None = None
    dry_run: bool = False
    revision: Revision | None = None


class ConfigChange(ConfigEdit):
    """`changes` is a part of the tree, or dotted keys; null removes an override. `revision` is the one that was seen.

    Instead of `changes` there may be `config`, so that an edited response of GET can be sent back: values that are effective
    already, and masked secrets, stay as they are; `tenantId`, `pendingRestart` and `settings` are ignored.
    """

    changes: dict[str, object] | None = None
    config: dict[str, object] | None = None
    tenant_id: object = None
    pending_restart: object = None
    settings: object = None

    def __repr__(self) -> str:
        return f"ConfigChange({', '.join(map(shorten, self.changes or self.config or {}))}: '***')"


@operation(
    "config.change",
    needs=WRITE,
    http=Http("PUT", _ALL, names=("ChangesRequest", None)),
    audit="config.change",
    raises=(PreconditionFailed,),
)
async def change(context: Context, request: ConfigChange) -> HttpReply[OutcomeView]:
    """Change settings: all of them, or none if one is invalid."""
    if (request.changes is None) == (request.config is None):
        raise InvalidInput("Provide either `changes` or `config`, the edited settings of a GET")
    scope = context.settings
    return await _change(context, request, request.changes or {} if request.config is None else scope.edited(request.config))


class ConfigHistory(PageRequest):
    """A page of the changes."""


@operation("config.history", needs=READ, http=Http("GET", f"{_ALL}/history", id="config_list_history"))
async def list_history(context: Context, request: ConfigHistory) -> Page[ChangeView]:
    """List the changes of settings, newest first."""
    changes = await context.settings.history(before=number_of(request.cursor), limit=request.limit + 1)
    items = [
        record_from(ChangeView, change, changes=tuple(Changed(key=key, to=value) for key, value in change.changes.items()))
        for change in changes
    ]
    return paged(items, request.limit, lambda index: str(items[index].revision))


class ConfigDiff(Request[DiffView]):
    """Without `to`, up to the present revision."""

    since: Revision = msgspec.field(name="from")
    to: Revision | None = None


@operation("config.diff", needs=READ, http=Http("GET", f"{_ALL}/diff"))
async def diff(context: Context, request: ConfigDiff) -> DiffView:
    """Show the differences between two revisions."""
    scope = context.settings
    to = scope.revision if request.to is None else request.to
    return DiffView(since=request.since, to=to, changed=_changes(await scope.diff(request.since, to)))


class ConfigRollback(ConfigEdit):
    to: Revision


@operation(
    "config.rollback",
    needs=WRITE,
    http=Http("POST", f"{_ALL}/rollback", names=("RollbackRequest", None)),
    audit="config.rollback",
    raises=(PreconditionFailed,),
)
async def rollback(context: Context, request: ConfigRollback) -> HttpReply[OutcomeView]:
    """Restore the settings of an earlier revision, as a new change."""
    scope = context.settings
    context.target = scope.describe(())
    return _outcome(context, request, scope, await scope.rollback(request.to, _change_request(context, request)))


@operation("config.schema", needs=READ, http=Http("GET", f"{_ALL}/schema"))
async def schema(context: Context, request: Empty) -> dict[str, object]:
    """Show the JSON Schema of a configuration file."""
    return context.settings.schema()


class SettingShow(Request[SettingView | GroupView]):
    key: str


@operation("config.get", needs=READ, http=Http("GET", _ONE, id="config_get_one"))
async def get(context: Context, request: SettingShow) -> SettingView | GroupView:
    """Explain a setting: effective value, all sources, precedence. A group shows all settings below it."""
    scope, key = context.settings, request.key
    if scope.has(key):
        return scope.explain([key])[0]
    value, settings = scope.group(key)
    return GroupView(key=key, value=value, settings=settings)


class SettingPut(ConfigEdit):
    """`value` is the new value, null to remove an override. The other fields of a setting, as GET shows them, are ignored."""

    key: str = msgspec.field(name="keyInPath")
    value: object
    key_in_body: object = msgspec.field(name="key", default=None)
    effective: object = None
    source: object = None
    why: object = None
    layer: object = None
    place: object = None
    actor: object = None
    at: object = None
    default: object = None
    type: object = None
    doc: object = None
    applies: object = None
    tenant: object = None
    secret: object = None
    variable: object = None
    restart_pending: object = None
    layers: object = None

    def __repr__(self) -> str:
        return "SettingPut('***')"


@operation(
    "config.put",
    needs=WRITE,
    http=Http("PUT", _ONE, id="config_change_one", names=("SettingRequest", None)),
    audit="config.change",
    raises=(PreconditionFailed,),
)
async def put(context: Context, request: SettingPut) -> HttpReply[OutcomeView]:
    """Change one setting. A `value` of null removes the override."""
    context.settings.check_key(request.key)
    return await _change(context, request, {request.key: request.value})


async def _change(context: Context, request: ConfigEdit, changes: Mapping[str, object]) -> HttpReply[OutcomeView]:
    scope = context.settings
    context.target = scope.describe(changes)
    return _outcome(context, request, scope, await scope.change(changes, _change_request(context, request)))


def _change_request(context: Context, request: ConfigEdit) -> ChangeRequest:
    return ChangeRequest(
        actor=context.principal.actor,
        request_id=context.request_id,
        note=None if request.note is None else check_text(request.note, "note"),
        revision=_revision(context.http.if_match) if request.revision is None else request.revision,
        dry_run=request.dry_run,
    )


def _revision(if_match: str | None) -> int | None:
    if if_match is None or if_match == "*":
        return None
    number = if_match.removeprefix("W/").strip('"')
    if not (number.isascii() and number.isdigit() and len(number) <= REVISION_DIGITS_MAX):
        raise PreconditionFailed("If-Match must be the ETag of an earlier response")
    return int(number)


def _outcome(context: Context, request: ConfigEdit, scope: "SettingsScope", result: ChangeResult) -> HttpReply[OutcomeView]:
    context.target = scope.describe(result.changed)
    context.is_dry_run = request.dry_run
    view = OutcomeView(
        revision=result.revision,
        changed=_changes(result.changed),
        live=result.live,
        restart_required=result.restart,
        dry_run=request.dry_run,
    )
    return _tagged(view, result.revision)


def _tagged(view: T, revision: int) -> HttpReply[T]:
    return HttpReply(content=view, headers={"ETag": f'"{revision}"'})


def _changes(changed: Mapping[str, tuple[object, object]]) -> tuple[Changed, ...]:
    return tuple(Changed(key=key, before=before, to=after) for key, (before, after) in changed.items())
