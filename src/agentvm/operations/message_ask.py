"""Asking over HTTP — send a message and wait for the answer, or receive its events as they happen."""

from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from agentvm.errors import AgentBusy, InvalidInput, NotFound, SessionNotFound, ShuttingDown, Unprocessable, not_found
from agentvm.events.error import ErrorOccurred
from agentvm.events.message import AssistantMessageEvent
from agentvm.events.turn import TurnParked, TurnResponse, TurnStop
from agentvm.model.base import Record
from agentvm.model.ids import ImageId, MessageId, SessionId, TurnId
from agentvm.model.message import AssistantMessage, Citation, UserContent, UserMessage
from agentvm.model.session import EXTERNAL_MAX
from agentvm.model.turn import OnParked, OutputFormat, TurnOptions, TurnOutcome
from agentvm.model.usage import Usage
from agentvm.model.wait import WaitId
from agentvm.operations import image_open, message, session_open
from agentvm.operations.gate import execute
from agentvm.operations.http_reply import HttpReply, Streamed
from agentvm.operations.image_build import ImageReply
from agentvm.operations.image_open import AgentName, ImageOpen
from agentvm.operations.message import MESSAGE_BOUND, ClientKey, MessageSend, MessageSendReply
from agentvm.operations.operation import Context, Http, Operation, OperationGroup
from agentvm.operations.session_open import SessionOpen, SessionOpenReply, discarded_if_refused
from agentvm.operations.turn_stream import stream_turn
from agentvm.protocol.requests import Request

if TYPE_CHECKING:
    from agentvm.events.base import Event
    from agentvm.model.turn import Turn

operation = OperationGroup("messages")

R_co = TypeVar("R_co", covariant=True)

READ = "sessions:read"
DEFAULT_AGENT = "default"
GATEWAY, REQUESTS = "http", "http.request"
"""The gateways of the aliases: names of conversations, and of messages that have begun one."""
KEY_REUSED = "This key was used for another request: a repeated request is the same, and another one has another key"


class TurnFailure(Record):
    code: str
    message: str


class MessageAnswer(Record):
    """The answer of a turn. Without an `outcome` the turn continues: `wait` was false, or tool calls wait for an answer
    (`waits`)."""

    session_id: SessionId
    turn_id: TurnId
    image_id: ImageId | None = None
    message_id: MessageId | None = None
    """The user's message."""
    text: str = ""
    """The last message of the agent."""
    citations: tuple[Citation, ...] = ()
    """The passages of knowledge that the message names as `[n]`."""
    output: Any = None
    """The answer as JSON, if the turn was asked for it."""
    outcome: TurnOutcome | None = None
    stop_reason: TurnStop | None = None
    usage: Usage | None = None
    price: int | None = None
    """In nano-USD."""
    error: TurnFailure | None = None
    waits: tuple[WaitId, ...] = ()


class AgentAsk(Request[R_co]):
    """The common part of asking an agent within a conversation and without one."""

    bound = MESSAGE_BOUND
    content: UserContent
    container: str | None = None
    """The container of a new session; your own if unset, or `default` if you may use all."""
    options: TurnOptions | None = None
    output: OutputFormat | None = None
    """The answer is JSON that fits this schema; else the turn fails with `output_misfit`."""


class MessageAsk(AgentAsk[MessageAnswer]):
    """To a session, to `thread`, a name of your own for a conversation, or, without either, to a new session.

    A new session is with `agent`: a definition's name, the URI or name of an agent, the id of an image, or `image:` and a
    tag of one; `default` if unset.
    """

    agent: AgentName | None = None
    session_id: SessionId | None = None
    thread: Annotated[str, msgspec.Meta(min_length=1, max_length=EXTERNAL_MAX)] | None = None
    client_message_id: ClientKey | None = None
    """Your own id for the message: sending it again starts no second turn, and gets the same answer. It holds in the session;
    without one and without `thread`, in the container."""
    on_parked: OnParked = "supersede"
    stream: bool = False
    """Whether the response is the turn's events, as server-sent events."""
    wait: bool = True
    """Whether the response comes when the turn has ended."""


