"""Tenants — `/v1/tenants`, for the operator; a tenant's own administrator may look at their own.

The same functions also answer as calls (`POST /v1/tenants/create` and so on), with the tenant named in the body.
"""

import re
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from agentvm.errors import Conflict, InvalidInput, NotFound
from agentvm.model.account import AccountStatus, Tenant
from agentvm.model.base import Record
from agentvm.model.ids import DEFAULT_TENANT, TenantId
from agentvm.model.resource import SYSTEM
from agentvm.operations.http_reply import NO_CONTENT
from agentvm.protocol.records import OwnedRecord
from agentvm.server.http.containers import DryRun, counted
from agentvm.server.http.gate import NO_TENANT, reach_tenant
from agentvm.server.http.route import About, Answer, Ask, Given, Nothing, Page, PageGiven, Routes, check_text, paged

routes = Routes()

OPERATOR = ("system:admin",)
LOOKING = ("system:admin", "tenants:admin")

_SLUG = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_TAKEN = frozenset({"create", "get", "list", "update", "delete", SYSTEM})
"""Words of the calls, and the owner of what ships with the server: no tenant's."""


class NewTenant(Given):
    slug: str
    name: str
    description: str | None = None
    plan: str | None = None


class TenantChange(Given):
    """What is absent stays; `null` takes it away."""

    slug: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    status: AccountStatus | UnsetType = UNSET
    plan: str | UnsetType | None = UNSET


class NamedTenant(Given):
    """`tenant` is an id or a slug."""

    tenant: str


class NamedDeletion(NamedTenant):
    dry_run: bool = False


class NamedChange(TenantChange):
    tenant: str


class TenantView(Record):
    tenant_id: TenantId
    slug: str
    name: str
    description: str | None = None
    status: AccountStatus
    plan: str | None = None
    created_at: int
    updated_at: int


async def create(ask: Ask[NewTenant]) -> Answer[TenantView]:
    """Make a tenant."""
    given, now = ask.given, ask.vm.clock()
    tenant = Tenant(
        tenant_id=TenantId(ask.vm.new_id("ten")),
        slug=_check_slug(given.slug),
        name=check_text(given.name, "name", 200),
        description=_line(given.description, "description"),
        plan=_plan(ask, given.plan),
        created_at=now,
        updated_at=now,
    )
    ask.target = tenant.tenant_id
    await ask.tenancy.store.directory.add_tenant(tenant)
    return Answer(content=_shown(tenant), status=201)


async def list_all(ask: Ask[PageGiven]) -> Page[TenantView]:
    """List tenants.

    By slug.
    """
    given = ask.given
    found = await ask.tenancy.store.directory.list_tenants(after=given.after, limit=given.limit + 1)
    return paged([_shown(tenant) for tenant in found], given.limit, lambda index: found[index].slug)


async def get(ask: Ask[Nothing]) -> TenantView:
    """Show a tenant."""
    return _shown(await reach_tenant(ask, ask.path["tenant"]))


async def create_called(ask: Ask[NewTenant]) -> Answer[TenantView]:
    """Make a tenant, as a call."""
    return await create(ask)


async def list_called(ask: Ask[PageGiven]) -> Page[TenantView]:
    """List tenants, as a call."""
    return await list_all(ask)


async def get_called(ask: Ask[NamedTenant]) -> TenantView:
    """Show the tenant that the body names."""
    return _shown(await reach_tenant(ask, ask.given.tenant))


async def update(ask: Ask[TenantChange]) -> TenantView:
    """Change a tenant."""
    return await _update(ask, ask.path["tenant"])


async def update_called(ask: Ask[NamedChange]) -> TenantView:
    """Change the tenant that the body names."""
    return await _update(ask, ask.given.tenant)


async def delete(ask: Ask[DryRun]) -> Answer[None] | Answer[OwnedRecord]:
    """Delete a tenant.

    With all that is its own, but for its ledger, its audit log, and versions of resources that others are locked to. It cannot
    be undone. With `dryRun` it only counts what would go.
    """
    return await _delete(ask, ask.path["tenant"], dry_run=ask.given.dry_run)


async def delete_called(ask: Ask[NamedDeletion]) -> Answer[None] | Answer[OwnedRecord]:
    """Delete the tenant that the body names."""
    return await _delete(ask, ask.given.tenant, dry_run=ask.given.dry_run)


