"""Chat completions — a conversation that its client sends whole each time, kept as one session that continues.

Theory of operation. The digest of the messages before the last one names the session that ended with them: the name is taken
when the request begins, so that of two equal requests one continues with it, and the session is named anew when the turn has
ended. A history without a session is stored as a new one, which lists leave out. With `X-AVM-Session` the session is the
caller's choice, and only the last message is read.
"""

from contextlib import suppress
from dataclasses import dataclass

from agentvm.errors import AgentVMError, InvalidInput, SessionNotFound
from agentvm.gateways.client_calls import (
    NOT_AWAITED,
    answer_calls,
    answer_question,
    answered_calls,
    client_waits,
)
from agentvm.gateways.openai.chat_body import ChatBody, ChatConversation, digest_of, read_conversation, read_options
from agentvm.gateways.openai.chat_chunks import ChatChunks, completion
from agentvm.gateways.openai.chat_relay import relay_chat, relayed_model
from agentvm.gateways.openai.errors import about
from agentvm.gateways.openai.models import CONTAINER_HEADER
from agentvm.gateways.routes import Ask, GatewayReply, GatewayRoute
from agentvm.gateways.sse import MEDIA_TYPE, stream_parts, write_parts
from agentvm.gateways.talk import SentTurn, Talk
from agentvm.gateways.words import words_for
from agentvm.model.ids import ContainerId, ImageId, SessionId
from agentvm.model.message import ToolCall
from agentvm.model.session import STATELESS, Alias, Session
from agentvm.operations.tool import WaitView
from agentvm.sessions.seeding import SEEDS_MAX, SeedMessage, text_of

HISTORIES, REQUESTS = "openai.history", "openai.request"
"""The gateways of the aliases: digests of histories, and keys of requests."""
SESSION_HEADER, TOOLS_HEADER = "x-avm-session", "x-avm-tools"
NEW = "new"


@dataclass(frozen=True, slots=True)
class _Request:
    """A request, translated to the terms of this server."""

    talk: Talk
    body: ChatBody
    conversation: ChatConversation
    image_id: ImageId
    container_id: ContainerId
    named: str | None
    """The session that the caller has chosen, or `new`."""
    key: str | None

    @property
    def digest(self) -> str:
        return digest_of(self.body.model, self.conversation.history)


async def complete(ask: Ask[ChatBody], talk: Talk) -> GatewayReply:
    """Answers a chat completion, in one piece or as chunks."""
    body = ask.body
    if (model := relayed_model(talk, body.model)) is not None:
        return await relay_chat(ask, talk, model)
    options = read_options(body)
    conversation = read_conversation(body)
    named, key = ask.headers.get(SESSION_HEADER), ask.key
    container_id = talk.container(ask.headers.get(CONTAINER_HEADER), body.safety_identifier or body.user)
    image = await talk.agent(body.model, container_id)
    request = _Request(talk, body, conversation, image.image_id, image.container_id, named, key)
    session, reservation = await _session(request)
    answered: tuple[WaitView, ...] = ()
    try:
        if conversation.results:
            sent, answered = await _answer(request, session)
        else:
            is_known = reservation is not None or key is not None or named not in (None, NEW)
            question = await answer_question(talk, session, conversation.content, key) if is_known else None
            if question is not None:
                sent, answered = question[0], (question[1],)
            else:
                sent = await talk.send(session.session_id, conversation.content, key=key, options=options)
    except AgentVMError:
        if reservation is not None:
            # Nothing was sent: the session still ends with this history.
            await talk.aliases(request.container_id).put(reservation, session.session_id, talk.vm.clock())
        raise
    return await _reply(request, sent, answered, shows_tools=ask.headers.get(TOOLS_HEADER) == "show")


