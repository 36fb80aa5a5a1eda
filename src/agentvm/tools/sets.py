"""Tool sets — reads the tools of a set from its source when it is published, so that builds need no network."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
from anyio.to_thread import run_sync

from agentvm.errors import ToolFailed, shorten
from agentvm.errors.resource import ResourceInvalid
from agentvm.errors.tool import McpConsentRequired
from agentvm.model.resource import digest_of, some_of
from agentvm.resources.kind import JsonObject, accept
from agentvm.resources.tool import FrozenTool, ToolContent, Tools, model_name
from agentvm.resources.tool_entry import parse_http, parse_mcp, parse_openapi
from agentvm.resources.tool_set import ToolChange, expand
from agentvm.tools.base import Caller
from agentvm.tools.mcp.listing import ListedTool, clean, clean_schema, difference
from agentvm.tools.mcp.servers import McpServers
from agentvm.tools.mcp.settings import legacy_entries
from agentvm.tools.openapi import DOCUMENT_MAX_BYTES, read_openapi
from agentvm.tools.safe_http import Outgoing, SafeHttp, parse_url

NOTES_MAX = 20


@dataclass(frozen=True, slots=True)
class FrozenSet:
    """The content of a set with its tools, and the tools that were left out, with the reason."""

    content: JsonObject
    notes: tuple[str, ...] = ()


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[ToolChange, ...]:
    """Returns the tools of two contents of a set, by name."""
    old, new = _listed(before), _listed(after)
    changes = []
    for name in sorted(old.keys() | new.keys()):
        pin = (after["frozen"].get(name) or {}).get("pin")
        if name not in old or name not in new:
            changes.append(ToolChange(name=name, change="added" if name in new else "removed", pin=pin))
            continue
        is_same = before["frozen"][name] == after["frozen"][name]
        lines = {} if is_same else difference(old[name], new[name])
        changes.append(ToolChange(name=name, change="same" if is_same else "changed", pin=pin, lines=lines))
    return tuple(changes)


def _listed(content: Mapping[str, Any]) -> dict[str, ListedTool]:
    return {
        name: ListedTool(
            name=name,
            input_schema=tool["inputSchema"],
            title=tool.get("title"),
            description=tool["description"],
            output_schema=tool.get("outputSchema"),
            annotations=tool.get("annotations"),
        )
        for name, tool in (content.get("frozen") or {}).items()
    }


@dataclass(frozen=True, slots=True)
class _Source:
    tools: dict[str, FrozenTool]
    left_out: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSets:
    """Reads sets. A source that cannot be read is a `ResourceInvalid` that names the remedy."""

    http: SafeHttp
    mcp: McpServers

    async def freeze(self, raw: Mapping[str, Any], caller: Caller) -> FrozenSet:
        """Returns the content of a set with its tools; `raw` is as the publisher wrote it."""
        content = cast(ToolContent, await run_sync(accept, Tools(), raw))
        for member in _unused(content):
            raise ResourceInvalid(f"{member} has no meaning for a set of tools with the runtime {content.runtime}")
        source = await (self._mcp(content, caller) if content.runtime == "mcp" else self._openapi(content, caller))
        if not source.tools:
            why = "; ".join(f"{name}: {reason}" for name, reason in list(source.left_out.items())[:3])
            raise ResourceInvalid(f"entry: the set has no tool that can be used{f' ({why})' if why else ''}")
        notes = [f"{name} is left out: {reason}" for name, reason in source.left_out.items()]
        if len(notes) > NOTES_MAX:
            notes[NOTES_MAX:] = [f"{len(notes) - NOTES_MAX} more are left out"]
        return FrozenSet({**raw, "frozen": msgspec.to_builtins(source.tools)}, tuple(notes))

    async def unpinned(self, servers: Mapping[str, object], caller: Caller) -> tuple[tuple[JsonObject, ...], tuple[str, ...]]:
        """Returns the tools of servers that an image of AgentX 1.x names, and the names of those left out.

        They are not published and therefore not pinned, and have the effect `write` and the world `open`, so their use needs an
        approval.
        """
        specs: list[JsonObject] = []
        notes: list[str] = []
        for name, entry in legacy_entries(servers, self.mcp.settings).items():
            content = {"description": f"MCP server {name}", "runtime": "mcp", "entry": entry}
            frozen = await self.freeze(content, caller)
            whole = {**frozen.content, "name": model_name(name), "uri": f"mcp:{name}"}
            specs += [{member: value for member, value in spec.items() if member != "pin"} for spec in expand(whole)]
            notes += [f"mcpServers.{name}: {note}" for note in frozen.notes]
        return tuple(specs), tuple(notes)

    async def _openapi(self, content: ToolContent, caller: Caller) -> _Source:
        entry = parse_openapi(content.entry)
        body = await self._document(content, caller)
        if (digest := digest_of(body)) != entry.digest:
            raise ResourceInvalid(f"entry: the document has another digest now, {digest}; review it, and name that one")
        read = await run_sync(
            lambda: read_openapi(body, select=content.select, source=entry.address, http=content.http, secrets=content.secrets)
        )
        for tool in read.tools.values():
            address = parse_http(tool.entry).address
            if address.scheme != "https" and not self.http.allows_plain(parse_url(address.origin)):
                raise ResourceInvalid(
                    f"entry: the server of the document is {address.origin}; a tool uses https, and plain http only to an "
                    "address that the operator allows in tools.network.allow"
                )
        return _Source({name: _frozen(tool) for name, tool in read.tools.items()}, read.left_out)

    async def _mcp(self, content: ToolContent, caller: Caller) -> _Source:
        entry = parse_mcp(content.entry)
        try:
            listing = await self.mcp.list_tools(entry, caller)
        except McpConsentRequired:
            raise
        except ToolFailed as error:
            raise ResourceInvalid(
                f"entry: the MCP server cannot be asked for its tools: {error}. Publish again when it can be reached, or with "
                "the tools of an earlier version in frozen"
            ) from None
        if entry.tool is not None and entry.tool not in listing.tools:
            why = listing.unusable.get(entry.tool, f"it has {some_of(sorted(listing.tools), 'tool')}")
            raise ResourceInvalid(f"entry: the MCP server has no tool {shorten(entry.tool)}: {why}")
        tools = listing.select(content.select) if entry.tool is None else (listing.tools[entry.tool],)
        if not tools and listing.tools:
            raise ResourceInvalid(f"select: no tool of the server matches; it has {some_of(sorted(listing.tools), 'tool')}")
        accepted = {name for name, traits in (content.tools or {}).items() if traits.headers}
        left_out = {tool.name: _COPIES for tool in tools if tool.name in listing.copying - accepted}
        frozen = {tool.name: _pinned(tool) for tool in tools if tool.name not in left_out}
        return _Source(frozen, {**left_out, **({} if content.select or entry.tool else listing.unusable)})

    async def _document(self, content: ToolContent, caller: Caller) -> bytes:
        if content.document is not None:
            if content.document.data is None:
                raise ResourceInvalid("document: send the data of the document, so that it can be read")
            return content.document.data
        url = content.entry.rpartition("@")[0]
        try:
            request = Outgoing(method="GET", url=parse_url(url))
            fetched = await self.http.send(request, owner=caller.tenant_id, max_bytes=DOCUMENT_MAX_BYTES)
        except ToolFailed as error:
            raise ResourceInvalid(f"entry: the document cannot be read: {error}") from None
        if fetched.status != 200:
            raise ResourceInvalid(f"entry: the document cannot be read: {url} answered with status {fetched.status}")
        return fetched.body


def _unused(content: ToolContent) -> Iterator[str]:
    """Yields members that would have no effect. Contents of older archives may have them, so this is no rule of the type."""
    unused: dict[str, object] = {"inputSchema": content.input_schema, "outputSchema": content.output_schema}
    unused["sandbox"] = content.sandbox
    if content.runtime == "mcp":
        # Users sign in themselves, and the operator decides how a program runs.
        unused |= {"secrets": content.secrets, "needs": content.needs}
    return (member for member, value in unused.items() if value)


_COPIES = "its arguments are copied into HTTP headers, where proxies log them; accept that with tools.<name>.headers"


def _pinned(tool: ListedTool) -> FrozenTool:
    return FrozenTool(
        description=tool.shown,
        input_schema=clean_schema(tool.input_schema),
        output_schema=tool.output_schema,
        title=None if tool.title is None else clean(tool.title),
        annotations=tool.annotations,
        pin=tool.digest,
    )


def _frozen(tool: ToolContent) -> FrozenTool:
    assert tool.input_schema is not None
    return FrozenTool(
        description=tool.description, input_schema=tool.input_schema, entry=tool.entry, http=tool.http, effect=tool.effect
    )
