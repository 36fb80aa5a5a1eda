"""The official MCP client against a real server with a scripted model, and messages sent by hand."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp_types import Tool
from tests.support.serving import Served, serving

from agentvm.drivers.scripted import Script, echo
from agentvm.gateways.mcp.messages import (
    CAPABILITIES_MEMBER,
    METHOD_HEADER,
    NAME_HEADER,
    STATELESS,
    VERSION_HEADER,
    VERSION_MEMBER,
)

ERAS = ["auto", "legacy"]


@asynccontextmanager
async def calling(
    script: Script = echo, *, mode: str = "auto", path: str = "/mcp", **about: Any
) -> AsyncIterator[tuple[Client, Served]]:
    async with serving(script, **about) as served, Client(f"{served.http}{path}", mode=mode) as client:
        yield client, served


async def tools_of(client: Client) -> dict[str, Tool]:
    return {tool.name: tool for tool in (await client.list_tools()).tools}


async def management(served: Served, method: str, path: str, body: object = None) -> Any:
    """One answer of the management API."""
    async with httpx2.AsyncClient(base_url=served.http) as http:
        reply = await http.request(method, path, json=body)
        assert reply.is_success, reply.text
        return reply.json()


def stateless(method: str, **params: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """A request of the stateless era: its body and its headers."""
    meta = {VERSION_MEMBER: STATELESS, CAPABILITIES_MEMBER: {}}
    headers = {VERSION_HEADER: STATELESS, METHOD_HEADER: method}
    if isinstance(named := params.get("name") or params.get("uri"), str):
        headers[NAME_HEADER] = named
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}, headers


def handshake(method: str, **params: Any) -> dict[str, Any]:
    """A request of the era before."""
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
