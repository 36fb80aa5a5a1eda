"""Message commands — a user says something: committed, answered, and only then a turn starts."""

from collections.abc import Awaitable, Callable

from agentvm.commands.call import Call
from agentvm.errors import AgentBusy, InvalidInput, SessionNotFound
from agentvm.model.ids import SessionId
from agentvm.protocol import commands as ask
from agentvm.runtime.agent import Agent
from agentvm.sessions.sender import SentMessage


async def send(call: Call, command: ask.MessageSend) -> ask.MessageSendReply:
    sender = call.sender
    sender.check_accepting()
    if not command.content:
        raise InvalidInput("content must not be empty")
    agent = await _addressee(call, command)
    call.peer.listen(agent.container_id, agent.session_id)
    with agent.in_use():
        return answered(call, await sender.say(agent, command.content, command.client_message_id, _way(call, command, agent)))


async def edit(call: Call, command: ask.MessageEdit) -> ask.MessageSendReply:
    await _listen(call, command.session_id)
    return answered(
        call,
        await call.branches.edit(
            command.session_id,
            command.message_id,
            command.content,
            client_key=command.client_message_id,
            on_busy=command.on_busy,
        ),
    )


async def regenerate(call: Call, command: ask.MessageRegenerate) -> ask.MessageSendReply:
    await _listen(call, command.session_id)
    return answered(
        call,
        await call.branches.regenerate(
            command.session_id, command.message_id, client_key=command.client_message_id, on_busy=command.on_busy
        ),
    )


def answered(call: Call, sent: SentMessage) -> ask.MessageSendReply:
    """The turn starts after its sender was answered."""
    call.after.append(sent.release)
    agent = sent.agent
    return ask.MessageSendReply(
        agent_id=agent.agent_id,
        image_id=agent.image_id,
        message_id=sent.message_id,
        turn_id=sent.turn_id,
        session_id=agent.session_id,
        cursor=sent.cursor,
    )


async def _listen(call: Call, session_id: SessionId) -> None:
    """Joined before the agent starts, so that its sender hears all of it."""
    call.peer.subscribe((await call.workspace.session(session_id))[1])


def _way(call: Call, command: ask.MessageSend, agent: Agent) -> Callable[[], Awaitable[None]]:
    async def make_way() -> None:
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

    return make_way


async def _addressee(call: Call, command: ask.MessageSend) -> Agent:
    runtime, tenant_id = call.peer.vm.runtime, call.peer.tenant_id
    if command.image_id:
        # Whoever talks on need not be looked up: an agent in memory knows its image, and a commit finds out what is gone.
        awake = runtime.roster.awake(tenant_id, command.image_id, command.session_id)
        if awake is not None and call.peer.principal.reaches(awake.container_id):
            return awake
        store, image = await call.workspace.image(command.image_id)
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
