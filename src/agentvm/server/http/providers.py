"""Providers — `/v1/providers`: how the providers of models are that this server asks with its own keys. No key is shown."""

from msgspec import structs

from agentvm.drivers.health import ProviderHealth
from agentvm.server.http.route import Ask, Page, PageGiven, Routes, page_of

routes = Routes()


@routes.add("GET", "/v1/providers", needs=("metrics:read",), across=False, takes=PageGiven)
async def list_all(ask: Ask[PageGiven]) -> Page[ProviderHealth]:
    """List the providers of models, and how they are.

    In the order they are configured, as your own tenant's calls experience them. Where they are, and how much all tenants
    together ask of them, is the operator's business.
    """
    operator = ask.principal.may("system:admin")
    found = ask.vm.runtime.models.health(None if operator else ask.principal.tenant_id)
    if not operator:
        found = tuple(structs.replace(one, base_url=None, calls=None, failures=None) for one in found)
    return page_of(found, ask.given, (one.name for one in found))
