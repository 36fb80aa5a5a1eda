"""Sending — one message under a sender's key, however often it is sent."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from agentvm.model.turn import Turn

if TYPE_CHECKING:
    from agentvm.runtime.agent import Agent


@asynccontextmanager
async def sending(agent: "Agent", client_key: str | None) -> AsyncIterator[Turn | None]:
    """One send at a time under a key; yields the turn that an earlier one with this key began."""
    if client_key is None:
        yield None
        return
    # Not the agent's own: another of the same session may come while this one is being stopped.
    async with agent.ports.sending.hold((agent.tenant_id, agent.session_id, client_key)):
        yield await agent.container.log(agent.session_id).find_turn(client_key)
