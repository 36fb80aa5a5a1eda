"""Messages — send, edit, regenerate: stored, answered, and only then a turn starts."""

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from agentvm.errors import AgentBusy, InvalidInput, NotFound, SessionNotFound, ShuttingDown
from agentvm.model.ids import AgentId, ImageId, MessageId, SessionId
from agentvm.model.message import UserContent
from agentvm.model.turn import OnParked, OutputFormat, TurnOptions
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.text_answer import TEXT_ANSWER_MAX, answer_open_waits, parse_answer
from agentvm.protocol.bounds import Bound
from agentvm.protocol.requests import Reply, Request

if TYPE_CHECKING:
    from agentvm.runtime.agent import Agent
    from agentvm.sessions.sender import SentMessage

operation = OperationGroup("branches")

USE = "agent:use"
_ONE = "/v1/sessions/{session_id}"
_REFUSES = (SessionNotFound, NotFound, AgentBusy, ShuttingDown)

MESSAGE_BOUND = Bound(max_bytes=47 * 1024 * 1024, max_values=20_000)
"""Pictures travel inside messages, as base64. The size of one message is a setting: see `agentvm.model.limits`."""

ClientKey = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
OnBusy = Literal["reject", "interrupt"]
"""While a turn runs: refuse, or stop it and those that wait."""


class MessageSendReply(Reply):
    """Accepted and stored; the answer comes as events, all of them after `cursor`."""

    agent_id: str
    image_id: ImageId | None = None
    message_id: str | None = None
    turn_id: str | None = None
    session_id: SessionId | None = None
    cursor: str | None = None


class MessageSend(Request[MessageSendReply]):
    """To an image (its default session unless `session_id` says otherwise), or to a running agent."""

    bound = MESSAGE_BOUND
    content: UserContent
    image_id: ImageId | None = None
    agent_id: AgentId | None = None
    session_id: SessionId | None = None
    client_message_id: ClientKey | None = None
    """The sender's own name for the message: sending it again answers as the first time and begins no second turn."""
    on_busy: Literal["queue", "interrupt", "reject"] = "queue"
    """While another turn runs: wait for it, stop it, or refuse this message."""
    on_parked: OnParked = "supersede"
    """While a turn of the session waits for answers: end it, wait for it, or refuse this message."""

    options: TurnOptions | None = None
    """Chosen for this turn instead of the image's values, as far as its definition lets the sender choose (`turnOptions`)."""
    output: OutputFormat | None = None
    """The answer is JSON that fits this schema: `output` of `turn_response`. Else the turn fails with `output_misfit`."""

    def refused(self) -> Reply:
        return MessageSendReply(agent_id=self.agent_id or "", image_id=self.image_id)


@operation("message.send", needs=USE, command=True)
async def send(context: Context, request: MessageSend) -> MessageSendReply:
    """Send a message to an agent. Its answer comes as events."""
    sender = context.sender
    sender.check_accepting()
    if not request.content:
        raise InvalidInput("content must not be empty")
    agent = await _addressee(context, request)
    with agent.in_use():
        if (answered := await answer_by_text(context, agent, request.content, request.client_message_id)) is not None:
            return answered
        sent = await sender.send(
            agent,
            request.content,
            client_key=request.client_message_id,
            on_busy=request.on_busy,
            on_parked=request.on_parked,
            options=with_output(request.options, request.output),
        )
        return _accepted(context, sent)


def with_output(options: TurnOptions | None, output: OutputFormat | None) -> TurnOptions | None:
    """Returns the options of a turn with the form of its answer; `InvalidInput` if both name one."""
    if output is None:
        return options
    if options is not None and options.output is not None:
        raise InvalidInput("Set output once: as a field of the request or in options")
    return msgspec.structs.replace(options or TurnOptions(), output=output)


async def answer_by_text(
    context: Context, agent: "Agent", content: UserContent, client_key: str | None
) -> MessageSendReply | None:
    """Answers the calls of the session that wait, if the message is such an answer, and the tenant allows that."""
    words = parse_answer(content) if isinstance(content, str) and len(content) <= TEXT_ANSWER_MAX else None
    if words is None or context.vm.runtime.settings_of(context.tenant_id).tools.answer_by_text == "off":
        return None
    turn_id = await answer_open_waits(context, agent.container_id, agent.session_id, words, client_key)
    if turn_id is None:
        return None
    return MessageSendReply(agent_id=agent.agent_id, image_id=agent.image_id, turn_id=turn_id, session_id=agent.session_id)


