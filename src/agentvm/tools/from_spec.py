"""Tools from specs — makes the tool of an image out of the spec that its build has stored: kind, entry, schemas, sandbox."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ToolFailed
from agentvm.model.resource import ResourceUri, is_reference, parse_uri
from agentvm.model.tool import Effect, Repeat, ToolRuntime, World, default_world
from agentvm.resources.tool import HttpRequestParts, ToolNeeds
from agentvm.resources.tool_entry import parse_mcp
from agentvm.tools.base import CallableTool, CallTraits
from agentvm.tools.code import CODE_RUNTIMES, CodeTool
from agentvm.tools.http import HttpTool
from agentvm.tools.mcp.listing import ListedTool
from agentvm.tools.mcp.servers import McpServers, McpTool, server_grantee
from agentvm.tools.metered_jobs import MeteredJobs
from agentvm.tools.safe_http import SafeHttp
from agentvm.tools.sandbox_jobs import rendered_sandbox
from agentvm.tools.secrets import Grantee, SecretGrants, SecretTool


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFactory:
    """Makes tools of specs. A spec of a kind that this server lacks makes none."""

    http: SafeHttp
    jobs: MeteredJobs
    grants: SecretGrants
    mcp: McpServers

    def make(self, spec: Mapping[str, Any]) -> CallableTool | None:
        """Returns the tool of a spec; `ToolFailed` when the spec cannot be one."""
        uri, target = _target(spec)
        tool = self._tool(spec, target)
        if isinstance(tool, McpTool) and (names := self.mcp.secrets(tool.entry)):
            return SecretTool(inner=tool, grants=self.grants, grantee=server_grantee(tool.entry.server or ""), names=names)
        if tool is None or not (names := tuple(target.get("secrets") or ())):
            return tool
        grantee = Grantee(str(target.get("resourceId", "")), _granted_name(uri))
        return SecretTool(inner=tool, grants=self.grants, grantee=grantee, names=names)

    def _tool(self, spec: Mapping[str, Any], target: Mapping[str, Any]) -> CallableTool | None:
        runtime = cast(ToolRuntime, target.get("runtime"))
        described = ToolSpec(
            name=str(spec["name"]), description=str(spec["description"]), input_schema=dict(spec.get("inputSchema") or {})
        )
        if runtime == "http":
            return HttpTool(
                spec=described,
                entry=str(target["entry"]),
                parts=msgspec.convert(target.get("http") or {}, HttpRequestParts),
                traits=_traits(target, runtime),
                http=self.http,
            )
        if runtime == "mcp":
            return _mcp_tool(described, target, self.mcp)
        if runtime in CODE_RUNTIMES:
            return CodeTool(
                spec=described,
                runtime=runtime,
                entry=str(target["entry"]),
                sandbox=rendered_sandbox(str(target["name"]), target.get("resolved", {}).get("sandbox") or {}),
                traits=_traits(target, runtime),
                jobs=self.jobs,
                needs=msgspec.convert(target.get("needs") or {}, ToolNeeds),
            )
        return None


def _target(spec: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Returns the tool whose code or request a spec runs, with its URI: the spec itself, or the one that it is a face of."""
    uri = str(spec.get("uri", spec["name"]))
    while (resolved := (spec.get("resolved") or {}).get("entry")) is not None:
        uri, spec = str(spec["entry"]), resolved
    return uri, spec


def _granted_name(uri: str) -> str:
    """Returns the name of a tool in the command that grants it a secret."""
    if not is_reference(uri):
        return uri
    # A tool of a set has a fragment, which need not be one of a URI.
    parsed: ResourceUri = parse_uri(uri.partition("#")[0])
    return parsed.name if parsed.owner is None else f"{parsed.owner}/{parsed.name}"


def _mcp_tool(spec: ToolSpec, target: Mapping[str, Any], servers: McpServers) -> McpTool:
    entry = parse_mcp(str(target["entry"]))
    if entry.tool is None:
        raise ToolFailed(f"{target['entry']} is a set of tools, which cannot be called")
    pinned = ListedTool(
        name=entry.tool,
        title=target.get("title"),
        description=spec.description,
        input_schema=spec.input_schema,
        output_schema=target.get("outputSchema"),
        annotations=target.get("annotations"),
    )
    return McpTool(
        spec=spec,
        servers=servers,
        entry=entry,
        name=entry.tool,
        traits=_traits(target, "mcp"),
        pin=target.get("pin"),
        pinned=pinned,
        headers_allowed=bool(target.get("headers")),
    )


def _traits(spec: Mapping[str, Any], runtime: ToolRuntime) -> CallTraits:
    effect: Effect = spec.get("effect") or "write"
    world: World = spec.get("world") or default_world(runtime)
    repeat: Repeat | None = spec.get("repeat")
    return CallTraits.of(
        effect,
        world=world,
        repeat=repeat,
        timeout_ms=spec.get("timeoutMs"),
        writes_files=runtime in CODE_RUNTIMES and effect != "read",
    )
