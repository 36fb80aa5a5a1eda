"""RPC providers — the model providers as AgentX 2.x lists them. Here they are settings, and are changed as such."""

from agentvm.errors import NotAvailable, PermissionDenied
from agentvm.operations.context import Context


def refuse_change(context: Context) -> None:
    """Raises the error of a client that would change a provider."""
    if not context.principal.may("config:write"):
        raise PermissionDenied("config:write")
    raise NotAvailable("Providers are settings of the server here: change them with avm config or PUT /v1/config")


def list_providers(context: Context) -> list[dict[str, object]]:
    """The providers as 2.x lists them. Keys are never shown."""
    if not context.principal.may("metrics:read"):
        raise PermissionDenied("metrics:read")
    return [
        {
            "id": f"llm_{health.name}",
            "containerId": context.images.home(),
            "name": health.name,
            "vendor": health.driver,
            "protocol": "anthropic" if health.driver == "anthropic" else "openai",
            "apiKey": "***",
            "model": health.default_model,
            "isDefault": health.role == "default",
            "createdAt": 0,
            "updatedAt": 0,
        }
        for health in context.vm.runtime.models.health(context.tenant_id)
    ]
