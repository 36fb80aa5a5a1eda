"""Message commands — a user says something: committed, answered, and only then a turn starts."""

from agentvm.commands.call import Call
from agentvm.errors import AgentNotFound, InvalidInput, SessionNotFound, ShuttingDown
from agentvm.protocol import commands as ask
from agentvm.runtime.agent import Agent


async def send(call: Call, command: ask.MessageSend) -> ask.MessageSendReply:
    if not call.peer.runtime.accepting:
        raise ShuttingDown("The server is shutting down; reconnect and try again")
    if not command.content:
        raise InvalidInput("content must not be empty")
    agent = await _addressee(call, command)
    call.peer.listen(agent.image.container_id, agent.session_id)
    try:
        accepted = await agent.receive(command.content)
    except SessionNotFound:
        # The image was deleted after the agent was found or started; nobody else would end it.
        await call.peer.runtime.stop_agent(agent)
        raise
    call.after.append(lambda: agent.release(accepted))
    return ask.MessageSendReply(
        agent_id=agent.agent_id,
        image_id=agent.image.image_id,
        message_id=accepted.state.user_message_id,
        turn_id=accepted.state.turn_id,
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
        agent = runtime.find_agent(tenant_id, command.agent_id)
        if agent is None:
            raise AgentNotFound(command.agent_id)
        return agent
    raise InvalidInput("Either imageId or agentId must be provided")
