"""LangGraph assistants — the agents that a caller can talk to, each a graph of one node."""

from typing import Any

from agentvm.gateways.agents import ListedAgent, find_agent, list_agents
from agentvm.gateways.langgraph.messages import moment
from agentvm.gateways.langgraph.threads import container_of
from agentvm.gateways.routes import Ask, GatewayReply, GatewayRoute, Lenient, NoBody
from agentvm.gateways.talk import Talk
from agentvm.version import VERSION

_MESSAGES = {"type": "object", "properties": {"messages": {"type": "array", "items": {"type": "object"}}}}
_OPTIONS = {
    "type": "object",
    "properties": {"model": {"type": "string"}, "temperature": {"type": "number"}, "max_tokens": {"type": "integer"}},
}
_NODES = ("__start__", "agent", "tools", "__end__")
_EDGES = (("__start__", "agent", False), ("agent", "tools", True), ("agent", "__end__", True), ("tools", "agent", False))
NAMES = {"assistant": "image_id"}


class AssistantSearchBody(Lenient, frozen=True):
    graph_id: str | None = None
    name: str | None = None
    metadata: dict[str, Any] | None = None
    limit: int = 10
    offset: int = 0


def _assistant(agent: ListedAgent) -> dict[str, Any]:
    return {
        "assistant_id": agent.name,
        "graph_id": agent.name,
        "name": agent.name,
        "description": agent.description,
        "config": {},
        "context": {},
        "metadata": {"created_by": "system"},
        "version": 1,
        "created_at": moment(agent.created_at),
        "updated_at": moment(agent.created_at),
    }


async def _list(ask: Ask[AssistantSearchBody], talk: Talk) -> list[dict[str, Any]]:
    body, container_id = ask.body, container_of(ask, talk)
    metadata = {name: value for name, value in (body.metadata or {}).items() if name != "created_by"}
    agents = [agent async for agent in list_agents(talk, container_id)]
    return [
        _assistant(agent)
        for agent in agents
        if body.graph_id in (None, agent.name) and (body.name or "").lower() in agent.name.lower() and not metadata
    ]


async def search(ask: Ask[AssistantSearchBody], talk: Talk) -> GatewayReply:
    assistants = await _list(ask, talk)
    end = max(0, ask.body.offset) + max(0, ask.body.limit)
    headers = {"X-Pagination-Total": str(len(assistants))}
    if end < len(assistants):
        headers["X-Pagination-Next"] = str(end)
    return GatewayReply(content=assistants[max(0, ask.body.offset) : end], headers=headers)


async def count(ask: Ask[AssistantSearchBody], talk: Talk) -> GatewayReply:
    return GatewayReply(content=len(await _list(ask, talk)))


async def _find(ask: Ask[NoBody], talk: Talk) -> ListedAgent:
    return await find_agent(talk, ask.path["assistant"], container_of(ask, talk))


async def get(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    return GatewayReply(content=_assistant(await _find(ask, talk)))


async def schemas(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    agent = await _find(ask, talk)
    shapes = dict.fromkeys(("input_schema", "output_schema", "state_schema"), _MESSAGES)
    return GatewayReply(content={"graph_id": agent.name, **shapes, "config_schema": _OPTIONS, "context_schema": _OPTIONS})


async def graph(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    await _find(ask, talk)
    nodes = [{"id": name, "type": "runnable", "data": {"name": name}} for name in _NODES]
    edges = [{"source": source, "target": target, "conditional": is_choice} for source, target, is_choice in _EDGES]
    return GatewayReply(content={"nodes": nodes, "edges": edges})


async def subgraphs(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    await _find(ask, talk)
    return GatewayReply(content={})


async def info(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    container_of(ask, talk)
    flags = {"assistants": True, "crons": False, "langsmith": False, "langsmith_tracing_replicas": False}
    return GatewayReply(content={"version": VERSION, "flags": flags, "host": {"kind": "self-hosted"}, "metadata": {}})


async def ok(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    container_of(ask, talk)
    return GatewayReply(content={"ok": True})


_ONE = "/assistants/{assistant}"
ASSISTANT_ROUTES = (
    GatewayRoute(method="GET", path="/ok", handler=ok),
    GatewayRoute(method="GET", path="/info", handler=info),
    GatewayRoute(method="POST", path="/assistants/search", handler=search, body=AssistantSearchBody),
    GatewayRoute(method="POST", path="/assistants/count", handler=count, body=AssistantSearchBody),
    GatewayRoute(method="GET", path=_ONE, handler=get, names=NAMES),
    GatewayRoute(method="GET", path=f"{_ONE}/schemas", handler=schemas, names=NAMES),
    GatewayRoute(method="GET", path=f"{_ONE}/graph", handler=graph, names=NAMES),
    GatewayRoute(method="GET", path=f"{_ONE}/subgraphs", handler=subgraphs, names=NAMES),
)