_ALL, _ONE = "/v1/tenants", "/v1/tenants/{tenant:str}"
_MADE: About = {"statuses": (201,), "raises": (Conflict,)}
_CHANGED: About = {"raises": (NotFound, Conflict)}
_DELETED: About = {"raises": (NotFound, Conflict), "statuses": (200, 204)}
routes.add("POST", _ALL, needs=OPERATOR, across=False, takes=NewTenant, action="tenant.create", **_MADE)(create)
routes.add("GET", _ALL, needs=OPERATOR, across=False, takes=PageGiven)(list_all)
routes.add("GET", _ONE, needs=LOOKING, across=False, takes=Nothing)(get)
routes.add("PUT", _ONE, needs=OPERATOR, across=False, takes=TenantChange, action="tenant.update", **_CHANGED)(update)
routes.add("DELETE", _ONE, needs=OPERATOR, across=False, takes=DryRun, action="tenant.delete", **_DELETED)(delete)
routes.add("POST", f"{_ALL}/create", needs=OPERATOR, across=False, takes=NewTenant, action="tenant.create", **_MADE)(
    create_called
)
routes.add("POST", f"{_ALL}/get", needs=LOOKING, across=False, takes=NamedTenant, raises=(NotFound,))(get_called)
routes.add("POST", f"{_ALL}/list", needs=OPERATOR, across=False, takes=PageGiven)(list_called)
routes.add("POST", f"{_ALL}/update", needs=OPERATOR, across=False, takes=NamedChange, action="tenant.update", **_CHANGED)(
    update_called
)
routes.add("POST", f"{_ALL}/delete", needs=OPERATOR, across=False, takes=NamedDeletion, action="tenant.delete", **_DELETED)(
    delete_called
)


async def _update(ask: Ask[Any], named: str) -> TenantView:
    ask.target = named
    before = await reach_tenant(ask, named)
    ask.target = before.tenant_id
    change: TenantChange = ask.given
    changed = {name: value for name in TenantChange.__struct_fields__ if (value := getattr(change, name)) is not UNSET}
    after = replace(before, **changed, updated_at=ask.vm.clock())
    check_text(after.name, "name", 200)
    _line(after.description, "description")
    if after.plan != before.plan:
        _plan(ask, after.plan)
    if after.slug != before.slug:
        if before.tenant_id == DEFAULT_TENANT:
            raise Conflict("The tenant default keeps its slug")
        _check_slug(after.slug)
    if not await ask.tenancy.people.update_tenant(after):
        raise NotFound(NO_TENANT)
    if after.plan != before.plan:
        await ask.tenancy.quotas.reread(after.tenant_id)
    # The slug is in the names of its resources.
    ask.vm.resources.resolver.forget()
    return _shown(after)


async def _delete(ask: Ask[Any], named: str, *, dry_run: bool) -> Answer[None] | Answer[OwnedRecord]:
    ask.target = named
    tenant = await reach_tenant(ask, named)
    ask.target = tenant.tenant_id
    if dry_run:
        return counted(ask, await ask.tenancy.store.erasing.weigh(tenant.tenant_id), NO_TENANT)
    if not await ask.tenancy.people.delete_tenant(tenant.tenant_id):
        raise NotFound(NO_TENANT)
    ask.vm.settings.forget(tenant.tenant_id)
    ask.tenancy.own_keys.forget(tenant.tenant_id)
    ask.vm.resources.resolver.forget()
    return NO_CONTENT


def _check_slug(slug: str) -> str:
    if not _SLUG.fullmatch(slug):
        raise InvalidInput("slug must have 1 to 63 small letters, digits and hyphens, and no hyphen at either end")
    if slug in _TAKEN or slug == DEFAULT_TENANT:
        raise InvalidInput(f"slug {slug!r} is taken by the server itself; choose another")
    return slug


def _plan(ask: Ask[Any], name: str | None) -> str | None:
    ask.tenancy.quotas.plans.check(_line(name, "plan"))
    return name


def _line(text: str | None, member: str) -> str | None:
    return None if text is None else check_text(text, member)


def _shown(tenant: Tenant) -> TenantView:
    return msgspec.convert(tenant, TenantView, from_attributes=True)
