"""Stored sandboxes — a sandbox of the resource centre, with the bytes of its files."""

from typing import TYPE_CHECKING

from agentvm.errors.resource import ResourceNotFound
from agentvm.model.ids import TenantId
from agentvm.model.resource import parse_uri
from agentvm.tools.sandbox_jobs import SandboxSpec

if TYPE_CHECKING:
    from agentvm.resources.centre import ResourceCentre


async def find_sandbox(resources: "ResourceCentre", tenant_id: TenantId, uri: str) -> SandboxSpec:
    """Returns the sandbox that a URI names for a tenant; `ResourceNotFound` for another kind of resource."""
    resolved = await resources.resolver.resolve(tenant_id, uri)
    if resolved.type != "sandboxes" or not isinstance(resolved.rendered, dict):
        raise ResourceNotFound(uri)
    rendered = resolved.rendered
    closure = await resources.resolver.find(tenant_id, parse_uri(uri))
    store = resources.store.resources(tenant_id)
    files: dict[str, bytes] = {}
    for path, content in (rendered.get("files") or {}).items():
        if isinstance(content, str):
            files[path] = content.encode()
            continue
        for version_id in closure.nodes:
            body = await store.blob(version_id, content["blob"])
            if body is not None:
                files[path] = body
                break
    return SandboxSpec.of(rendered, files)
