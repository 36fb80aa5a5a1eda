"""Message commands — a user says something: committed, answered, and only then a turn starts."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from agentvm.commands.call import Call
from agentvm.errors import AgentBusy, InvalidInput, SessionNotFound, ShuttingDown
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import UserContent
from agentvm.protocol import commands as ask
from agentvm.runtime import attached
from agentvm.runtime.agent import Agent


async def send(call: Call, command: ask.MessageSend) -> ask.MessageSendReply:
    if not call.peer.runtime.accepting:
        raise ShuttingDown("The server is shutting down; reconnect and try again")
    if not command.content:
        raise InvalidInput("content must not be empty")
    agent = await _addressee(call, command)
    call.peer.listen(agent.container_id, agent.session_id)
    with agent.in_use():
        return await _send(call, command, agent)


async def _send(call: Call, command: ask.MessageSend, agent: Agent) -> ask.MessageSendReply:
    async with agent.sending(command.client_message_id) as earlier:
        if earlier is not None:
            return _reply(agent, earlier.message_id, earlier.turn_id)
        # Before somebody's turn is interrupted for it; the agent looks once more.
        files = call.peer.store.container(agent.container_id).attachments
        await attached.check(files, command.content, call.peer.runtime.limits_of(call.peer.tenant_id).attachments_per_message)
        await _make_way(call, command, agent)
        try:
            async with _within_quotas(call, command, agent):
                accepted = await agent.receive(command.content, command.client_message_id, call.peer.principal.user_id)
        except SessionNotFound:
            # The image was deleted after the agent was found or started; nobody else would end it.
            await call.peer.runtime.stop_agent(agent)
            raise
    call.after.append(lambda: agent.release(accepted))
    return _reply(agent, accepted.state.user_message_id, accepted.state.turn_id, str(accepted.cursor))


@asynccontextmanager
async def _within_quotas(call: Call, command: ask.MessageSend, agent: Agent) -> AsyncIterator[None]:
    """To be left when the message is in the agent's inbox. A tenant with such limits sends one message after the other."""
    peer, quotas = call.peer, call.peer.office.quotas
    who = (peer.tenant_id, peer.principal.user_id)

    async def running() -> int:
        # One that runs already is not one more.
        return -1 if agent.busy else peer.runtime.roster.count_running(peer.tenant_id)

    async def waiting() -> int:
        return peer.runtime.roster.count_waiting(peer.tenant_id) if agent.busy else -1

    async with (
        quotas.adding(*who, "running_agents", running),
        quotas.adding(*who, "queued_messages", waiting),
    ):
        await peer.check_quota("storage_bytes", peer.accounts.quotas.storage_bytes, _size(command.content))
        yield


def _size(content: UserContent) -> int:
    """In bytes, as it is stored."""
    return len(msgspec.json.encode(content))


async def _make_way(call: Call, command: ask.MessageSend, agent: Agent) -> None:
    if not agent.busy:
        return
    match command.on_busy:
        case "queue":
            return
        case "reject":
            raise AgentBusy("Another turn is running; wait for its end, or send with onBusy queue or interrupt")
        case "interrupt":
            current = await agent.interrupt()
            call.after.append(lambda: agent.cancel(current))


def _reply(agent: Agent, message_id: MessageId, turn_id: TurnId, cursor: str | None = None) -> ask.MessageSendReply:
    return ask.MessageSendReply(
        agent_id=agent.agent_id,
        image_id=agent.image_id,
        message_id=message_id,
        turn_id=turn_id,
        session_id=agent.session_id,
        cursor=cursor,
    )


async def _addressee(call: Call, command: ask.MessageSend) -> Agent:
    runtime, tenant_id = call.peer.runtime, call.peer.tenant_id
    if command.image_id:
        store, image = await call.image(command.image_id)
        session_id = command.session_id or image.session_id
        if command.session_id:
            session = await store.get_session(command.session_id)
            if session is None or session.image_id != image.image_id:
                raise SessionNotFound(command.session_id)
        # Joined before the agent starts, so that its sender hears `agent_registered`.
        call.peer.listen(image.container_id, session_id)
        return runtime.start_agent(tenant_id, image, session_id)[0]
    if command.agent_id:
        return await call.agent(command.agent_id)
    raise InvalidInput("Either imageId or agentId must be provided")
