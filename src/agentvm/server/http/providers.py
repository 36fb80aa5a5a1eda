"""Providers — `/v1/providers`: how the providers of models are that this server asks with its own keys. No key is shown."""

from agentvm.drivers.health import ProviderHealth
from agentvm.server.http.route import Ask, Page, PageGiven, Routes, page_of

routes = Routes()


@routes.add("GET", "/v1/providers", needs=("metrics:read",), across=False, takes=PageGiven)
async def list_all(ask: Ask[PageGiven]) -> Page[ProviderHealth]:
    """List the providers of models, and how they are.

    In the order they are configured. They are the server's, so there is nothing of a tenant in them.
    """
    found = ask.vm.runtime.models.health()
    return page_of(found, ask.given, (one.name for one in found))
