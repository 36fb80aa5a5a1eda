"""Config — `/v1/config`: the settings that count, where each is from, and how they are changed while the server runs.

Whose settings: an operator's request is about the server, and with `?tenant=` about that tenant; everybody else's is about
their own tenant. A tenant sees and sets what concerns it, and nothing of how the server is run.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from agentvm.config import history
from agentvm.config.catalogue import find, is_group, shown, unknown
from agentvm.config.centre import ChangeRequest, ChangeResult
from agentvm.config.edits import EDIT_KEYS_MAX, leaves
from agentvm.config.effective import derive
from agentvm.config.layers import Values
from agentvm.config.schema import config_schema
from agentvm.config.view import SettingView, concerns_tenants, keys_of, tree, view_setting, views
from agentvm.errors import InvalidInput, NotFound, PreconditionFailed, shorten
from agentvm.model.base import Record
from agentvm.model.ids import TenantId
from agentvm.server.http.route import BIG, Answer, Ask, Given, Limit, Nothing, Page, Routes, check_text, paged

routes = Routes()

READ, WRITE = ("config:read",), ("config:write",)

_ALL = "/v1/config"

T = TypeVar("T")
Revision = Annotated[int, Meta(ge=0, le=BIG)]


class ConfigGiven(Given):
    """With `view=full` each setting is explained too."""

    view: str | None = None


class ChangesGiven(Given):
    """`changes` is a part of the tree, or dotted keys; null takes a change back. `revision` is the one that was seen.

    Instead of `changes` there may be `config`, so that an edited answer of GET can be sent back: values that are in force
    already, and masked secrets, stay as they are; `tenantId`, `pendingRestart` and `settings` are not read.
    """

    changes: dict[str, object] | None = None
    config: dict[str, object] | None = None
    note: str | None = None
    dry_run: bool = False
    revision: Revision | None = None
    tenant_id: object = None
    pending_restart: object = None
    settings: object = None

    def __repr__(self) -> str:
        return f"ChangesGiven({', '.join(map(shorten, self.changes or self.config or {}))}: '***')"


class SettingGiven(Given):
    """`value` is the new value, null to take a change back. The other fields of a setting, as GET shows them, are not read."""

    value: object
    note: str | None = None
    dry_run: bool = False
    revision: Revision | None = None
    key: object = None
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
        return "SettingGiven('***')"


class RollbackGiven(Given):
    to: Revision
    note: str | None = None
    dry_run: bool = False
    revision: Revision | None = None


class HistoryGiven(Given):
    """`before` is the `next` of the page before."""

    before: Revision | None = None
    limit: Limit = 100


class DiffGiven(Given):
    """Without `to`, up to now."""

    since: Revision = msgspec.field(name="from")
    to: Revision | None = None


class ConfigView(Record):
    """`revision` counts the changes. `pending_restart` have another value than the server was started with."""

    revision: int
    tenant_id: TenantId | None = None
    config: dict[str, object]
    pending_restart: tuple[str, ...] = ()
    settings: tuple[SettingView, ...] | None = None


class GroupView(Record):
    """Several settings: what is below a key."""

    key: str
    value: dict[str, object]
    settings: tuple[SettingView, ...]


class Changed(Record):
    """`from` and `to` are absent where there was, or is, no value of this layer."""

    key: str
    before: object = msgspec.field(name="from", default=None)
    to: object = None


class OutcomeView(Record):
    """What a change has done, or with `dry_run` would do."""

    revision: int
    changed: tuple[Changed, ...]
    live: tuple[str, ...]
    """In force already."""
    restart_required: tuple[str, ...]
    """In force with the next start."""
    dry_run: bool = False


class ChangeView(Record):
    """One change. What was before it is in the change before."""

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


@routes.add("GET", _ALL, needs=READ, takes=ConfigGiven)
async def get_all(ask: Ask[ConfigGiven]) -> Answer[ConfigView]:
    """The settings that count, without what is secret."""
    if ask.given.view not in (None, "full"):
        raise InvalidInput("`view` can be full, or absent")
    scope, centre = _scope(ask), ask.vm.settings
    values, of_tenant = centre.values(scope), scope is not None
    settings = None
    if ask.given.view == "full":
        pending = () if of_tenant else centre.pending
        settings = tuple(views(values, lambda key: centre.layers(scope, key), of_tenant=of_tenant, pending=pending))
    view = ConfigView(
        revision=centre.revision(scope),
        tenant_id=scope,
        config=tree(values, keys_of(values, of_tenant=of_tenant)),
        pending_restart=() if of_tenant else centre.pending,
        settings=settings,
    )
    return _tagged(view, view.revision)


@routes.add("PUT", _ALL, needs=WRITE, takes=ChangesGiven, action="config.change", raises=(PreconditionFailed,))
async def change(ask: Ask[ChangesGiven]) -> Answer[OutcomeView]:
    """Change settings: all of them, or none if one is wrong."""
    given, scope = ask.given, _scope(ask)
    if (given.changes is None) == (given.config is None):
        raise InvalidInput("Give either `changes` or `config`, the edited settings of a GET")
    changes = given.changes if given.config is None else _edited(given.config, ask.vm.settings.values(scope))
    return await _change(ask, scope, changes or {})


@routes.add("GET", f"{_ALL}/history", needs=READ, takes=HistoryGiven)
async def list_history(ask: Ask[HistoryGiven]) -> Page[ChangeView]:
    """What was changed, by whom and when, newest first."""
    given = ask.given
    found = await ask.tenancy.store.settings(_scope(ask)).list(before=given.before, limit=given.limit + 1)
    items = [
        ChangeView(
            revision=one.revision,
            at=one.at,
            actor=one.actor,
            request_id=one.request_id,
            note=one.note,
            changes=tuple(Changed(key=key, to=history.show_raw(key, raw)) for key, raw in sorted(one.changes.items())),
        )
        for one in found
    ]
    return paged(items, given.limit, lambda index: str(items[index].revision))


@routes.add("GET", f"{_ALL}/diff", needs=READ, takes=DiffGiven)
async def diff(ask: Ask[DiffGiven]) -> DiffView:
    """What differs between two revisions."""
    scope, centre = _scope(ask), ask.vm.settings
    to = centre.revision(scope) if ask.given.to is None else ask.given.to
    before, after = await centre.state_at(scope, ask.given.since), await centre.state_at(scope, to)
    return DiffView(since=ask.given.since, to=to, changed=_changes(history.between(before, after)))


@routes.add(
    "POST", f"{_ALL}/rollback", needs=WRITE, takes=RollbackGiven, action="config.rollback", raises=(PreconditionFailed,)
)
async def rollback(ask: Ask[RollbackGiven]) -> Answer[OutcomeView]:
    """Go back to an earlier revision, by one more change."""
    scope = _scope(ask)
    ask.target = _target(scope, ())
    outcome = await ask.vm.settings.rollback(scope, ask.given.to, _ordered(ask, ask.given))
    ask.target = _target(scope, outcome.changed)
    return _shown(outcome, dry_run=ask.given.dry_run)


@routes.add("GET", f"{_ALL}/schema", needs=READ, takes=Nothing)
async def schema(ask: Ask[Nothing]) -> dict[str, object]:
    """The JSON Schema of a configuration file."""
    return config_schema()


@routes.add("GET", f"{_ALL}/{{key:str}}", needs=READ, takes=Nothing)
async def get_one(ask: Ask[Nothing]) -> SettingView | GroupView:
    """One setting with everything that is known about it, or all that are below a key."""
    scope, centre, key = _scope(ask), ask.vm.settings, ask.path["key"]
    values, of_tenant = centre.values(scope), scope is not None
    pending, derived = () if of_tenant else centre.pending, derive(values)

    def explained(one: str) -> SettingView:
        sources = centre.layers(scope, one)
        return view_setting(one, values.get(one), sources, derived, of_tenant=of_tenant, pending=one in pending)

    if find(key) is not None and (not of_tenant or concerns_tenants(key)):
        return explained(key)
    below = [one for one in keys_of(values, of_tenant=of_tenant) if one.startswith(f"{key}.")]
    if not is_group(key) or (of_tenant and not below):
        why = "it is the operator's business" if find(key) is not None or is_group(key) else unknown(key)
        raise NotFound(f"{shorten(key)}: {why}")
    return GroupView(key=key, value=tree(values, below), settings=tuple(map(explained, below)))


@routes.add("PUT", f"{_ALL}/{{key:str}}", needs=WRITE, takes=SettingGiven, action="config.change", raises=(PreconditionFailed,))
async def change_one(ask: Ask[SettingGiven]) -> Answer[OutcomeView]:
    """Change one setting; `value` null takes a change back."""
    scope, key = _scope(ask), ask.path["key"]
    if find(key) is None and not is_group(key):
        raise NotFound(f"{shorten(key)}: {unknown(key)}")
    return await _change(ask, scope, {key: ask.given.value})


async def _change(ask: Ask[Any], scope: TenantId | None, changes: Mapping[str, object]) -> Answer[OutcomeView]:
    ask.target = _target(scope, changes)
    outcome = await ask.vm.settings.change(scope, changes, _ordered(ask, ask.given))
    ask.target = _target(scope, outcome.changed)
    return _shown(outcome, dry_run=ask.given.dry_run)


def _edited(config: Mapping[str, object], values: Values) -> dict[str, object]:
    """The leaves of a tree that differ from the values in force, as dotted keys. Unknown ones stay, to be refused.

    Of more than one change may have, there is one too many: enough to be refused.
    """

    def differs(key: str, value: object) -> bool:
        setting, now = find(key), values.get(key)
        return setting is None or now is None or shown(setting, now.value) != value

    return dict(islice(((key, value) for key, value in leaves(config) if differs(key, value)), EDIT_KEYS_MAX + 1))


def _scope(ask: Ask[Any]) -> TenantId | None:
    """None for the server's own settings."""
    if ask.principal.may("system:admin") and not ask.named:
        return None
    return ask.tenant_id


