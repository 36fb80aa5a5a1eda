"""Responses — a turn as a response: created, streamed, read again from its log, cancelled and deleted.

Theory of operation. The state is the session: a response continues in the session of the one before it, in that of a
conversation, or, for a client that sends the history with each request, in the one that ends with this history; else in a new
one. A turn that waits for the caller's tools is several responses, one for each time that the
caller has to answer; see `response_events`.
"""

from contextlib import suppress
from dataclasses import dataclass

import msgspec
from msgspec import structs

from agentvm.errors import AgentVMError, InvalidInput, SessionNotFound
from agentvm.errors.bounds import InputTooLarge
from agentvm.gateways.client_calls import answer_calls, answer_questions, client_waits, find_waiting_turn
from agentvm.gateways.openai.chat import REQUESTS
from agentvm.gateways.openai.chat_body import digest_of
from agentvm.gateways.openai.item_references import resolved
from agentvm.gateways.openai.models import CONTAINER_HEADER
from agentvm.gateways.openai.response_body import (
    InputItem,
    ResponseBody,
    ResponseInput,
    read_input,
    read_items,
    read_response_options,
)
from agentvm.gateways.openai.response_events import ResponseEvents, count_rounds
from agentvm.gateways.openai.response_items import input_of, page_of, result_of
from agentvm.gateways.openai.response_turns import (
    DELETED,
    FoundResponse,
    find_conversation,
    find_response,
    go_on,
    go_on_in,
    turn_messages,
)
from agentvm.gateways.routes import Ask, GatewayReply, GatewayRoute, NoBody
from agentvm.gateways.sse import MEDIA_TYPE, stream_parts, write_parts
from agentvm.gateways.talk import SentTurn, Talk
from agentvm.model.ids import ContainerId, ImageId
from agentvm.model.message import ToolResultMessage, UserMessage
from agentvm.model.session import Alias, Session
from agentvm.model.turn import Turn, TurnOptions
from agentvm.operations.pages import is_number
from agentvm.operations.session import SessionDelete
from agentvm.sessions.seeding import SeedMessage

HISTORIES = "openai.items"
"""The gateway of the aliases that are digests of histories."""


@dataclass(frozen=True, slots=True)
class _Request:
    """A request, translated to the terms of this server."""

    talk: Talk
    body: ResponseBody
    input: ResponseInput
    image_id: ImageId
    container_id: ContainerId
    key: str | None
    previous: FoundResponse | None
    conversation: Session | None


async def create(ask: Ask[ResponseBody], talk: Talk) -> GatewayReply:
    """Answers a response: in one piece, as events, or at once for one in the background."""
    body = ask.body
    talk.principal.require("agent:use")
    if not isinstance(body.input, str):
        body = structs.replace(body, input=await resolved(talk, body.input))
    input = read_input(body)
    options = read_response_options(body, input)
    key = ask.key
    container_id = talk.container(ask.headers.get(CONTAINER_HEADER), body.safety_identifier or body.user)
    image = await talk.agent(body.model, container_id)
    named = body.conversation_id
    previous = None if body.previous_response_id is None else await find_response(talk, body.previous_response_id)
    conversation = None if named is None else await find_conversation(talk, named, image.container_id)
    request = _Request(talk, body, input, image.image_id, image.container_id, key, previous, conversation)
    if input.results:
        response = await _answer(request)
        sent = await talk.sent(response.turn)
    else:
        session, reservation = await _session(request)
        try:
            response, sent = await _send(request, session, options, is_new=session.session_id in talk.created)
        except AgentVMError:
            if reservation is not None:
                # The session still ends with this history.
                await talk.aliases(request.container_id).put(reservation, session.session_id, talk.vm.clock())
            raise
    return await _reply(request, response, sent)


async def _send(request: _Request, session: Session, options: TurnOptions, *, is_new: bool) -> tuple[FoundResponse, SentTurn]:
    """Sends the message, or answers with it the question that the response before has ended with."""
    talk, previous, key = request.talk, request.previous, request.key
    answered = None if is_new else await answer_questions(talk, session, request.input.content, key)
    if answered is None:
        sent = await talk.send(session.session_id, request.input.content, key=key, options=options)
        return FoundResponse(sent.turn, 1), sent
    sent, is_asking = answered
    number = previous.number if previous is not None else count_rounds((await talk.read_parts(sent.turn))[0])
    return FoundResponse(sent.turn, number if is_asking else number + 1), sent


