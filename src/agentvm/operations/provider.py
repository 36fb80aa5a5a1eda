"""Providers — health of the model providers that this server calls with its own keys. No key is shown."""

from msgspec import structs

from agentvm.drivers.health import ProviderHealth
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, page_of

operation = OperationGroup("providers")


class ProviderList(PageRequest):
    """A page of the providers, in the order of the configuration."""


@operation("provider.list", needs="metrics:read", across=False, http=Http("GET", "/v1/providers"))
async def list_all(context: Context, request: ProviderList) -> Page[ProviderHealth]:
    """List the model providers and their health.

    In the order of the configuration, as your tenant's calls experience them. Only the operator sees their addresses, and the
    number of calls of all tenants.
    """
    is_operator = context.principal.may("system:admin")
    providers = context.vm.runtime.models.health(None if is_operator else context.principal.tenant_id)
    if not is_operator:
        providers = tuple(structs.replace(health, base_url=None, calls=None, failures=None) for health in providers)
    return page_of(providers, request, (health.name for health in providers))
