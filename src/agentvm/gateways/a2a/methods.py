"""A2A methods — messages and tasks. A task goes on when its client leaves."""

from dataclasses import replace
from typing import Any, Final

from agentvm.errors import AgentVMError, NotFound
from agentvm.gateways.a2a.card import PROTOCOL
from agentvm.gateways.a2a.errors import A2aCode, CallRefused, error_of
from agentvm.gateways.a2a.messages import (
    A2aMessage,
    A2aSaid,
    A2aSendParams,
    TaskListParams,
    TaskParams,
    answers_of,
    content_of,
    context_of,
)
from agentvm.gateways.a2a.task_events import TaskEvents
from agentvm.gateways.client_calls import answer_waits, whole_turn
from agentvm.gateways.routes import Ask, GatewayReply
from agentvm.gateways.sse import MEDIA_TYPE, stream_parts
from agentvm.gateways.talk import SentTurn, Talk
from agentvm.gateways.threads import agent_of
from agentvm.model.session import Alias
from agentvm.model.turn import Turn
from agentvm.operations.http_status import status_of
from agentvm.operations.tool import ToolWaits
from agentvm.protocol.records import ImageRecord
from agentvm.storage.sessions import TurnQuery
from agentvm.vm import LISTEN_PERMISSION

CONTEXTS = "a2a"
"""The gateway of the aliases of contexts."""
VERSION_HEADER = "a2a-version"
PAGE_MAX = 100
_NO_TASK: Final = "There is no such task"
_IN_ANSWER: Final = frozenset({400, 409, 413, 422})
"""Failures that are told in the answer to the call; others are statuses of HTTP."""


async def answer(ask: Ask[A2aMessage], talk: Talk) -> GatewayReply:
    """Answers one call."""
    call = ask.body
    try:
        if not ask.headers.get(VERSION_HEADER, PROTOCOL).startswith(PROTOCOL):
            raise CallRefused(A2aCode.VERSION, f"This version is not spoken here; {PROTOCOL} is")
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
        raise CallRefused(A2aCode.NO_PUSH, "Tasks are not pushed; see webhooks")
    if method == "GetExtendedAgentCard":
        raise CallRefused(A2aCode.NO_EXTENDED_CARD, "There is one card of each agent")
    image = await agent_of(ask, talk)
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
            raise CallRefused(A2aCode.METHOD_NOT_FOUND, "There is no such method")


async def _send(call: A2aMessage, talk: Talk, image: ImageRecord) -> GatewayReply:
    params = call.read(A2aSendParams)
    message = params.message
    if params.configuration.task_push_notification_config:
        raise CallRefused(A2aCode.NO_PUSH, "Tasks are not pushed; see webhooks")
    if message.task_id:
        sent, context_id = await _go_on(talk, message, image)
        answered = (await whole_turn(talk, sent)).answered
    else:
        content, context_id = content_of(message), context_of(message)
        session = await talk.open(image.image_id, Alias(CONTEXTS, context_id))
        sent = await talk.say(session.session_id, content, key=message.message_id)
        answered = frozenset()
    events = TaskEvents(call.id, sent.turn, context_id, answered=answered)
    if call.stream:
        return GatewayReply(content=stream_parts(talk, sent, events, interrupts=False), media_type=MEDIA_TYPE)
    if not params.configuration.return_immediately:
        await _await(talk, sent, events)
    return GatewayReply(content=events.result({"task": events.task()}))


async def _await(talk: Talk, sent: SentTurn, events: TaskEvents) -> None:
    async for part in talk.parts(sent):
        events.write(part, 0)
        if events.is_done:
            return


async def _go_on(talk: Talk, message: A2aSaid, image: ImageRecord) -> tuple[SentTurn, str]:
    """Answers the waits of the task that a message names."""
    turn = await _task(talk, message.task_id, image)
    if turn.parked_at is None:
        raise CallRefused(A2aCode.UNSUPPORTED, "This task waits for no message")
    open_waits = (await talk.ask(ToolWaits(session_id=turn.session_id, state="open"))).waits
    waits = [wait for wait in open_waits if wait.turn_id == turn.turn_id]
    session = await talk.session(turn.session_id)
    sent, _ = await answer_waits(talk, session, answers_of(message, waits))
    return sent, await _context_id(talk, turn)