async def _session(request: _Request) -> tuple[Session, Alias | None]:
    """Returns the session that the message is for, and the name that was taken from it."""
    talk, aliases = request.talk, request.talk.aliases(request.container_id)
    repeated = None if request.key is None else Alias(REQUESTS, request.key)
    if repeated is not None and (session_id := await aliases.find(repeated)) is not None:
        return await talk.repeated(session_id, request.image_id), None
    if request.previous is None and request.conversation is None:
        history = _history(request, request.input.history)
        session_id = None if history is None or not request.input.history else await aliases.take(history)
        if session_id is None:
            return await _open(request, repeated), None
        if repeated is not None:
            await aliases.put(repeated, session_id, talk.vm.clock())
        return await talk.session(session_id), history
    if request.input.history:
        raise InvalidInput("input of a conversation that exists is one message of the user, or results of tools")
    if request.previous is not None:
        if (
            request.previous.turn.outcome is None
            and count_rounds((await talk.read_parts(request.previous.turn))[0]) > request.previous.number
        ):
            raise InvalidInput("The previous response has been answered already; continue after the latest one")
        session = await go_on(talk, request.previous, request.image_id)
    else:
        assert request.conversation is not None
        session = await go_on_in(talk, request.body.conversation_id or "", request.conversation, request.image_id)
    if repeated is not None:
        await aliases.put(repeated, session.session_id, talk.vm.clock())
    return session, None


def _history(request: _Request, seeds: tuple[SeedMessage, ...]) -> Alias | None:
    """Returns the name of a session by its messages; None for a client that names sessions itself, or wants none stored."""
    if request.previous is not None or request.conversation is not None or request.body.store is False:
        return None
    return Alias(HISTORIES, digest_of(request.body.model, seeds))


async def _open(request: _Request, repeated: Alias | None) -> Session:
    """Returns a new session. One that is not to be stored is marked before it has messages."""
    talk, is_unstored = request.talk, request.body.store is False
    session = await talk.open(request.image_id, repeated, seeds=request.input.history, archived=is_unstored)
    if is_unstored:
        await talk.mark_unstored(session)
    return session


async def _answer(request: _Request) -> FoundResponse:
    """Answers the calls that wait for the caller. The same answers again are the same response."""
    talk, results, previous = request.talk, request.input.results, request.previous
    if previous is not None:
        turn = previous.turn
        waits = await client_waits(talk, session_id=turn.session_id, turn_id=turn.turn_id)
    else:
        session_id = None if request.conversation is None else request.conversation.session_id
        turn, waits = await find_waiting_turn(talk, results, session_id=session_id, container_id=request.container_id)
    number = previous.number if previous is not None else count_rounds((await talk.read_parts(turn))[0])
    await answer_calls(talk, waits, results)
    return FoundResponse(await talk.turn(turn.turn_id), number + 1)


async def _reply(request: _Request, stored: FoundResponse, sent: SentTurn) -> GatewayReply:
    talk, body = request.talk, request.body
    headers = {"X-AVM-Session": sent.session_id, "X-AVM-Turn": sent.turn_id}
    # Whoever gives a key comes back for the answer, as whoever has a conversation.
    interrupts = not body.background and request.conversation is None and request.key is None
    events = await stored.events(talk)
    if body.stream:

        async def end() -> None:
            await _end(request, stored, events)

        streamed = stream_parts(talk, sent, events, on_end=end, interrupts=interrupts)
        return GatewayReply(content=streamed, media_type=MEDIA_TYPE, headers=headers)
    if body.background:
        return GatewayReply(content={**events.response, "status": "queued"}, headers=headers)
    await write_parts(talk, sent, events, interrupts=interrupts)
    shown = _shown(events, await talk.turn(sent.turn_id))
    await _end(request, stored, events)
    return GatewayReply(content=shown, headers=headers)


