"""Secrets — values that a tenant entrusts to the server, such as provider keys. They are written and never shown."""

from agentvm.errors import NotFound
from agentvm.model.base import Record
from agentvm.model.secret import Secret
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, page_of
from agentvm.protocol.requests import Request

operation = OperationGroup("secrets")

ADMIN = "tenants:admin"

_ALL, _ONE = "/v1/secrets", "/v1/secrets/{name}"


class SecretView(Record):
    name: str
    updated_at: int


class SecretList(PageRequest):
    """A page of the names."""


@operation("secret.list", needs=ADMIN, http=Http("GET", _ALL))
async def list_all(context: Context, request: SecretList) -> Page[SecretView]:
    """List the names of secrets."""
    items = [SecretView(name=name, updated_at=at) for name, at in await context.tenancy.vault.names(context.tenant_id)]
    return page_of(items, request, (item.name for item in items))


class SecretPut(Request[None]):
    name: str
    value: str

    def __repr__(self) -> str:
        return "SecretPut('***')"


@operation("secret.put", needs=ADMIN, audit="secret.put", http=Http("PUT", _ONE, names=("SecretRequest", None)))
async def put(context: Context, request: SecretPut) -> None:
    """Store a secret."""
    tenancy = context.tenancy
    tenancy.own_keys.check_secret(request.name)
    await context.workspace.check_storage(len(request.value.encode("utf-8", "surrogatepass")))
    await tenancy.vault.put(context.tenant_id, request.name, Secret(request.value))
    tenancy.own_keys.forget(context.tenant_id)


class SecretDelete(Request[None]):
    name: str


@operation("secret.delete", needs=ADMIN, audit="secret.delete", http=Http("DELETE", _ONE))
async def delete(context: Context, request: SecretDelete) -> None:
    """Delete a secret."""
    if not await context.tenancy.vault.remove(context.tenant_id, request.name):
        raise NotFound("There is no such secret")
    context.tenancy.own_keys.forget(context.tenant_id)
