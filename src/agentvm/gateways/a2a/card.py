"""A2A card — an agent as others find it: its name, its address, and what it can do."""

import hashlib
from urllib.parse import quote

import msgspec

from agentvm.gateways.agents import find_agent
from agentvm.gateways.routes import Ask, GatewayReply, NoBody
from agentvm.gateways.talk import Talk
from agentvm.gateways.threads import CONTAINER_HEADER
from agentvm.version import VERSION

PROTOCOL = "1.0"
_DIGEST_CHARACTERS = 32


async def show_card(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Answers with the card of an agent that the caller may use."""
    talk.principal.require("agent:use")
    agent = await find_agent(talk, ask.path["agent"], talk.container(ask.headers.get(CONTAINER_HEADER)))
    origin = talk.vm.config.system.public_url or ask.origin
    about = agent.description or f"The agent {agent.name}."
    card = {
        "name": agent.name,
        "description": about,
        "version": VERSION,
        "supportedInterfaces": [
            {
                "url": f"{origin.rstrip('/')}/a2a/{quote(ask.path['agent'], safe='')}/",
                "protocolBinding": "JSONRPC",
                "protocolVersion": PROTOCOL,
            }
        ],
        "capabilities": {"streaming": True, "pushNotifications": False},
        "defaultInputModes": ["text/plain", "application/json", "image/*"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "chat", "name": agent.name, "description": about, "tags": ["chat"]}],
        "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
    }
    content = msgspec.json.encode(card)
    tag = f'W/"{hashlib.sha256(content).hexdigest()[:_DIGEST_CHARACTERS]}"'
    headers = {"ETag": tag, "Cache-Control": "private, max-age=60"}
    if tag in ask.headers.get("if-none-match", ""):
        return GatewayReply(content=None, status=304, headers=headers)
    return GatewayReply(content=content, headers=headers)
