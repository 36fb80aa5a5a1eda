"""Secrets — `/v1/secrets`: what a tenant entrusts to the server. Values go in and are never shown."""

from agentvm.errors import NotFound
from agentvm.model.base import Record
from agentvm.model.secret import Secret
from agentvm.operations.http_reply import NO_CONTENT
from agentvm.server.http.route import Answer, Ask, Given, Nothing, Page, PageGiven, Routes, page_of

routes = Routes()

ADMIN = ("tenants:admin",)

_ALL, _ONE = "/v1/secrets", "/v1/secrets/{name:str}"


class SecretGiven(Given):
    value: str

    def __repr__(self) -> str:
        return "SecretGiven('***')"


class SecretView(Record):
    name: str
    updated_at: int


@routes.add("GET", _ALL, needs=ADMIN, takes=PageGiven)
async def list_all(ask: Ask[PageGiven]) -> Page[SecretView]:
    """List the names of secrets."""
    found = await ask.tenancy.vault.names(ask.tenant_id)
    return page_of([SecretView(name=name, updated_at=at) for name, at in found], ask.given, (name for name, _ in found))


@routes.add("PUT", _ONE, needs=ADMIN, takes=SecretGiven, action="secret.put")
async def put(ask: Ask[SecretGiven]) -> Answer[None]:
    """Store a secret."""
    ask.tenancy.own_keys.check_secret(ask.path["name"])
    stored, size = ask.accounts.quotas.storage_bytes, len(ask.given.value.encode("utf-8", "surrogatepass"))
    await ask.tenancy.quotas.check(ask.tenant_id, ask.principal.user_id, "storage_bytes", stored, size)
    await ask.tenancy.vault.put(ask.tenant_id, ask.path["name"], Secret(ask.given.value))
    ask.tenancy.own_keys.forget(ask.tenant_id)
    return NO_CONTENT


@routes.add("DELETE", _ONE, needs=ADMIN, takes=Nothing, action="secret.delete")
async def delete(ask: Ask[Nothing]) -> Answer[None]:
    """Forget a secret."""
    if not await ask.tenancy.vault.remove(ask.tenant_id, ask.path["name"]):
        raise NotFound("There is no such secret")
    ask.tenancy.own_keys.forget(ask.tenant_id)
    return NO_CONTENT
