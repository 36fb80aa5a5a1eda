"""A2A methods — messages and tasks. A task continues when its client leaves."""

from dataclasses import replace
from typing import Any, Final

from agentvm.errors import AgentVMError, InvalidInput, NotFound, shorten
from agentvm.gateways.a2a.card import PROTOCOL
from agentvm.gateways.a2a.errors import A2aCode, CallRefused, error_of
from agentvm.gateways.a2a.messages import (
    PAGE_DEFAULT,
    UNSPECIFIED,
    A2aInput,
    A2aMessage,
    A2aSendParams,
    TaskListParams,
    TaskParams,
    answers_of,
    check_output,
    content_of,
    context_of,
)
from agentvm.gateways.a2a.task_events import STATES, SUBMITTED, WAITING, WORKING, TaskEvents
from agentvm.gateways.client_calls import answer_waits, entire_turn
from agentvm.gateways.routes import Ask, GatewayReply
from agentvm.gateways.sse import MEDIA_TYPE, stream_parts, write_parts
from agentvm.gateways.talk import SentTurn, Talk
from agentvm.gateways.threads import agent_of
from agentvm.model.ids import SessionId
from agentvm.model.session import Alias, Session
from agentvm.model.turn import Turn
from agentvm.operations.http_status import status_of
from agentvm.operations.tool import ToolWaits
from agentvm.protocol.records import ImageRecord
from agentvm.storage.sessions import TurnPage, TurnQuery, TurnStatus
from agentvm.vm import LISTEN_PERMISSION

CONTEXTS = "a2a"
"""The gateway of the aliases of contexts."""
VERSION_HEADER = "a2a-version"
TURN_STATES: Final[dict[str, TurnStatus | None]] = {
    UNSPECIFIED: None,
    WORKING: "running",
    WAITING: "parked",
    **{state: outcome for outcome, state in STATES.items()},
}
"""The turns that are tasks in a state."""
_NEVER: Final = frozenset({SUBMITTED, "TASK_STATE_REJECTED", "TASK_STATE_AUTH_REQUIRED"})
"""States in which no task is that is listed: one that was accepted works."""
_IN_ANSWER: Final = frozenset({400, 409, 413, 422})
"""Failures that are told in the answer to the call; others are statuses of HTTP."""


async def answer(ask: Ask[A2aMessage], talk: Talk) -> GatewayReply:
    """Answers one call."""
    call = ask.body
    try:
        if not ask.headers.get(VERSION_HEADER, PROTOCOL).startswith(PROTOCOL):
            raise CallRefused(A2aCode.VERSION_NOT_SUPPORTED, f"This version is not supported; {PROTOCOL} is")
        return await _answer(ask, talk)
    except CallRefused as refused:
        return GatewayReply(content=error_of(call.id, refused.code, str(refused), refused.code.name))
    except AgentVMError as error:
        if status_of(error) not in _IN_ANSWER:
            raise
        return GatewayReply(content=error_of(call.id, A2aCode.INVALID_PARAMS, str(error), error.code))


async def _answer(ask: Ask[A2aMessage], talk: Talk) -> GatewayReply:
    method = ask.body.method
    if method.endswith(("TaskPushNotificationConfig", "TaskPushNotificationConfigs")):
        raise CallRefused(A2aCode.PUSH_NOTIFICATION_NOT_SUPPORTED, "Tasks are not pushed; see webhooks")
    if method == "GetExtendedAgentCard":
        raise CallRefused(A2aCode.EXTENDED_AGENT_CARD_NOT_CONFIGURED, "There are no extended cards")
    image = await agent_of(ask, talk, ask.body.tenant)
    match method:
        case "SendMessage" | "SendStreamingMessage":
            return await _send(ask.body, talk, image)
        case "SubscribeToTask":
            return await _subscribe(ask.body, talk, image)
        case "GetTask":
            events = await _read(ask.body, talk, await _find(ask.body, talk, image))
            return GatewayReply(content=events.result(events.task()))
        case "CancelTask":
            return await _cancel(ask.body, talk, image)
        case "ListTasks":
            return await _list(ask.body, talk, image)
        case _:
            raise CallRefused(A2aCode.METHOD_NOT_FOUND, f"Method not found: {shorten(ask.body.method)}")


async def _send(call: A2aMessage, talk: Talk, image: ImageRecord) -> GatewayReply:
    params = call.read(A2aSendParams)
    message = params.message
    check_output(params.configuration)
    if params.configuration.task_push_notification_config:
        raise CallRefused(A2aCode.PUSH_NOTIFICATION_NOT_SUPPORTED, "Tasks are not pushed; see webhooks")
    if message.task_id:
        sent, context_id = await _go_on(talk, message, image)
        answered = (await entire_turn(talk, sent)).answered
    else:
        content, context_id = content_of(message), context_of(message)
        session = await _context(talk, image, context_id)
        sent = await talk.send(session.session_id, content, key=message.message_id)
        answered = frozenset()
    events = TaskEvents(call.id, sent.turn, context_id, answered=answered)
    if call.stream:
        return GatewayReply(content=stream_parts(talk, sent, events, interrupts=False), media_type=MEDIA_TYPE)
    if not params.configuration.return_immediately:
        await write_parts(talk, sent, events)
    return GatewayReply(content=events.result({"task": events.task()}))


