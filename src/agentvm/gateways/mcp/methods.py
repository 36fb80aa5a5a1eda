"""MCP methods — the methods of a client, in both eras of the protocol. Nothing is remembered from one request to the next."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

from agentvm.errors import AgentVMError, ToolNotFound, shorten
from agentvm.gateways.agents import find_agent, list_agents
from agentvm.gateways.mcp.agent_tool import agent_of, ask_agent, ask_tool, tool_name
from agentvm.gateways.mcp.errors import McpCode, MessageRefused, code_of, error_of
from agentvm.gateways.mcp.messages import (
    HANDSHAKE,
    LISTS_MS,
    SERVER_INFO,
    STATELESS,
    McpCall,
    McpMessage,
    call_of,
    read,
)
from agentvm.gateways.mcp.reading import (
    READ,
    READING_TOOLS,
    SEARCH,
    ReadArguments,
    SearchArguments,
    read_session,
    search_sessions,
)
from agentvm.gateways.mcp.resources import get_prompt, list_prompts, list_resources, list_templates, read_resource
from agentvm.gateways.mcp.running import CANCELLED, SESSION_HEADER, RunningCall, cancel_call
from agentvm.gateways.routes import Ask, GatewayReply, Lenient
from agentvm.gateways.sse import MEDIA_TYPE
from agentvm.gateways.talk import Talk
from agentvm.operations.http_status import status_of
from agentvm.operations.session_lists import READ as READ_SESSIONS
from agentvm.operations.session_lists import USE

CONTAINER_HEADER = "x-avm-container"
INSTRUCTIONS: Final = (
    "Agents of AgentVM. Each tool ask_… begins a conversation with one agent; its result has a sessionId, with which the "
    "next call continues."
)
_CAPABILITIES: Final[dict[str, dict[str, Any]]] = {"tools": {}, "resources": {}, "prompts": {}}


class InitializeParams(Lenient, frozen=True):
    protocolVersion: str  # A name of the protocol.


class ToolParams(Lenient, frozen=True):
    name: str
    arguments: dict[str, Any] | None = None


async def answer(ask: Ask[McpMessage], talk: Talk) -> GatewayReply:
    """Answers one message of a client."""
    try:
        call = call_of(ask.body, ask.headers)
    except MessageRefused as refused:
        content = error_of(_id(ask.body), refused.code, str(refused), refused.data)
        return GatewayReply(content=content, status=refused.status)
    if call is None:
        if ask.body.method == CANCELLED:
            container_id = talk.container(ask.headers.get(CONTAINER_HEADER))
            await cancel_call(talk, ask.body.params or {}, ask.headers.get(SESSION_HEADER), container_id)
        return GatewayReply(content=None, status=202)
    try:
        return await _answer(call, ask, talk)
    except MessageRefused as refused:
        content = error_of(call.id, refused.code, str(refused), refused.data)
        return GatewayReply(content=content, status=refused.status if call.is_stateless else 200)
    except AgentVMError as error:
        code = code_of(status_of(error))
        if call.is_stateless and code != McpCode.INVALID_PARAMS:
            # As a status, with its headers.
            raise
        about = {"code": error.code} | ({"uri": call.params.get("uri")} if call.method == "resources/read" else {})
        return GatewayReply(content=error_of(call.id, code, str(error), about), status=400 if call.is_stateless else 200)


async def _answer(call: McpCall, ask: Ask[McpMessage], talk: Talk) -> GatewayReply:
    if call.method == "tools/call":
        return await _call_tool(call, ask, talk)
    if call.method == "tools/list":
        return GatewayReply(content=await _list_tools(call, ask, talk))
    own = _STATELESS_METHODS if call.is_stateless else _HANDSHAKE_METHODS
    method = own.get(call.method) or _METHODS.get(call.method)
    if method is None:
        raise MessageRefused(McpCode.METHOD_NOT_FOUND, f"Method not found: {shorten(call.method)}")
    # A name for whoever shakes hands; the era after it has none.
    headers = {SESSION_HEADER: talk.vm.new_id("mcp")} if call.method == "initialize" else {}
    return GatewayReply(content=await method(talk, call), headers=headers)


async def _list_tools(call: McpCall, ask: Ask[McpMessage], talk: Talk) -> dict[str, Any]:
    """Lists the tools that this caller may call."""
    tools: list[dict[str, Any]] = []
    container_id = talk.container(ask.headers.get(CONTAINER_HEADER))
    if (agent := ask.path.get("agent")) is not None:
        talk.principal.require(USE)
        tools.append(ask_tool(await find_agent(talk, agent, container_id)))
    elif talk.principal.may(USE):
        tools += [ask_tool(agent) async for agent in list_agents(talk, container_id)]
    if talk.principal.may(READ_SESSIONS):
        tools += READING_TOOLS
    return call.result({"tools": tools}, keeps_ms=LISTS_MS)


async def _call_tool(call: McpCall, ask: Ask[McpMessage], talk: Talk) -> GatewayReply:
    params, container = call.read(ToolParams), ask.headers.get(CONTAINER_HEADER)
    arguments = params.arguments or {}
    if params.name == SEARCH:
        result = await search_sessions(talk, call, read(arguments, SearchArguments, "arguments"), container)
        return GatewayReply(content=result)
    if params.name == READ:
        return GatewayReply(content=await read_session(talk, call, read(arguments, ReadArguments, "arguments")))
    talk.principal.require(USE)
    container_id, agent = talk.container(container), ask.path.get("agent")
    if agent is None:
        agent = await agent_of(talk, params.name, container_id)
    elif tool_name(agent) != params.name:
        raise ToolNotFound(f"Tool not found: {shorten(params.name)}")
    streams = MEDIA_TYPE in ask.headers.get("accept", "")
    running = RunningCall(talk, None if call.is_stateless else ask.headers.get(SESSION_HEADER), call.id)
    return await ask_agent(talk, call, agent, arguments, container_id, ask.key, running, streams=streams)


async def _discover(talk: Talk, call: McpCall) -> dict[str, Any]:
    about = {
        "supportedVersions": [STATELESS, *reversed(HANDSHAKE)],
        "capabilities": _CAPABILITIES,
        "instructions": INSTRUCTIONS,
    }
    return call.result(about, keeps_ms=LISTS_MS)


async def _initialize(talk: Talk, call: McpCall) -> dict[str, Any]:
    requested = call.read(InitializeParams).protocolVersion
    version = requested if requested in HANDSHAKE else HANDSHAKE[-1]
    about = {"protocolVersion": version, "capabilities": _CAPABILITIES, "serverInfo": SERVER_INFO, "instructions": INSTRUCTIONS}
    return call.result(about)


async def _ping(talk: Talk, call: McpCall) -> dict[str, Any]:
    return call.result({})


def _id(message: McpMessage) -> str | int | None:
    return message.id if isinstance(message.id, str | int) else None


Method = Callable[[Talk, McpCall], Awaitable[dict[str, Any]]]
_METHODS: Final[dict[str, Method]] = {
    "resources/list": list_resources,
    "resources/templates/list": list_templates,
    "resources/read": read_resource,
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
}
_STATELESS_METHODS: Final[dict[str, Method]] = {"server/discover": _discover}
_HANDSHAKE_METHODS: Final[dict[str, Method]] = {"initialize": _initialize, "ping": _ping}
