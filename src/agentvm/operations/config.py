"""Settings — the effective values, their sources, and how they are changed while the server runs.

An operator's request is about the server, and with `?tenant=` about that tenant; everybody else's is about their own tenant. A
tenant sees and sets what concerns it, and nothing of how the server is run.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Annotated, TypeVar

import msgspec
from msgspec import Meta

from agentvm.config import history
from agentvm.config.catalogue import find, is_group, unknown
from agentvm.config.centre import ChangeRequest, ChangeResult
from agentvm.config.edits import EDIT_KEYS_MAX, changed_leaves
from agentvm.config.effective import derive
from agentvm.config.schema import config_schema
from agentvm.config.view import SettingView, concerns_tenants, keys_of, tree, view_setting, views
from agentvm.errors import InvalidInput, NotFound, PreconditionFailed, shorten
from agentvm.model.base import Record
from agentvm.model.ids import TenantId
from agentvm.operations.http_reply import HttpReply
from agentvm.operations.numbers import JSON_INTEGER_MAX, check_text
from agentvm.operations.operation import Empty, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, number_of, paged
from agentvm.protocol.requests import Request

if TYPE_CHECKING:
    from agentvm.operations.context import Context

operation = OperationGroup("config")

READ, WRITE = "config:read", "config:write"
REVISION_DIGITS_MAX = 15
TARGET_KEYS_MAX = 20
"""Settings that an entry of the audit log names."""

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


@operation("config.show", needs=READ, http=Http(method="GET", path=_ALL, id="config_get_all"))
async def show(context: "Context", request: ConfigShow) -> HttpReply[ConfigView]:
    """Show the effective settings, without secrets."""
    if request.view not in (None, "full"):
        raise InvalidInput("`view` must be full or absent")
    scope, centre = _scope(context), context.vm.settings
    values, of_tenant = centre.values(scope), scope is not None
    pending = () if of_tenant else centre.pending
    settings = None
    if request.view == "full":
        settings = tuple(views(values, lambda key: centre.layers(scope, key), of_tenant=of_tenant, pending=pending))
    view = ConfigView(
        revision=centre.revision(scope),
        tenant_id=scope,
        config=tree(values, keys_of(values, of_tenant=of_tenant)),
        pending_restart=pending,
        settings=settings,
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
    http=Http(method="PUT", path=_ALL, names=("ChangesRequest", None)),
    audit="config.change",
    raises=(PreconditionFailed,),
)
async def change(context: "Context", request: ConfigChange) -> HttpReply[OutcomeView]:
    """Change settings: all of them, or none if one is invalid."""
    scope = _scope(context)
    if (request.changes is None) == (request.config is None):
        raise InvalidInput("Provide either `changes` or `config`, the edited settings of a GET")
    if request.config is None:
        return await _change(context, request, scope, request.changes or {})
    return await _change(context, request, scope, changed_leaves(request.config, context.vm.settings.values(scope)))


class ConfigHistory(PageRequest):
    """A page of the changes."""


@operation("config.history", needs=READ, http=Http(method="GET", path=f"{_ALL}/history", id="config_list_history"))
async def list_history(context: "Context", request: ConfigHistory) -> Page[ChangeView]:
    """List the changes of settings, newest first."""
    store = context.tenancy.store.settings(_scope(context))
    changes = await store.list(before=number_of(request.cursor), limit=request.limit + 1)
    items = [
        ChangeView(
            revision=change.revision,
            at=change.at,
            actor=change.actor,
            request_id=change.request_id,
            note=change.note,
            changes=tuple(Changed(key=key, to=history.show_raw(key, raw)) for key, raw in sorted(change.changes.items())),
        )
        for change in changes
    ]
    return paged(items, request.limit, lambda index: str(items[index].revision))


class ConfigDiff(Request[DiffView]):
    """Without `to`, up to the present revision."""

    since: Revision = msgspec.field(name="from")
    to: Revision | None = None


@operation("config.diff", needs=READ, http=Http(method="GET", path=f"{_ALL}/diff"))
async def diff(context: "Context", request: ConfigDiff) -> DiffView:
    """Show the differences between two revisions."""
    scope, centre = _scope(context), context.vm.settings
    to = centre.revision(scope) if request.to is None else request.to
    before, after = await centre.state_at(scope, request.since), await centre.state_at(scope, to)
    return DiffView(since=request.since, to=to, changed=_changes(history.between(before, after)))


class ConfigRollback(ConfigEdit):
    to: Revision


@operation(
    "config.rollback",
    needs=WRITE,
    http=Http(method="POST", path=f"{_ALL}/rollback", names=("RollbackRequest", None)),
    audit="config.rollback",
    raises=(PreconditionFailed,),
)
async def rollback(context: "Context", request: ConfigRollback) -> HttpReply[OutcomeView]:
    """Restore the settings of an earlier revision, as a new change."""
    scope = _scope(context)
    context.target = _target(scope, ())
    result = await context.vm.settings.rollback(scope, request.to, _change_request(context, request))
    return _outcome(context, request, scope, result)


@operation("config.schema", needs=READ, http=Http(method="GET", path=f"{_ALL}/schema"))
async def schema(context: "Context", request: Empty) -> dict[str, object]:
    """Show the JSON Schema of a configuration file."""
    return config_schema()


class SettingShow(Request[SettingView | GroupView]):
    key: str


@operation("config.get", needs=READ, http=Http(method="GET", path=_ONE, id="config_get_one"))
async def get(context: "Context", request: SettingShow) -> SettingView | GroupView:
    """Explain a setting: effective value, all sources, precedence. A group shows all settings below it."""
    scope, centre, key = _scope(context), context.vm.settings, request.key
    values, of_tenant = centre.values(scope), scope is not None
    pending, derived = () if of_tenant else centre.pending, derive(values)

    def explained(key: str) -> SettingView:
        sources = centre.layers(scope, key)
        return view_setting(key, values.get(key), sources, derived, of_tenant=of_tenant, pending=key in pending)

    if find(key) is not None and (not of_tenant or concerns_tenants(key)):
        return explained(key)
    below = [name for name in keys_of(values, of_tenant=of_tenant) if name.startswith(f"{key}.")]
    if not is_group(key) or (of_tenant and not below):
        why = "only the operator may see it" if find(key) is not None or is_group(key) else unknown(key)
        raise NotFound(f"{shorten(key)}: {why}")
    return GroupView(key=key, value=tree(values, below), settings=tuple(map(explained, below)))


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
    http=Http(method="PUT", path=_ONE, id="config_change_one", names=("SettingRequest", None)),
    audit="config.change",
    raises=(PreconditionFailed,),
)
async def put(context: "Context", request: SettingPut) -> HttpReply[OutcomeView]:
    """Change one setting. A `value` of null removes the override."""
    if find(request.key) is None and not is_group(request.key):
        raise NotFound(f"{shorten(request.key)}: {unknown(request.key)}")
    return await _change(context, request, _scope(context), {request.key: request.value})


async def _change(
    context: "Context", request: ConfigEdit, scope: TenantId | None, changes: Mapping[str, object]
) -> HttpReply[OutcomeView]:
    context.target = _target(scope, changes)
    result = await context.vm.settings.change(scope, changes, _change_request(context, request))
    return _outcome(context, request, scope, result)


def _scope(context: "Context") -> TenantId | None:
    """Returns the tenant whose settings are meant; None for those of the server."""
    if context.principal.may("system:admin") and not context.http.names_tenant:
        return None
    return context.tenant_id


def _change_request(context: "Context", request: ConfigEdit) -> ChangeRequest:
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


def _outcome(context: "Context", request: ConfigEdit, scope: TenantId | None, result: ChangeResult) -> HttpReply[OutcomeView]:
    context.target = _target(scope, result.changed)
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
    return tuple(
        Changed(key=key, before=history.show_raw(key, before), to=history.show_raw(key, after))
        for key, (before, after) in sorted(changed.items())
    )


def _target(scope: TenantId | None, keys: Iterable[str]) -> str:
    """Names the scope and the settings for the audit log. An unknown key may be a secret in the wrong place."""
    where = "server" if scope is None else scope
    named = sorted({key if find(key) is not None or is_group(key) else "unknown" for key in islice(keys, EDIT_KEYS_MAX)})
    return f"{where}: {', '.join(named[:TARGET_KEYS_MAX])}" if named else where
