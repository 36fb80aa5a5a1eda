"""Starting runs — finds the thread and the agent, and sends the new message, or answers waits."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from agentvm.errors import Conflict, InvalidInput, NotFound, Unprocessable, not_found
from agentvm.gateways.langgraph.history import History, list_turns, read_history
from agentvm.gateways.langgraph.interrupts import NOTHING_WAITS, read_resume
from agentvm.gateways.langgraph.messages import START
from agentvm.gateways.langgraph.run_body import END, RunBody, RunInput, check_run, read_input, read_messages, read_options
from agentvm.gateways.langgraph.run_stream import NOTHING_SETTLED, FollowedRun, Settled
from agentvm.gateways.langgraph.threads import (
    Thread,
    container_of,
    find_thread,
    open_thread,
    open_waits,
    set_metadata,
)
from agentvm.gateways.routes import Ask
from agentvm.gateways.talk import SentTurn, Talk
from agentvm.model.ids import ImageId, TurnId
from agentvm.model.message import AssistantMessage, Message
from agentvm.model.session import Alias, Session
from agentvm.operations.agent import AgentInterrupt
from agentvm.operations.branch import SessionRewind
from agentvm.operations.message import MessageRegenerate
from agentvm.operations.session import SessionDelete
from agentvm.sessions.seeding import SeedMessage
from agentvm.storage.sql.aliases import NamedSession

REQUESTS = "langgraph.request"
"""The gateway of the aliases that lead from keys of requests without a thread to their sessions."""


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run that has begun, or that continues after `settled`."""

    talk: Talk
    thread: Thread
    sent: SentTurn
    settled: Settled = NOTHING_SETTLED
    is_queued: bool = False
    is_temporary: bool = False
    """Whether its session is deleted when the client has the answer."""

    @property
    def followed(self) -> FollowedRun:
        return FollowedRun(self.talk, self.sent, self.settled, self.is_queued)


async def start_run(ask: Ask[RunBody], talk: Talk) -> StartedRun:
    """Begins a run of the thread in the path; without one, of a session of its own."""
    body = ask.body
    check_run(body)
    container_id = container_of(ask, talk, body.metadata)
    image = await talk.agent(body.assistant_id, container_id)
    if (thread_id := ask.path.get("thread")) is None:
        return await _start_alone(ask, talk, image.image_id)
    thread = await find_thread(talk, container_id, thread_id)
    if thread is None:
        if body.if_not_exists != "create":
            raise not_found("Thread", thread_id)
        # Before the thread: what is refused leaves none behind.
        read_options(body, read_input(body.input, ()).instructions)
        thread = await open_thread(talk, container_id, thread_id, {"assistant_id": body.assistant_id})
    if body.command is not None and body.command.resume is not None:
        return await resume_run(talk, thread, body.command.resume)
    if body.command is not None and body.command.goto == END:
        return await _end_run(talk, thread)
    return await _send_message(ask, talk, thread, image.image_id)


async def _start_alone(ask: Ask[RunBody], talk: Talk, image_id: ImageId) -> StartedRun:
    """Says everything to a new session, which lists leave out; a request with a key that is sent again, to the same one."""
    input, key = read_input(ask.body.input, ()), ask.key
    options = read_options(ask.body, input.instructions)
    session = await _lone_session(ask, talk, image_id, input, key)
    is_temporary = ask.body.on_completion != "keep"
    if is_temporary:
        # Also if nobody waits for the answer, or the server is killed.
        await talk.mark_unstored(session)
    named = NamedSession(session.session_id, session.session_id, {"assistant_id": ask.body.assistant_id}, "idle")
    sent = await talk.send(session.session_id, input.content, key=key, options=options)
    # Whoever gives a key may come back for the answer: the session goes some time after its end.
    return StartedRun(talk, Thread(named, session, None), sent, is_temporary=is_temporary and key is None)


async def _lone_session(ask: Ask[RunBody], talk: Talk, image_id: ImageId, run_input: RunInput, key: str | None) -> Session:
    alias = None if key is None else Alias(REQUESTS, key)
    if alias is not None:
        container_id = container_of(ask, talk, ask.body.metadata)
        session_id = await talk.aliases(container_id).find(alias)
        if session_id is not None:
            return await talk.repeated(session_id, image_id)
    return await talk.open(image_id, alias, seeds=run_input.seeds, archived=True)


async def resume_run(talk: Talk, thread: Thread, resume: Any) -> StartedRun:
    """Answers the calls that wait; their turn continues."""
    waits = await open_waits(talk, thread.session)
    answers = read_resume(resume, waits)
    cursor = await talk.cursor(thread.session)
    answered = frozenset(answer.wait_id for answer in answers)
    with talk.vm.answering.changing(answered):
        for answer in answers:
            await talk.ask(answer)
    settled = Settled(cursor, answered=answered)
    return StartedRun(talk, thread, await talk.sent(await talk.turn(waits[0].turn_id)), settled)


