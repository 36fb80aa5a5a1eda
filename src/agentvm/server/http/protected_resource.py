"""Protected resource — the metadata from which MCP clients learn the issuer of tokens for this server (RFC 9728)."""

from collections.abc import Iterator
from typing import Final

import msgspec

from agentvm.server.exchange import HttpError, HttpRequest, HttpResponse, Scope
from agentvm.server.router import HttpRoute
from agentvm.vm import AgentVM

METADATA: Final = "/.well-known/oauth-protected-resource"
RESOURCE: Final = "/mcp"
METADATA_PATHS: Final = (METADATA, f"{METADATA}{RESOURCE}", f"{METADATA}{RESOURCE}/{{agent:path}}")


def metadata_routes(vm: AgentVM) -> Iterator[HttpRoute]:
    """The routes of the metadata: for the server, and for each address of MCP."""

    async def show(request: HttpRequest) -> HttpResponse:
        if vm.config.gateways.mcp.enabled == "off":
            raise HttpError(404)
        path = str(request.scope["path"]).removeprefix(METADATA) or RESOURCE
        base = (vm.config.system.public_url or _origin(request.scope)).rstrip("/")
        content: dict[str, object] = {
            "resource": f"{base}{path}",
            "resource_name": "AgentVM",
            "bearer_methods_supported": ["header"],
        }
        if (issuer := vm.config.system.oidc.issuer) is not None:
            content["authorization_servers"] = [issuer]
        headers = {"Cache-Control": "no-store", "Access-Control-Allow-Origin": "*"}
        return HttpResponse(content=msgspec.json.encode(content), headers=headers)

    for path in METADATA_PATHS:
        yield HttpRoute("GET", path, show)


def challenge(scope: Scope) -> str:
    """Returns the `WWW-Authenticate` of a request of MCP without a valid credential."""
    return f'Bearer resource_metadata="{_origin(scope)}{METADATA}{RESOURCE}"'


def _origin(scope: Scope) -> str:
    """Returns the address by which the client reaches this server."""
    host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "localhost")
    return f"{scope.get('scheme', 'http')}://{host.replace(chr(34), '')}"