@operation(
    "message.ask",
    needs="agent:use",
    http=Http(
        "POST",
        "/v1/messages",
        id="messages_ask",
        max_body_bytes=MESSAGE_BOUND.max_bytes,
        max_values=MESSAGE_BOUND.max_values,
        attended=True,
        media_type="text/event-stream",
    ),
    across=False,
    raises=(SessionNotFound, NotFound, AgentBusy, ShuttingDown, Unprocessable),
)
async def ask(context: Context, request: MessageAsk) -> MessageAnswer | HttpReply[Streamed]:
    """Send a message and receive the answer.

    When the turn has ended, or as server-sent events with `stream`: each event's `id` is a cursor, with which
    `GET /v1/turns/{turn_id}/events?follow=true` continues after a lost connection. The turn continues if the client does not
    wait.
    """
    context.principal.require(READ)
    if request.session_id is not None and (request.thread is not None or request.agent is not None):
        raise InvalidInput("Give sessionId, or agent and thread")
    opened = None if request.session_id is not None else await _open(context, request)
    send = MessageSend(
        content=request.content,
        session_id=request.session_id if opened is None else opened.session.session_id,
        client_message_id=request.client_message_id,
        on_parked=request.on_parked,
        options=request.options,
        output=request.output,
    )
    async with discarded_if_refused(context, opened.session.session_id if opened is not None and opened.created else None):
        sent: MessageSendReply = await execute(row_of(message, MessageSend), context, send)
    turn, cursor = await begun(context, sent)
    if sent.cursor is None:
        await _check_same(context, request, turn)
    if request.stream:
        return stream_turn(context, turn, cursor)
    return await wait_for_answer(context, turn, cursor) if request.wait else _answer_of(turn)


async def begun(context: Context, sent: MessageSendReply) -> tuple["Turn", int]:
    """Releases a turn that was accepted, and returns it with the place where its events begin."""
    context.finish()
    context.after.clear()
    turn = await context.store.find_turn(TurnId(sent.turn_id or ""))
    if turn is None:
        raise not_found("Turn", sent.turn_id or "")
    cursor = await context.vm.runtime.turn_cursor(context.tenant_id, turn) if sent.cursor is None else int(sent.cursor)
    return turn, cursor


async def _open(context: Context, request: MessageAsk) -> SessionOpenReply:
    named = ImageOpen(agent=request.agent or DEFAULT_AGENT, container_id=request.container)
    image: ImageReply = await execute(row_of(image_open, ImageOpen), context, named)
    gateway, external = GATEWAY, request.thread
    if external is None and request.client_message_id is not None:
        # The name of the message is that of its session, too: sent again, it finds the one that it has begun.
        gateway, external = REQUESTS, request.client_message_id
    opening = SessionOpen(image_id=image.record.image_id, gateway=gateway, external=external)
    opened: SessionOpenReply = await execute(row_of(session_open, SessionOpen), context, opening)
    return opened


async def _check_same(context: Context, request: MessageAsk, turn: "Turn") -> None:
    """Refuses another text under the name of an earlier message, whose answer would be no answer to it."""
    if request.client_message_id is None or turn.client_key != request.client_message_id:
        return
    log = context.store.container(turn.container_id).log(turn.session_id)
    for earlier in await log.get_messages([turn.message_id]):
        texts = (earlier.content, request.content) if isinstance(earlier, UserMessage) else ()
        if all(isinstance(text, str) for text in texts) and len(set(texts)) > 1:
            raise Unprocessable(KEY_REUSED)


def row_of(module: ModuleType, request: type[Request[Any]]) -> Operation:
    """Returns the row of an operation, which is gated and audited like any other."""
    group: OperationGroup = module.operation
    return next(row for row in group.rows if row.request is request)


def _answer_of(turn: "Turn") -> MessageAnswer:
    return MessageAnswer(session_id=turn.session_id, turn_id=turn.turn_id, image_id=turn.image_id, message_id=turn.message_id)


async def wait_for_answer(context: Context, turn: "Turn", cursor: int) -> MessageAnswer:
    """Returns the answer of a turn when it has ended, or its waits."""
    answer = _answer_of(turn)
    with context.vm.runtime.follow_turn(context.tenant_id, turn, cursor) as follower:
        while events := await follower.take():
            for event in events:
                answer = _with_event(answer, event)
            if answer.waits:
                break
    return answer


def _with_event(answer: MessageAnswer, event: "Event") -> MessageAnswer:
    match event.data:
        case AssistantMessageEvent(message=AssistantMessage(text=text, citations=citations)):
            return msgspec.structs.replace(answer, text=text, citations=citations or ())
        case ErrorOccurred(code=code, message=text):
            return msgspec.structs.replace(answer, error=TurnFailure(code=code, message=text))
        case TurnParked(waits=waits):
            return msgspec.structs.replace(answer, waits=waits)
        case TurnResponse(outcome=outcome, stop_reason=stop, usage=usage, price=price, output=output):
            ended = msgspec.structs.replace(answer, outcome=outcome, stop_reason=stop, usage=usage, price=price, waits=())
            return msgspec.structs.replace(ended, output=output)
        case _:
            return answer