async def _subscribe(call: A2aMessage, talk: Talk, image: ImageRecord) -> GatewayReply:
    turn = await _find(call, talk, image)
    if turn.outcome is not None:
        raise CallRefused(A2aCode.UNSUPPORTED, "This task has ended")
    sent = await talk.sent(turn)
    answered = (await whole_turn(talk, sent)).answered
    events = TaskEvents(call.id, turn, await _context_id(talk, turn), answered=answered)
    return GatewayReply(content=stream_parts(talk, sent, events, interrupts=False), media_type=MEDIA_TYPE)


async def _cancel(call: A2aMessage, talk: Talk, image: ImageRecord) -> GatewayReply:
    turn = await _find(call, talk, image)
    if turn.outcome is not None:
        raise CallRefused(A2aCode.NOT_CANCELABLE, "This task has ended")
    sent = await talk.sent(turn)
    await talk.stop(sent)
    async for _ in talk.parts(sent):
        pass
    events = await _read(call, talk, await talk.turn(turn.turn_id))
    return GatewayReply(content=events.result(events.task()))


async def _list(call: A2aMessage, talk: Talk, image: ImageRecord) -> GatewayReply:
    talk.principal.require(LISTEN_PERMISSION)
    params = call.read(TaskListParams)
    size = min(max(params.page_size, 1), PAGE_MAX)
    query = TurnQuery(now=talk.vm.clock(), after=params.page_token or None, limit=size)
    tasks: list[dict[str, Any]] = []
    if params.context_id:
        session_id = await talk.aliases(image.container_id).find(Alias(CONTEXTS, params.context_id))
        if session_id is None:
            return GatewayReply(content=_page(call, [], None, size))
        query = replace(query, session_id=session_id)
    page = await talk.context().store.sessions((image.container_id,)).turns(query)
    for turn in page.items:
        if turn.image_id == image.image_id:
            events = await _read(call, talk, turn)
            tasks.append(events.task(artifacts=params.include_artifacts))
    return GatewayReply(content=_page(call, tasks, page.next, size))


def _page(call: A2aMessage, tasks: list[dict[str, Any]], after: str | None, size: int) -> dict[str, Any]:
    about = {"tasks": tasks, "nextPageToken": after or "", "pageSize": size, "totalSize": len(tasks)}
    return {"jsonrpc": "2.0", "id": call.id, "result": about}


async def _find(call: A2aMessage, talk: Talk, image: ImageRecord) -> Turn:
    return await _task(talk, call.read(TaskParams).id, image)


async def _task(talk: Talk, turn_id: str, image: ImageRecord) -> Turn:
    """Returns a turn of the agent in the path; any other is no task."""
    try:
        turn = await talk.turn(turn_id)
    except NotFound:
        raise CallRefused(A2aCode.TASK_NOT_FOUND, _NO_TASK) from None
    if turn.image_id != image.image_id:
        raise CallRefused(A2aCode.TASK_NOT_FOUND, _NO_TASK)
    return turn


async def _read(call: A2aMessage, talk: Talk, turn: Turn) -> TaskEvents:
    """Returns a task with all that its turn has said so far."""
    parts, _ = await talk.told(turn)
    answered = (await whole_turn(talk, await talk.sent(turn))).answered
    events = TaskEvents(call.id, turn, await _context_id(talk, turn), answered=answered)
    for part in parts:
        events.write(part, 0)
    events.settle()
    return events


async def _context_id(talk: Talk, turn: Turn) -> str:
    names = await talk.aliases(turn.container_id).of_session(CONTEXTS, turn.session_id)
    return names[0] if names else turn.session_id
