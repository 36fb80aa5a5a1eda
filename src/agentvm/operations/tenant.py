"""Tenants — created, changed and deleted by the operator; an administrator of a tenant may see their own.

Each operation has a second route, `POST /v1/tenants/<verb>`, with the tenant named in the body.
"""

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from agentvm.errors import Conflict, NotFound, not_found
from agentvm.model.account import AccountStatus, Tenant
from agentvm.model.ids import TenantId
from agentvm.operations.erasure import counted
from agentvm.operations.numbers import check_text
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, paged
from agentvm.protocol.records import OwnedRecord
from agentvm.protocol.requests import Request
from agentvm.tenants.slug import check_slug

operation = OperationGroup("tenants")

OPERATOR = "system:admin"
READ = (OPERATOR, "tenants:admin")
NAME_MAX = 200

_ALL, _ONE = "/v1/tenants", "/v1/tenants/{tenant}"


class TenantView(Tenant):
    status: AccountStatus


class TenantCreate(Request[TenantView]):
    slug: str
    name: str
    description: str | None = None
    plan: str | None = None


@operation(
    "tenant.create",
    needs=OPERATOR,
    across=False,
    audit="tenant.create",
    http=Http("POST", _ALL, status=201, names=("NewTenant", None), called="NewTenant"),
    raises=(Conflict,),
)
async def create(context: Context, request: TenantCreate) -> TenantView:
    """Create a tenant."""
    now = context.vm.clock()
    tenant = Tenant(
        tenant_id=TenantId(context.vm.new_id("ten")),
        slug=check_slug(request.slug),
        name=check_text(request.name, "name", NAME_MAX),
        description=_check_line(request.description, "description"),
        plan=_check_plan(context, request.plan),
        created_at=now,
        updated_at=now,
    )
    context.target = tenant.tenant_id
    await context.tenancy.store.directory.add_tenant(tenant)
    return _view(tenant)


@operation("tenant.list", needs=OPERATOR, across=False, http=Http("GET", _ALL, called="PageRequest"))
async def list_all(context: Context, request: PageRequest) -> Page[TenantView]:
    """List tenants by slug."""
    tenants = await context.tenancy.store.directory.list_tenants(after=request.cursor, limit=request.limit + 1)
    return paged([_view(tenant) for tenant in tenants], request.limit, lambda index: tenants[index].slug)


class TenantGet(Request[TenantView]):
    """`tenant` is an id or a slug."""

    tenant: str


@operation("tenant.get", needs=READ, across=False, http=Http("GET", _ONE, called="NamedTenant"), raises=(NotFound,))
async def get(context: Context, request: TenantGet) -> TenantView:
    """Show a tenant."""
    return _view(await context.tenancy.find_tenant(context.principal, request.tenant))


class TenantUpdate(Request[TenantView]):
    """Absent fields stay as they are; `null` removes a description or a plan. `tenant` is an id or a slug."""

    tenant: str
    slug: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    description: str | UnsetType | None = UNSET
    status: AccountStatus | UnsetType = UNSET
    plan: str | UnsetType | None = UNSET


@operation(
    "tenant.update",
    needs=OPERATOR,
    across=False,
    audit="tenant.update",
    http=Http("PUT", _ONE, names=("TenantChange", None), called="NamedChange"),
    raises=(NotFound, Conflict),
)
async def update(context: Context, request: TenantUpdate) -> TenantView:
    """Change a tenant."""
    target = await _target(context, request.tenant)
    changes = {name: value for name, value in msgspec.structs.asdict(request).items() if value is not UNSET}
    del changes["tenant"]
    now = context.vm.clock()

    def modify(before: Tenant) -> Tenant:
        after = replace(before, **changes, updated_at=now)
        check_text(after.name, "name", NAME_MAX)
        _check_line(after.description, "description")
        if after.plan != before.plan:
            _check_plan(context, after.plan)
        if after.slug != before.slug:
            check_slug(after.slug, before.tenant_id)
        return after

    changed = await context.tenancy.people.change_tenant(target.tenant_id, modify)
    if changed is None:
        raise not_found("Tenant", request.tenant)
    before, after = changed
    if after.plan != before.plan:
        await context.tenancy.quotas.reread(after.tenant_id)
    # The slug is in the names of its resources.
    context.vm.resources.resolver.forget()
    return _view(after)


class TenantDelete(Request[OwnedRecord | None]):
    """With `dryRun` nothing is deleted. `tenant` is an id or a slug."""

    tenant: str
    dry_run: bool = False


@operation(
    "tenant.delete",
    needs=OPERATOR,
    across=False,
    audit="tenant.delete",
    http=Http("DELETE", _ONE, statuses=(200, 204), called="NamedDeletion"),
    raises=(NotFound, Conflict),
)
async def delete(context: Context, request: TenantDelete) -> OwnedRecord | None:
    """Delete a tenant.

    Everything that it owns is deleted, except its ledger, its audit log, and versions of resources that others are locked to.
    This cannot be undone. With `dryRun` the response counts the data that would be deleted.
    """
    tenant_id = (await _target(context, request.tenant)).tenant_id
    if request.dry_run:
        return counted(context, await context.tenancy.store.erasing.weigh(tenant_id), not_found("Tenant", request.tenant))
    if not await context.tenancy.people.delete_tenant(tenant_id):
        raise not_found("Tenant", request.tenant)
    context.vm.settings.forget(tenant_id)
    context.tenancy.own_keys.forget(tenant_id)
    context.vm.resources.resolver.forget()
    return None


async def _target(context: Context, name: str) -> Tenant:
    """Returns the tenant, which the audit log names by its id."""
    context.target = name
    tenant = await context.tenancy.find_tenant(context.principal, name)
    context.target = tenant.tenant_id
    return tenant


def _check_plan(context: Context, name: str | None) -> str | None:
    context.tenancy.quotas.plans.check(_check_line(name, "plan"))
    return name


def _check_line(text: str | None, field: str) -> str | None:
    return None if text is None else check_text(text, field)


def _view(tenant: Tenant) -> TenantView:
    return msgspec.convert(tenant, TenantView, from_attributes=True)
