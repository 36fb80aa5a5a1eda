"""Every way to name something of a tenant through a gateway: by the path, by the body, by a header."""

from collections.abc import Callable, Iterator

import msgspec
from tests.gateways.langgraph.bodies import LANGGRAPH_BODIES, run_of
from tests.gateways.mcp.fixtures import stateless

from agentvm.gateways.a2a.messages import A2aMessage
from agentvm.gateways.agui.run_body import AgUiBody
from agentvm.gateways.ai_sdk.chat_body import UiChatBody
from agentvm.gateways.anthropic.message_body import MessagesBody
from agentvm.gateways.langgraph.commands import COMMANDS, CommandBody
from agentvm.gateways.langgraph.errors import refuse
from agentvm.gateways.langgraph.run_body import RunBody
from agentvm.gateways.mcp.messages import McpMessage
from agentvm.gateways.openai.chat_body import ChatBody
from agentvm.gateways.openai.conversations import ConversationBody
from agentvm.gateways.openai.response_body import ResponseBody
from agentvm.gateways.routes import GatewayRoute, GatewaySocket, Lenient, NoBody
from agentvm.server.http.gateways import GATEWAYS


def gateway_routes() -> Iterator[tuple[str, str, GatewayRoute]]:
    """Yields every route of a gateway, below each of its prefixes: method, template of the path, and the route."""
    for gateway in GATEWAYS:
        for path, route in gateway.paths():
            yield route.method, path, route


def gateway_sockets() -> Iterator[tuple[str, GatewaySocket]]:
    """Yields every socket of a gateway, below each of its prefixes: the template of its path, and the socket."""
    for gateway in GATEWAYS:
        yield from ((f"{prefix}{socket.path}", socket) for prefix in gateway.prefixes for socket in gateway.sockets)


def socket_attempts(names: dict[str, str]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yields each way to aim at a tenant through a socket of a gateway: a path and a frame."""
    for path, socket in gateway_sockets():
        for name, meaning in socket.names.items():
            path = path.replace(f"{{{name}}}", names[meaning])
        assert socket.body is CommandBody, "say here what the frames of this socket are"
        yield path, {"id": 1, "method": "subscription.subscribe", "params": {"channels": ["messages"]}}
        yield path, {"id": 1, "method": "run.start", "params": run_of(names)}
        for body in command_bodies():
            yield path, body


def command_bodies() -> Iterator[dict[str, object]]:
    """The commands to a thread, with an agent of the caller's own."""
    said = {"assistant_id": "default", "input": {"messages": "x"}, "message": "x"}
    params = {**said, "interrupt_id": "wait_x", "checkpoint_id": "x"}
    # With an agent of the caller's own, a run would create a thread of that name.
    for command in (name for name in COMMANDS if name != "run.start"):
        yield {"id": 1, "method": command, "params": params}


GATEWAY_BODIES: dict[type[Lenient], Callable[[dict[str, str]], dict[str, object]]] = {
    **{kind: lambda names: {} for kind in (NoBody, ConversationBody)},
    A2aMessage: lambda names: {"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": names["turn_id"]}},
    AgUiBody: lambda names: {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": "x"}]},
    UiChatBody: lambda names: {"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": "x"}]}]},
    **LANGGRAPH_BODIES,
    ChatBody: lambda names: {"model": names["image_id"], "messages": [{"role": "user", "content": "x"}]},
    MessagesBody: lambda names: {"model": names["image_id"], "messages": [], "max_tokens": 1},
    McpMessage: lambda names: mcp_body(names["image_id"], {"message": "x"}),
    ResponseBody: lambda names: {"model": names["image_id"], "input": "x", "previous_response_id": names["response_id"]},
}
"""A body of each kind that names something of a tenant."""


def gateway_body(method: str, route: GatewayRoute, names: dict[str, str]) -> dict[str, object] | None:
    takes_body = method in ("POST", "PUT", "PATCH") or route.body is not NoBody
    return GATEWAY_BODIES[route.body](names) if takes_body else None


def mcp_body(agent: str, arguments: dict[str, str]) -> dict[str, object]:
    return stateless("tools/call", name=f"ask_{agent}", arguments=arguments)[0]


def mcp_attempts(names: dict[str, str]) -> Iterator[dict[str, object]]:
    """Yields each way to name something of a tenant in a message."""
    yield stateless("tools/call", name="ask_default", arguments={"message": "x", "session_id": names["session_id"]})[0]
    yield stateless("tools/call", name="read_session", arguments={"id": names["session_id"]})[0]
    yield stateless("resources/read", uri=f"session://{names['session_id']}")[0]
    yield stateless("resources/read", uri=names["uri"])[0]
    yield stateless("prompts/get", name=f"{names['tenant']}/private")[0]


def a2a_attempts(names: dict[str, str]) -> Iterator[dict[str, object]]:
    """Yields each way to name a task of a tenant, of an agent that the caller has as well."""
    for method in ("GetTask", "CancelTask", "SubscribeToTask"):
        yield {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"id": names["turn_id"]}}
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}], "taskId": names["turn_id"]}
    for method in ("SendMessage", "SendStreamingMessage"):
        yield {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}


def gateway_headers(body: object) -> list[tuple[bytes, bytes]]:
    """The headers that repeat a message."""
    if not isinstance(body, dict) or "jsonrpc" not in body:
        return []
    about = stateless(str(body["method"]), **{name: value for name, value in body["params"].items() if name != "_meta"})[1]
    return [(name.encode(), value.encode()) for name, value in about.items()]


def gateway_attempts(names: dict[str, str]) -> Iterator[tuple[str, str, str, object, list[tuple[bytes, bytes]]]]:
    """Yields each way to aim at a tenant through a gateway: by the path, by the body, by a header."""
    for method, path, route in gateway_routes():
        filled = path
        for name, meaning in route.names.items():
            filled = filled.replace(f"{{{name}}}", names[meaning]).replace(f"{{{name}:path}}", names[meaning])
        is_told = "{" not in filled.replace("{checkpoint}", "") or route.handler is refuse
        assert is_told, f"{method} {path}: say in the names of the route what those of its path mean"
        body = gateway_body(method, route, names)
        # A body that names nothing is that of a list, which is the asker's own.
        if filled != path or any(name in msgspec.json.encode(body).decode() for name in names.values()):
            yield path, method, filled, body, gateway_headers(body)
        if body is not None and "previous_response_id" in body:
            about: dict[str, object] = {"model": "default", "input": "x", "conversation": names["conversation_id"]}
            yield path, method, filled, about, []
            reference = {"type": "item_reference", "id": f"msg_{names['turn_id']}_0"}
            yield path, method, filled, {"model": "default", "input": [reference, {"role": "user", "content": "x"}]}, []
        if route.body is CommandBody:
            for command in command_bodies():
                yield path, method, filled, command, []
        if route.body is A2aMessage:
            for message in a2a_attempts(names):
                yield path, method, filled.replace(names["image_id"], "default"), message, []
        if route.body is RunBody and route.names:
            # With an agent of the caller's own, in a thread of somebody else.
            yield path, method, filled, {**run_of(names), "assistant_id": "default"}, []
        if route.body is McpMessage:
            for message in mcp_attempts(names):
                yield path, method, filled.replace(names["image_id"], "default"), message, gateway_headers(message)
        if body is not None and "model" in body:
            header = (b"x-avm-session", names["session_id"].encode())
            yield path, method, filled, {**body, "model": "default"}, [header]
