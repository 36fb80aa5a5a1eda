"""A2A — the Agent2Agent protocol 1.0, by its JSON-RPC binding: an agent is a card, a turn is a task, a session a context."""

from agentvm.gateways.a2a.card import is_default_published, is_published, show_card, show_default_card
from agentvm.gateways.a2a.errors import shape
from agentvm.gateways.a2a.messages import A2aMessage
from agentvm.gateways.a2a.methods import answer
from agentvm.gateways.routes import Gateway, GatewayRoute

_AGENT = {"agent": "image_id"}
_CARD = "/.well-known/agent-card.json"

A2A = Gateway(
    name="a2a",
    prefixes=("/a2a",),
    routes=(
        GatewayRoute(method="GET", path=f"/{{agent}}{_CARD}", handler=show_card, names=_AGENT, is_public=is_published),
        GatewayRoute(method="POST", path="/{agent}", handler=answer, body=A2aMessage, names=_AGENT),
    ),
    roots=(GatewayRoute(method="GET", path=_CARD, handler=show_default_card, is_public=is_default_published),),
    shape=shape,
)