class MessageEdit(Request[MessageSendReply]):
    """`onBusy: interrupt` stops a turn that runs; else the edit is refused. `clientMessageId` makes a repeated edit one."""

    bound = MESSAGE_BOUND
    session_id: SessionId
    message_id: MessageId
    content: UserContent
    client_message_id: ClientKey | None = None
    on_busy: OnBusy = "reject"
    options: TurnOptions | None = None
    """Chosen for the new turn; by default the options of the message that is replaced."""


@operation(
    "message.edit",
    needs=USE,
    command=True,
    http=Http("POST", f"{_ONE}/edit", status=202, id="branches_edit", names=("EditRequest", "Spoken")),
    audit="session.edit",
    raises=_REFUSES,
)
async def edit(context: Context, request: MessageEdit) -> MessageSendReply:
    """Replace a user's message.

    Later messages are removed from the history in the same commit and kept, and a turn begins.
    """
    await _listen(context, request.session_id)
    sent = await context.branches.edit(
        request.session_id,
        request.message_id,
        request.content,
        client_key=request.client_message_id,
        on_busy=request.on_busy,
        options=request.options,
    )
    return _accepted(context, sent)


class MessageRegenerate(Request[MessageSendReply]):
    """Asks again the question that `messageId` answers, by default the last one."""

    session_id: SessionId
    message_id: MessageId | None = None
    client_message_id: ClientKey | None = None
    on_busy: OnBusy = "reject"
    options: TurnOptions | None = None
    """Chosen for the new turn; by default the options of the question."""


@operation(
    "message.regenerate",
    needs=USE,
    command=True,
    http=Http("POST", f"{_ONE}/regenerate", status=202, id="branches_regenerate", names=("RegenerateRequest", "Spoken")),
    audit="session.regenerate",
    raises=_REFUSES,
)
async def regenerate(context: Context, request: MessageRegenerate) -> MessageSendReply:
    """Regenerate an answer. The old one is kept and can be viewed."""
    await _listen(context, request.session_id)
    sent = await context.branches.regenerate(
        request.session_id,
        request.message_id,
        client_key=request.client_message_id,
        on_busy=request.on_busy,
        options=request.options,
    )
    return _accepted(context, sent)


def _accepted(context: Context, sent: "SentMessage") -> MessageSendReply:
    """The turn starts after its sender was answered."""
    context.after.append(sent.release)
    agent = sent.agent
    return MessageSendReply(
        agent_id=agent.agent_id,
        image_id=agent.image_id,
        message_id=sent.message_id,
        turn_id=sent.turn_id,
        session_id=agent.session_id,
        cursor=sent.cursor,
    )


async def _listen(context: Context, session_id: SessionId) -> None:
    """Subscribed before the agent starts, so that the sender receives all events."""
    context.subscribe((await context.workspace.session(session_id))[1])


async def _addressee(context: Context, request: MessageSend) -> "Agent":
    runtime, tenant_id = context.vm.runtime, context.tenant_id
    if request.session_id and not request.image_id and not request.agent_id:
        _, session = await context.workspace.session(request.session_id)
        request = msgspec.structs.replace(request, image_id=session.image_id)
    if request.image_id:
        # No read for an agent in memory: it knows its image, and the commit finds out what is gone.
        awake = runtime.roster.awake(tenant_id, request.image_id, request.session_id)
        if awake is not None and context.principal.reaches(awake.container_id):
            context.listen(awake.container_id, awake.session_id)
            return awake
        store, image = await context.workspace.image(request.image_id)
        session_id = request.session_id or image.session_id
        if request.session_id:
            own = await store.get_session(request.session_id)
            if own is None or own.image_id != image.image_id:
                raise SessionNotFound(request.session_id)
        # Joined before the agent starts, so that its sender hears `agent_registered`.
        context.listen(image.container_id, session_id)
        return runtime.start_agent(tenant_id, image, session_id)[0]
    if request.agent_id:
        agent = await context.agent(request.agent_id)
        context.listen(agent.container_id, agent.session_id)
        return agent
    raise InvalidInput("Either imageId or agentId must be provided")