def _ordered(ask: Ask[Any], given: ChangesGiven | SettingGiven | RollbackGiven) -> ChangeRequest:
    note = None if given.note is None else check_text(given.note, "note")
    return ChangeRequest(
        actor=ask.principal.actor,
        request_id=ask.request_id,
        note=note,
        revision=_seen(ask.if_match) if given.revision is None else given.revision,
        dry_run=given.dry_run,
    )


def _seen(if_match: str | None) -> int | None:
    if if_match is None or if_match == "*":
        return None
    number = if_match.removeprefix("W/").strip('"')
    if not (number.isascii() and number.isdigit() and len(number) < 16):
        raise PreconditionFailed("If-Match must be the ETag of an earlier answer")
    return int(number)


def _shown(outcome: ChangeResult, *, dry_run: bool) -> Answer[OutcomeView]:
    view = OutcomeView(
        revision=outcome.revision,
        changed=_changes(outcome.changed),
        live=outcome.live,
        restart_required=outcome.restart,
        dry_run=dry_run,
    )
    return _tagged(view, outcome.revision)


def _tagged(view: T, revision: int) -> Answer[T]:
    return Answer(content=view, headers={"ETag": f'"{revision}"'})


def _changes(changed: Mapping[str, tuple[object, object]]) -> tuple[Changed, ...]:
    return tuple(
        Changed(key=key, before=history.show_raw(key, pair[0]), to=history.show_raw(key, pair[1]))
        for key, pair in sorted(changed.items())
    )


def _target(scope: TenantId | None, keys: Iterable[str]) -> str:
    """For the audit log: whose settings, and which. A key that nobody knows may be a secret in the wrong place."""
    where = "server" if scope is None else scope
    named = sorted({key if find(key) is not None or is_group(key) else "unknown" for key in islice(keys, EDIT_KEYS_MAX)})
    return f"{where}: {', '.join(named[:20])}" if named else where