async def _end(request: _Request, stored: FoundResponse, events: ResponseEvents) -> None:
    """Names the session by the history that the next request may have.

    One that is not stored is deleted instead, when its turn has ended and it has no other.
    """
    talk, session_id, response = request.talk, stored.turn.session_id, events.response
    # A session may be deleted meanwhile, and a call of the model may be larger than those that clients may send.
    with suppress(SessionNotFound, InputTooLarge):
        if response["status"] in ("completed", "incomplete"):
            output, _ = read_items(msgspec.convert(response["output"], tuple[InputItem, ...]))
            history = _history(request, (*request.input.history, *request.input.last, *output))
            if history is not None:
                await talk.aliases(request.container_id).put(history, session_id, talk.vm.clock())
        if events.ended is not None and not stored.about.store and await _is_only_turn(talk, stored.turn):
            await talk.ask(SessionDelete(session_id=session_id))


async def _is_only_turn(talk: Talk, turn: Turn) -> bool:
    turns = await talk.turns(await talk.session(turn.session_id), 2)
    return [row.turn_id for row in turns] == [turn.turn_id]


async def retrieve(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Answers a response as it is now, or its events: those of before from the log, then those that happen."""
    response = await find_response(talk, ask.path["response_id"])
    if ask.query.get("stream") != "true":
        return GatewayReply(content=_now(response, (await response.read(talk))[0]))
    starting = ask.query.get("starting_after", "-1")
    if not is_number(starting.removeprefix("-")):
        raise InvalidInput("starting_after is a sequence number")
    events, written = await response.read(talk, int(starting))
    if events.is_done:
        return GatewayReply(content=written, media_type=MEDIA_TYPE)
    events = await response.events(talk, int(starting))
    return GatewayReply(
        content=stream_parts(talk, await talk.sent(response.turn), events, interrupts=False), media_type=MEDIA_TYPE
    )


async def cancel(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Stops a response. One that has ended is answered as it is."""
    response = await find_response(talk, ask.path["response_id"])
    events, _ = await response.read(talk)
    if events.is_done:
        return GatewayReply(content=_now(response, events))
    sent = await talk.sent(response.turn)
    await talk.end(sent)
    response = FoundResponse(await talk.turn(response.turn.turn_id), response.number)
    events, _ = await response.read(talk)
    # A turn that is queued ends when it is its turn.
    return GatewayReply(content={**_now(response, events), **({} if events.is_done else {"status": "cancelled"})})


async def delete(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Deletes a response, with its session if that has nothing else; a conversation keeps its messages."""
    response = await find_response(talk, ask.path["response_id"])
    named, turn = ask.path["response_id"], response.turn
    if response.number == 1 and await _is_only_turn(talk, turn):
        await talk.ask(SessionDelete(session_id=turn.session_id))
    else:
        await talk.aliases(turn.container_id).put(Alias(DELETED, named), turn.session_id, talk.vm.clock())
    return GatewayReply(content={"id": named, "object": "response", "deleted": True})


async def input_items(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Lists the input of a response: the user's message, or the results of the caller's tools."""
    response = await find_response(talk, ask.path["response_id"])
    messages = await turn_messages(talk, response.turn)
    if response.number == 1:
        return GatewayReply(
            content=page_of([input_of(message) for message in messages if isinstance(message, UserMessage)], ask.query)
        )
    before, _ = await FoundResponse(response.turn, response.number - 1).read(talk)
    call_ids = {item["call_id"] for item in before.response["output"] if item["type"] == "function_call"}
    results = [message for message in messages if isinstance(message, ToolResultMessage) and message.tool_call_id in call_ids]
    return GatewayReply(content=page_of([result_of(message) for message in results], ask.query))


def _now(stored: FoundResponse, events: ResponseEvents) -> dict[str, object]:
    turn = stored.turn
    shown = _shown(events, turn)
    is_queued = not events.is_done and turn.attempts == 0 and not shown["output"]
    return {**shown, "status": "queued"} if is_queued else shown


def _shown(events: ResponseEvents, turn: Turn) -> dict[str, object]:
    ended_at = turn.ended_at if events.ended is not None else None
    return {**events.response, "completed_at": None if ended_at is None else ended_at // 1000}


RESPONSE_ROUTES = (
    GatewayRoute(method="POST", path="/responses", handler=create, body=ResponseBody),
    *(
        GatewayRoute(
            method=method, path=f"/responses/{{response_id}}{path}", handler=handler, names={"response_id": "response_id"}
        )
        for method, path, handler in (
            ("GET", "", retrieve),
            ("DELETE", "", delete),
            ("POST", "/cancel", cancel),
            ("GET", "/input_items", input_items),
        )
    ),
)