async def _context(talk: Talk, image: ImageRecord, context_id: str) -> Session:
    """Returns the session of a context: under the client's name, or its own id, as tasks tell it that began elsewhere."""
    if context_id.startswith("sess_"):
        try:
            return await talk.session_with(context_id, image.image_id)
        except NotFound:
            raise InvalidInput(f"Context not found: {shorten(context_id)}") from None
    return await talk.open(image.image_id, Alias(CONTEXTS, context_id))


async def _go_on(talk: Talk, message: A2aInput, image: ImageRecord) -> tuple[SentTurn, str]:
    """Answers the waits of the task that a message names."""
    turn = await _task(talk, message.task_id, image)
    if turn.parked_at is None:
        raise CallRefused(A2aCode.UNSUPPORTED_OPERATION, "This task waits for no message")
    open_waits = (await talk.ask(ToolWaits(session_id=turn.session_id, state="open"))).waits
    waits = [wait for wait in open_waits if wait.turn_id == turn.turn_id]
    session = await talk.session(turn.session_id)
    sent, _ = await answer_waits(talk, session, answers_of(message, waits))
    return sent, await _context_id(talk, turn)


async def _subscribe(call: A2aMessage, talk: Talk, image: ImageRecord) -> GatewayReply:
    turn = await _find(call, talk, image)
    if turn.outcome is not None:
        raise CallRefused(A2aCode.UNSUPPORTED_OPERATION, "This task has ended")
    sent = await talk.sent(turn)
    answered = (await entire_turn(talk, sent)).answered
    events = TaskEvents(call.id, turn, await _context_id(talk, turn), answered=answered)
    return GatewayReply(content=stream_parts(talk, sent, events, interrupts=False), media_type=MEDIA_TYPE)


async def _cancel(call: A2aMessage, talk: Talk, image: ImageRecord) -> GatewayReply:
    turn = await _find(call, talk, image)
    if turn.outcome is not None:
        raise CallRefused(A2aCode.TASK_NOT_CANCELABLE, "This task has ended")
    sent = await talk.sent(turn)
    await talk.end(sent)
    events = await _read(call, talk, await talk.turn(turn.turn_id))
    return GatewayReply(content=events.result(events.task()))


async def _list(call: A2aMessage, talk: Talk, image: ImageRecord) -> GatewayReply:
    talk.principal.require(LISTEN_PERMISSION)
    params = call.read(TaskListParams)
    size = params.page_size or PAGE_DEFAULT
    if params.status in _NEVER:
        return GatewayReply(content=_page(call, [], TurnPage((), None, 0), size))
    if params.status not in TURN_STATES:
        raise InvalidInput("status must be a state of a task, such as TASK_STATE_WORKING")
    query = TurnQuery(
        now=talk.vm.clock(),
        after=params.page_token or None,
        limit=size,
        image_id=image.image_id,
        outcome=TURN_STATES[params.status],
        changed_since=params.changed_since,
        counts=True,
    )
    if params.context_id:
        is_own = params.context_id.startswith("sess_")
        named = SessionId(params.context_id) if is_own else None
        session_id = named or await talk.aliases(image.container_id).find(Alias(CONTEXTS, params.context_id))
        if session_id is None:
            return GatewayReply(content=_page(call, [], TurnPage((), None, 0), size))
        query = replace(query, session_id=session_id)
    page = await talk.context().store.sessions((image.container_id,)).turns(query)
    tasks = [(await _read(call, talk, turn)).task(artifacts=params.include_artifacts) for turn in page.items]
    return GatewayReply(content=_page(call, tasks, page, size))


def _page(call: A2aMessage, tasks: list[dict[str, Any]], page: TurnPage, size: int) -> dict[str, Any]:
    about = {"tasks": tasks, "nextPageToken": page.next or "", "pageSize": size, "totalSize": page.total}
    return {"jsonrpc": "2.0", "id": call.id, "result": about}


async def _find(call: A2aMessage, talk: Talk, image: ImageRecord) -> Turn:
    return await _task(talk, call.read(TaskParams).id, image)


async def _task(talk: Talk, turn_id: str, image: ImageRecord) -> Turn:
    """Returns a turn of the agent in the path; any other is no task."""
    try:
        turn = await talk.turn(turn_id)
    except NotFound:
        raise CallRefused(A2aCode.TASK_NOT_FOUND, f"Task not found: {shorten(turn_id)}") from None
    if turn.image_id != image.image_id:
        raise CallRefused(A2aCode.TASK_NOT_FOUND, f"Task not found: {shorten(turn_id)}")
    return turn


async def _read(call: A2aMessage, talk: Talk, turn: Turn) -> TaskEvents:
    """Returns a task with all that its turn has said so far."""
    parts, _ = await talk.read_parts(turn)
    answered = (await entire_turn(talk, await talk.sent(turn))).answered
    events = TaskEvents(call.id, turn, await _context_id(talk, turn), answered=answered)
    for part in parts:
        events.write(part, 0)
    events.settle()
    return events


async def _context_id(talk: Talk, turn: Turn) -> str:
    names = await talk.aliases(turn.container_id).of_session(CONTEXTS, turn.session_id)
    return names[0] if names else turn.session_id
