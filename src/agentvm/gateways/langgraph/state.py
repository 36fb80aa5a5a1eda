"""LangGraph state — a thread at each of its messages. A checkpoint has the id of the last message it holds."""

from collections.abc import Sequence
from typing import Any

import msgspec

from agentvm.errors import Unprocessable, not_found
from agentvm.gateways.langgraph.history import read_history
from agentvm.gateways.langgraph.interrupts import interrupt_of
from agentvm.gateways.langgraph.messages import START, LangMessage, messages_of, moment
from agentvm.gateways.langgraph.run_body import RunCheckpoint, read_messages, read_seeds
from agentvm.gateways.langgraph.threads import NAMES, Thread, get_thread, open_waits
from agentvm.gateways.routes import Ask, GatewayReply, GatewayRoute, Lenient, NoBody
from agentvm.gateways.talk import Talk
from agentvm.model.message import ErrorMessage, Message
from agentvm.operations.session import SessionDelete

HISTORY_MAX_BYTES = 8 * 1024 * 1024
"""A page of states ends before it is larger; each state has all messages before it."""
HISTORY_MAX = 1_000


class CheckpointBody(Lenient, frozen=True):
    checkpoint: RunCheckpoint


class HistoryBody(Lenient, frozen=True):
    limit: int = 10
    before: str | dict[str, Any] | None = None


class StateBody(Lenient, frozen=True):
    values: dict[str, Any] | list[Any] | None = None


def _checkpoint(thread: Thread, messages: Sequence[LangMessage]) -> dict[str, Any]:
    last = messages[-1]["id"] if messages else START
    return {"thread_id": thread.thread_id, "checkpoint_ns": "", "checkpoint_id": last, "checkpoint_map": None}


def _state(
    thread: Thread, messages: Sequence[LangMessage], at: int, tasks: Sequence[dict[str, Any]] = (), step: int = 0
) -> dict[str, Any]:
    checkpoint = _checkpoint(thread, messages)
    return {
        "values": {"messages": list(messages)},
        "next": [task["name"] for task in tasks if not task["error"]],
        "checkpoint": checkpoint,
        "metadata": {"source": "loop", "step": step, "parents": {}, **thread.named.metadata},
        "created_at": moment(at),
        "parent_checkpoint": _checkpoint(thread, messages[:-1]) if messages else None,
        "tasks": list(tasks),
        "interrupts": [interrupt for task in tasks for interrupt in task["interrupts"]],
        "checkpoint_id": checkpoint["checkpoint_id"],
        "parent_checkpoint_id": None,
    }


async def _tasks(talk: Talk, thread: Thread, history: Sequence[Message]) -> list[dict[str, Any]]:
    """Returns the waits of the thread, or the error of its last turn."""
    about: dict[str, Any] = {"id": thread.session.session_id, "name": "agent", "path": [], "error": None, "interrupts": []}
    task = {**about, "checkpoint": None, "state": None, "result": None}
    if history and isinstance(history[-1], ErrorMessage):
        return [{**task, "error": history[-1].content}]
    if thread.named.state == "running":
        return [task]
    waits = await open_waits(talk, thread.session)
    interrupts = [interrupt_of(wait) for wait in waits]
    return [{**task, "name": "tools", "interrupts": interrupts}] if interrupts else []


async def read_state(talk: Talk, thread: Thread, checkpoint_id: str | None = None) -> dict[str, Any]:
    """Returns a thread at a checkpoint, by default at its last message."""
    history = (await read_history(talk, thread.session)).messages
    messages = messages_of(history)
    times = {message.id: message.timestamp for message in history}
    ids = [START, *(message["id"] for message in messages)]
    if checkpoint_id is None or checkpoint_id == ids[-1]:
        tasks = await _tasks(talk, thread, history)
        return _state(thread, messages, thread.session.active_at, tasks, len(messages))
    if checkpoint_id not in ids:
        raise not_found("Checkpoint", checkpoint_id)
    end = ids.index(checkpoint_id)
    at = times.get(messages[end - 1]["id"], 0) if end else thread.session.created_at
    return _state(thread, messages[:end], at, step=end)


async def show(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    return GatewayReply(content=await read_state(talk, await get_thread(ask, talk), ask.path.get("checkpoint")))


async def show_checkpoint(ask: Ask[CheckpointBody], talk: Talk) -> GatewayReply:
    checkpoint_id = ask.body.checkpoint.checkpoint_id
    return GatewayReply(content=await read_state(talk, await get_thread(ask, talk), checkpoint_id))


async def update(ask: Ask[StateBody], talk: Talk) -> GatewayReply:
    """Gives a new thread its first messages. Messages are not changed."""
    thread = await get_thread(ask, talk)
    history = (await read_history(talk, thread.session)).messages
    values = ask.body.values
    messages = read_messages(values if isinstance(values, dict) else None)
    if messages:
        if history or thread.alias is None:
            raise Unprocessable("Messages can only be added to a new thread; existing ones are not changed")
        session = await talk.open(thread.session.image_id, None, seeds=read_seeds(messages))
        await talk.aliases(session.container_id).put(thread.alias, session.session_id, talk.vm.clock())
        await talk.ask(SessionDelete(session_id=thread.session.session_id))
        history = (await read_history(talk, session)).messages
    return GatewayReply(content={"checkpoint": _checkpoint(thread, messages_of(history))})


async def list_states(ask: Ask[HistoryBody], talk: Talk) -> GatewayReply:
    match ask.body.before:
        case str(before) | {"checkpoint_id": before} | {"configurable": {"checkpoint_id": before}}:
            pass
        case _:
            before = None
    return GatewayReply(content=await list_checkpoints(talk, await get_thread(ask, talk), ask.body.limit, before))


async def list_checkpoints(talk: Talk, thread: Thread, limit: int, before: str | None) -> list[dict[str, Any]]:
    """Returns the states of a thread, the newest first, up to the one before a checkpoint."""
    history = (await read_history(talk, thread.session)).messages
    messages = messages_of(history)
    times = {message.id: message.timestamp for message in history}
    sizes = [len(msgspec.json.encode(message)) for message in messages]
    ids = [message["id"] for message in messages]
    end = ids.index(before) if before in ids else len(messages)
    states: list[dict[str, Any]] = []
    size = 0
    while end > 0 and len(states) < min(limit, HISTORY_MAX):
        size += sum(sizes[:end])
        if states and size > HISTORY_MAX_BYTES:
            break
        tasks = await _tasks(talk, thread, history) if end == len(messages) else ()
        states.append(_state(thread, messages[:end], times.get(messages[end - 1]["id"], 0), tasks, end))
        end -= 1
    return states


_STATE = "/threads/{thread}/state"
STATE_ROUTES = (
    GatewayRoute(method="GET", path=_STATE, handler=show, names=NAMES),
    GatewayRoute(method="POST", path=_STATE, handler=update, body=StateBody, names=NAMES),
    GatewayRoute(method="POST", path=f"{_STATE}/checkpoint", handler=show_checkpoint, body=CheckpointBody, names=NAMES),
    GatewayRoute(method="GET", path=f"{_STATE}/{{checkpoint}}", handler=show, names=NAMES),
    GatewayRoute(method="POST", path="/threads/{thread}/history", handler=list_states, body=HistoryBody, names=NAMES),
)
