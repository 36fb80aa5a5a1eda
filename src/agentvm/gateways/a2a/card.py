"""A2A card — an agent as others find it: its name, address and abilities."""

import hashlib
from collections.abc import Mapping
from urllib.parse import quote

import msgspec

from agentvm.errors import NotFound
from agentvm.gateways.a2a.messages import OUTPUT_MODES
from agentvm.gateways.agents import find_agent
from agentvm.gateways.routes import Ask, GatewayReply, NoBody
from agentvm.gateways.talk import Talk
from agentvm.gateways.threads import CONTAINER_HEADER
from agentvm.model.gateway_settings import GatewaySettings
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.version import VERSION

PROTOCOL = "1.0"
_DIGEST_CHARACTERS = 32


async def show_card(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Answers with the card of an agent that the caller may use, or that is published."""
    return await _card(ask, talk, ask.path["agent"])


async def show_default_card(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Answers with the card of the agent that the operator has chosen for the whole server."""
    talk.principal.require("agent:use")
    name = talk.vm.config.gateways.a2a.default
    if name is None:
        raise NotFound("No agent is chosen for the card of this server; see gateways.a2a.default")
    return await _card(ask, talk, name)


def is_published(settings: GatewaySettings, path: Mapping[str, str]) -> bool:
    return path["agent"] in settings.a2a.published


def is_default_published(settings: GatewaySettings, path: Mapping[str, str]) -> bool:
    return settings.a2a.default in settings.a2a.published


async def _card(ask: Ask[NoBody], talk: Talk, name: str) -> GatewayReply:
    talk.principal.require("agent:use")
    agent = await find_agent(talk, name, talk.container(ask.headers.get(CONTAINER_HEADER)))
    origin = talk.vm.config.system.public_url or ask.origin
    about = agent.description or f"The agent {agent.name}."
    card = {
        "name": agent.name,
        "description": about,
        "version": VERSION,
        "supportedInterfaces": [
            {
                "url": f"{origin.rstrip('/')}/a2a/{quote(name, safe='')}/",
                "protocolBinding": "JSONRPC",
                "protocolVersion": PROTOCOL,
            }
        ],
        "capabilities": {"streaming": True, "pushNotifications": False},
        "defaultInputModes": ["text/plain", "application/json", "image/*"],
        "defaultOutputModes": [*OUTPUT_MODES],
        "skills": [{"id": "chat", "name": agent.name, "description": about, "tags": ["chat"]}],
        "securitySchemes": {"bearer": {"httpAuthSecurityScheme": {"scheme": "Bearer"}}},
        "securityRequirements": [{"schemes": {"bearer": {"list": []}}}],
    }
    content = msgspec.json.encode(card)
    tag = f'W/"{hashlib.sha256(content).hexdigest()[:_DIGEST_CHARACTERS]}"'
    # Another tenant may have an agent of its own under a name that is published: its card is nobody else's.
    is_public = name in talk.vm.config.gateways.a2a.published and talk.principal.tenant_id == DEFAULT_TENANT
    cache_control = f"{'public' if is_public else 'private'}, max-age=60"
    headers = {"ETag": tag, "Cache-Control": cache_control, "Vary": "Authorization, Cookie"}
    if tag in ask.headers.get("if-none-match", ""):
        return GatewayReply(content=None, status=304, headers=headers)
    return GatewayReply(content=content, headers=headers)
