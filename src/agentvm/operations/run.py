"""Runs — one call of an agent without a session: only its ledger entry is kept."""

from typing import Any

from agentvm.errors import AgentBusy, InvalidInput, NotFound, SessionNotFound, ShuttingDown
from agentvm.model.ids import SessionId
from agentvm.model.session import UNSTORED, Alias
from agentvm.operations import image_open, message, session_open
from agentvm.operations.gate import execute
from agentvm.operations.http_reply import HttpReply, Streamed
from agentvm.operations.image_build import ImageReply
from agentvm.operations.image_open import AgentName, ImageOpen
from agentvm.operations.message import MESSAGE_BOUND, MessageSend, MessageSendReply
from agentvm.operations.message_ask import (
    DEFAULT_AGENT,
    READ,
    AgentAsk,
    MessageAnswer,
    R_co,
    begun,
    row_of,
    wait_for_answer,
)
from agentvm.operations.operation import Context, Http, OperationGroup
from agentvm.operations.session_open import SessionOpen, SessionOpenReply, discarded_if_refused
from agentvm.operations.turn_stream import stream_turn

operation = OperationGroup("messages")

_REFUSES = (SessionNotFound, NotFound, AgentBusy, ShuttingDown)


class _Run(AgentAsk[R_co]):
    agent: AgentName = DEFAULT_AGENT
    keep: bool = False
    """Whether the session is kept, to continue with it."""


class RunStart(_Run[MessageSendReply]):
    """`agent` is a definition's name, the URI or name of an agent, the id of an image, or `image:` and a tag of one.

    Its session is deleted soon after the turn has ended, unless it is to `keep`.
    """


@operation("run.start", needs="agent:use", command=True)
async def start(context: Context, request: RunStart) -> MessageSendReply:
    """Run an agent once, without a session to continue with.

    Its answer arrives as events; a waiting turn keeps its session until it has ended.
    """
    return await _start(context, request, listens=True)


class RunAsk(_Run[MessageAnswer]):
    """Like `run_start`. With `stream` the response is the turn's events, as server-sent events."""

    stream: bool = False


@operation(
    "run.ask",
    needs="agent:use",
    http=Http(
        "POST",
        "/v1/run",
        id="messages_run",
        max_body_bytes=MESSAGE_BOUND.max_bytes,
        max_values=MESSAGE_BOUND.max_values,
        attended=True,
        media_type="text/event-stream",
    ),
    across=False,
    raises=_REFUSES,
)
async def ask(context: Context, request: RunAsk) -> MessageAnswer | HttpReply[Streamed]:
    """Run an agent once and receive the answer.

    When the turn has ended, or as server-sent events with `stream`. Only its ledger entry is kept, unless `keep` is set.
    """
    context.principal.require(READ)
    turn, cursor = await begun(context, await _start(context, request, listens=False))
    if request.stream:
        return stream_turn(context, turn, cursor)
    answer = await wait_for_answer(context, turn, cursor)
    if not request.keep and answer.outcome is not None:
        await context.sessions.discard(turn.session_id)
    return answer


async def _start(context: Context, request: _Run[Any], *, listens: bool) -> MessageSendReply:
    if not request.content:
        raise InvalidInput("content must not be empty")
    named = ImageOpen(agent=request.agent, container_id=request.container)
    image: ImageReply = await execute(row_of(image_open, ImageOpen), context, named)
    opening = SessionOpen(image_id=image.record.image_id, archived=True)
    opened: SessionOpenReply = await execute(row_of(session_open, SessionOpen), context, opening)
    session_id = opened.session.session_id
    if not request.keep:
        await _mark_unstored(context, image, session_id)
    if listens:
        context.listen(image.record.container_id, session_id)
    send = MessageSend(content=request.content, session_id=session_id, options=request.options, output=request.output)
    async with discarded_if_refused(context, session_id):
        sent: MessageSendReply = await execute(row_of(message, MessageSend), context, send)
    return sent


async def _mark_unstored(context: Context, image: ImageReply, session_id: SessionId) -> None:
    """Before the first message: the session is deleted when its turn has ended, even if the client or the server fails."""
    aliases = context.workspace.store.container(image.record.container_id).aliases
    await aliases.put(Alias(UNSTORED, session_id), session_id, context.vm.clock())
