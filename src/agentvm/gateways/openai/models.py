"""OpenAI models — the agents that a caller can talk to."""

from agentvm.gateways.agents import ListedAgent, find_agent, list_agents
from agentvm.gateways.openai.chat_relay import listed_models, relayed_model
from agentvm.gateways.routes import Ask, GatewayReply, GatewayRoute, NoBody
from agentvm.gateways.talk import Talk

CONTAINER_HEADER = "x-avm-container"


async def list_models(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    talk.principal.require("agent:use")
    container_id = talk.container(ask.headers.get(CONTAINER_HEADER))
    models = [_model(talk, agent) async for agent in list_agents(talk, container_id)]
    models += [_model(talk, ListedAgent(name=name)) for name in listed_models(talk)]
    return GatewayReply(content={"object": "list", "data": models})


async def show_model(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    talk.principal.require("agent:use")
    container_id = talk.container(ask.headers.get(CONTAINER_HEADER))
    if (model := relayed_model(talk, ask.path["model"])) is not None:
        return GatewayReply(content=_model(talk, ListedAgent(name=model)))
    return GatewayReply(content=_model(talk, await find_agent(talk, ask.path["model"], container_id)))


def _model(talk: Talk, agent: ListedAgent) -> dict[str, object]:
    return {
        "id": agent.name,
        "object": "model",
        "created": agent.created_at // 1000,
        "owned_by": talk.principal.tenant_id,
        "name": agent.description or agent.name,
    }


MODEL_ROUTES = (
    GatewayRoute(method="GET", path="/models", handler=list_models),
    GatewayRoute(method="GET", path="/models/{model:path}", handler=show_model, names={"model": "image_id"}),
)