async def _session(request: _Request) -> tuple[Session, Alias | None]:
    """Returns the session, and the name that was taken from it."""
    talk, aliases = request.talk, request.talk.aliases(request.container_id)
    if request.named is not None and request.named != NEW:
        return await talk.session_with(request.named, request.image_id), None
    repeated = None if request.key is None else Alias(REQUESTS, request.key)
    if repeated is not None and (session_id := await aliases.find(repeated)) is not None:
        return await talk.repeated(session_id, request.image_id), None
    if request.conversation.history and request.named is None:
        history = Alias(HISTORIES, request.digest)
        session_id = await aliases.take(history)
        if session_id is not None:
            if repeated is not None:
                await aliases.put(repeated, session_id, talk.vm.clock())
            return await talk.session(session_id), history
    if request.conversation.results:
        raise InvalidInput(NOT_AWAITED)
    seeds = () if request.named == NEW else request.conversation.history
    if len(seeds) > SEEDS_MAX:
        raise InvalidInput(f"A conversation that is not known here has at most {SEEDS_MAX:,} messages before the last")
    if request.named == NEW:
        return await talk.open(request.image_id, repeated, seeds=seeds), None
    name = repeated or Alias(STATELESS, talk.vm.new_id("chat"))
    session = await talk.open(request.image_id, name, seeds=seeds, archived=True)
    if repeated is not None:
        await aliases.put(Alias(STATELESS, session.session_id), session.session_id, talk.vm.clock())
    return session, None


async def _answer(request: _Request, session: Session) -> tuple[SentTurn, tuple[WaitView, ...]]:
    """Answers the calls that wait for the caller, so that the turn continues; a repeated request gets the same
    continuation."""
    talk = request.talk
    waits = await client_waits(talk, session_id=session.session_id)
    results = {result.tool_call_id or "": str(result.content) for result in request.conversation.results}
    if request.key is None or waits.keys() & results.keys():
        await answer_calls(talk, waits, results)
    answered = await answered_calls(talk, session, results)
    if answered is None:
        raise InvalidInput(NOT_AWAITED)
    return answered


async def _reply(request: _Request, sent: SentTurn, answered: tuple[WaitView, ...], *, shows_tools: bool) -> GatewayReply:
    talk, body = request.talk, request.body
    with_usage = body.stream_options is not None and body.stream_options.include_usage
    created, completion_id = talk.vm.clock() // 1000, f"chatcmpl-{sent.turn_id}"
    words = words_for(text_of(request.conversation.last[0].content))
    chunks = ChatChunks(
        completion_id,
        body.model,
        created,
        with_usage=with_usage,
        shows_tools=shows_tools,
        words=words,
        after=answered,
    )
    headers = {"X-AVM-Session": sent.session_id, "X-AVM-Turn": sent.turn_id}

    async def name_history() -> None:
        await _name(request, sent.session_id, chunks)

    # Whoever gives a key comes back for the answer; half of one would be no answer.
    interrupts = request.named is None and request.key is None
    if body.stream:
        streamed = stream_parts(talk, sent, chunks, on_end=name_history, interrupts=interrupts)
        return GatewayReply(content=streamed, media_type=MEDIA_TYPE, headers=headers)
    await write_parts(talk, sent, chunks, interrupts=interrupts)
    await name_history()
    if chunks.ended is not None and chunks.ended.outcome == "failed":
        code, message = chunks.ended.error or ("internal", "The turn failed")
        # Its clients repeat requests by themselves, and this one has begun a turn.
        return GatewayReply(content=about(500, code, message), status=500, headers={**headers, "X-Should-Retry": "false"})
    return GatewayReply(content=completion(chunks, completion_id, body.model, created), headers=headers)


async def _name(request: _Request, session_id: SessionId, chunks: ChatChunks) -> None:
    """Names the session by the history that the caller's next request will have."""
    if request.named is not None or (chunks.ended is not None and chunks.ended.outcome != "completed"):
        return
    calls = tuple(ToolCall(id=call.call_id, name=call.name, input=call.input) for call in chunks.calls)
    answer = SeedMessage(role="assistant", content=chunks.text, tool_calls=calls)
    history = (*request.conversation.history, *request.conversation.last, answer)
    alias = Alias(HISTORIES, digest_of(request.body.model, history))
    with suppress(SessionNotFound):
        # It was deleted meanwhile.
        await request.talk.aliases(request.container_id).put(alias, session_id, request.talk.vm.clock())


CHAT_ROUTES = (GatewayRoute(method="POST", path="/chat/completions", handler=complete, body=ChatBody, keeps_content=True),)
