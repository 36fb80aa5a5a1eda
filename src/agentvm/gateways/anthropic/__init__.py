"""Anthropic — the Messages API, as Claude Code and the official clients ask for it: models themselves, without an agent."""

from agentvm.gateways.anthropic.errors import shape
from agentvm.gateways.anthropic.messages import MESSAGE_ROUTES
from agentvm.gateways.routes import Gateway

ANTHROPIC = Gateway(name="anthropic", prefixes=("/anthropic",), routes=MESSAGE_ROUTES, shape=shape, key_headers=("x-api-key",))
