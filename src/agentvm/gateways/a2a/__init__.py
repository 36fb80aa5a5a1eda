"""A2A — the Agent2Agent protocol 1.0, by its JSON-RPC binding: an agent is a card, a turn is a task, a session a context."""

from agentvm.gateways.a2a.card import show_card
from agentvm.gateways.a2a.errors import shape
from agentvm.gateways.a2a.messages import A2aMessage
from agentvm.gateways.a2a.methods import answer
from agentvm.gateways.routes import Gateway, GatewayRoute

_AGENT = {"agent": "image_id"}

A2A = Gateway(
    name="a2a",
    prefixes=("/a2a",),
    routes=(
        GatewayRoute(method="GET", path="/{agent}/.well-known/agent-card.json", handler=show_card, names=_AGENT),
        GatewayRoute(method="POST", path="/{agent}", handler=answer, body=A2aMessage, names=_AGENT),
    ),
    shape=shape,
)