async def _end_run(talk: Talk, thread: Thread) -> StartedRun:
    """Ends the run that waits without an answer."""
    waits = await open_waits(talk, thread.session)
    if not waits:
        raise Unprocessable(NOTHING_WAITS)
    cursor = await talk.cursor(thread.session)
    sent = await talk.sent(await talk.turn(waits[0].turn_id))
    await talk.ask(AgentInterrupt(session_id=sent.session_id, turn_id=sent.turn_id))
    return StartedRun(talk, thread, sent, Settled(cursor))


async def _send_message(ask: Ask[RunBody], talk: Talk, thread: Thread, image_id: ImageId) -> StartedRun:
    body, history = ask.body, await read_history(talk, thread.session)
    if body.input is None and body.head is not None:
        return StartedRun(talk, thread, await _regenerate(ask, talk, thread, history, body.head))
    if (turn_id := _repeated(body, history)) is not None:
        return StartedRun(talk, thread, await talk.sent(await talk.turn(turn_id)))
    input = read_input(body.input, {message.id for message in history.messages})
    options = read_options(body, input.instructions)
    thread = await _prepare(talk, thread, image_id, input.seeds, history.messages)
    # By these, clients look for their threads.
    agent = {"graph_id": body.assistant_id, "assistant_id": body.assistant_id}
    thread = await set_metadata(talk, thread, {**thread.named.metadata, **agent})
    if body.head is not None:
        await _go_back(talk, thread, history, body.head)
    elif body.multitask_strategy == "rollback":
        await _roll_back(talk, thread)
    strategy = body.multitask_strategy
    sent = await talk.send(
        thread.session.session_id,
        input.content,
        key=_key(ask, input, history),
        options=options,
        on_busy=strategy if strategy in ("reject", "interrupt") else "queue",
    )
    return StartedRun(talk, thread, sent, is_queued=thread.named.state == "running")


def _repeated(body: RunBody, history: History) -> TurnId | None:
    """Returns the turn of a request that was sent before: clients repeat requests by themselves."""
    ids = [START, *(message.id for message in history.messages)]
    messages = read_messages(body.input)
    last = messages[-1].id if messages else None
    if last not in ids or last not in history.turns:
        return None
    # After another checkpoint the message is new: it takes the place of the one with its id.
    return history.turns[last] if body.head is None or body.head == ids[ids.index(last) - 1] else None


def _key(ask: Ask[RunBody], run_input: RunInput, history: History) -> str | None:
    """Returns the client's name for the message, unless it was the name of one that was rewound."""
    return ask.key or (None if run_input.key in history.turns else run_input.key)


async def _prepare(
    talk: Talk, thread: Thread, image_id: ImageId, seeds: tuple[SeedMessage, ...], history: Sequence[Message]
) -> Thread:
    """Returns the thread with a session of this agent. One in which nothing was said gets another session, with the seeds."""
    if history:
        if thread.session.image_id != image_id:
            raise Conflict("This thread is a conversation with another agent")
        if seeds:
            raise Unprocessable("Messages of the types ai and tool can only begin a new thread")
    if thread.session.image_id == image_id and not seeds:
        return thread
    if thread.alias is None:
        raise Conflict("This thread is a conversation with another agent")
    session = await talk.open(image_id, None, seeds=seeds)
    aliases = talk.aliases(thread.session.container_id)
    await aliases.put(thread.alias, session.session_id, talk.vm.clock())
    await talk.ask(SessionDelete(session_id=thread.session.session_id))
    return replace(thread, session=session, named=replace(thread.named, session_id=session.session_id))


async def _go_back(talk: Talk, thread: Thread, history: History, head: str) -> None:
    """Removes the messages after a checkpoint, which are kept as rewound."""
    session_id, messages = thread.session.session_id, history.messages
    if head == START and messages:
        await talk.ask(SessionRewind(session_id=session_id, before=history.stored_id(messages[0].id)))
    elif messages and head != messages[-1].id:
        await talk.ask(SessionRewind(session_id=session_id, message_id=history.stored_id(head)))


async def _roll_back(talk: Talk, thread: Thread) -> None:
    """Stops the turn that runs, and removes its messages."""
    session_id = thread.session.session_id
    running = await list_turns(talk, thread.session, "running")
    if running:
        with suppress(NotFound):
            # Another run has removed it meanwhile.
            await talk.ask(SessionRewind(session_id=session_id, before=running[-1].message_id, on_busy="interrupt"))


async def _regenerate(ask: Ask[RunBody], talk: Talk, thread: Thread, history: History, head: str) -> SentTurn:
    """Regenerates the answer at a checkpoint."""
    ids = [START, *(message.id for message in history.messages)]
    later = history.messages[ids.index(head) :] if head in ids else ()
    answered = next((message.id for message in later if isinstance(message, AssistantMessage)), None)
    if answered is None:
        raise InvalidInput("input is required: nothing was answered at this checkpoint")
    request = MessageRegenerate(
        session_id=thread.session.session_id,
        message_id=answered,
        client_message_id=ask.key,
        options=read_options(ask.body, None),
    )
    reply = await talk.ask(request)
    return await talk.sent(await talk.turn(reply.turn_id or ""))
