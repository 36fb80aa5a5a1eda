"""Chat completions — a conversation that its client sends whole each time, kept as one session that goes on.

Theory of operation. The digest of the messages before the last one names the session that ended with them: the name is taken
when the request begins, so that of two equal requests one goes on with it, and the session is named anew when the turn has
ended. A history without a session is stored as a new one, which lists leave out. With `X-AVM-Session` the session is the
caller's choice, and only the last message is read.
"""

from dataclasses import dataclass

from agentvm.errors import AgentVMError, InvalidInput
from agentvm.gateways.client_calls import NOT_AWAITED, answer_calls, client_waits, turn_waits
from agentvm.gateways.openai.chat_body import ChatBody, ChatConversation, digest_of, read_conversation, read_options
from agentvm.gateways.openai.chat_chunks import ChatChunks, completion
from agentvm.gateways.openai.chat_relay import relay_chat, relayed_model
from agentvm.gateways.openai.errors import about
from agentvm.gateways.openai.models import CONTAINER_HEADER
from agentvm.gateways.routes import Ask, GatewayReply, GatewayRoute
from agentvm.gateways.sse import MEDIA_TYPE, stream_parts
from agentvm.gateways.talk import SentTurn, Talk
from agentvm.gateways.words import words_for
from agentvm.model.ids import ContainerId, ImageId, SessionId
from agentvm.model.message import ToolCall
from agentvm.model.session import STATELESS, Alias, Session
from agentvm.model.wait import WaitId
from agentvm.operations.text_answer import answer_open_question
from agentvm.sessions.seeding import SEEDS_MAX, SeedMessage, text_of

HISTORIES, REQUESTS = "openai.history", "openai.request"
"""The gateways of the aliases: digests of histories, and keys of requests."""
SESSION_HEADER, TOOLS_HEADER, KEY_HEADER = "x-avm-session", "x-avm-tools", "idempotency-key"
NEW = "new"
KEY_MAX = 200


@dataclass(frozen=True, slots=True)
class _Request:
    """A request, with what it means here."""

    talk: Talk
    body: ChatBody
    said: ChatConversation
    image_id: ImageId
    container_id: ContainerId
    named: str | None
    """The session that the caller has chosen, or `new`."""
    key: str | None

    @property
    def digest(self) -> str:
        return digest_of(self.body.model, self.said.history)


async def complete(ask: Ask[ChatBody], talk: Talk) -> GatewayReply:
    """Answers a chat completion, in one piece or as chunks."""
    body = ask.body
    if (model := relayed_model(talk, body.model)) is not None:
        return await relay_chat(ask, talk, model)
    options = read_options(body)
    conversation = read_conversation(body)
    named, key = ask.headers.get(SESSION_HEADER), ask.headers.get(KEY_HEADER)
    if key is not None and not 0 < len(key) <= KEY_MAX:
        raise InvalidInput(f"Idempotency-Key has 1 to {KEY_MAX} characters")
    container_id = talk.container(ask.headers.get(CONTAINER_HEADER), body.safety_identifier or body.user)
    image = await talk.agent(body.model, container_id)
    request = _Request(talk, body, conversation, image.image_id, image.container_id, named, key)
    session, taken = await _session(request)
    answered: WaitId | None = None
    try:
        if conversation.results:
            sent = await _answer(request, session)
        else:
            is_known = taken is not None or key is not None or named not in (None, NEW)
            question = await _answer_question(request, session) if is_known else None
            if question is not None:
                sent, answered = question
            else:
                sent = await talk.say(session.session_id, conversation.content, key=key, options=options)
    except AgentVMError:
        if taken is not None:
            # Nothing was said: the session still ends with this history.
            await talk.aliases(request.container_id).put(taken, session.session_id, talk.vm.clock())
        raise
    return await _reply(request, sent, answered, shows_tools=ask.headers.get(TOOLS_HEADER) == "show")


async def _session(request: _Request) -> tuple[Session, Alias | None]:
    """Returns the session, and the name that was taken from it."""
    talk, aliases = request.talk, request.talk.aliases(request.container_id)
    if request.named is not None and request.named != NEW:
        return await talk.session(request.named), None
    repeated = None if request.key is None else Alias(REQUESTS, request.key)
    if repeated is not None and (session_id := await aliases.find(repeated)) is not None:
        return await talk.repeated(session_id, request.image_id), None
    if request.said.history and request.named is None:
        history = Alias(HISTORIES, request.digest)
        session_id = await aliases.take(history)
        if session_id is not None:
            if repeated is not None:
                await aliases.put(repeated, session_id, talk.vm.clock())
            return await talk.session(session_id), history
    if request.said.results:
        raise InvalidInput(NOT_AWAITED)
    seeds = () if request.named == NEW else request.said.history
    if len(seeds) > SEEDS_MAX:
        raise InvalidInput(f"A conversation that is not known here has at most {SEEDS_MAX:,} messages before the last")
    if request.named == NEW:
        return await talk.open(request.image_id, repeated, seeds=seeds), None
    name = repeated or Alias(STATELESS, talk.vm.new_id("chat"))
    session = await talk.open(request.image_id, name, seeds=seeds, archived=True)
    if repeated is not None:
        await aliases.put(Alias(STATELESS, session.session_id), session.session_id, talk.vm.clock())
    return session, None


async def _answer(request: _Request, session: Session) -> SentTurn:
    """Answers the calls that wait for the caller, whose turn goes on."""
    talk = request.talk
    waits = await client_waits(talk, session_id=session.session_id)
    cursor = await talk.cursor(session)
    results = {result.tool_call_id or "": str(result.content) for result in request.said.results}
    return SentTurn(await talk.turn(await answer_calls(talk, waits, results)), cursor)


async def _answer_question(request: _Request, session: Session) -> tuple[SentTurn, WaitId] | None:
    """Answers the question that the answer before has ended with; returns the turn, which goes on after that question.

    None if nothing is asked. The same request again is the same answer.
    """
    talk, text = request.talk, request.said.content
    if not isinstance(text, str):
        return None
    with talk.context() as context:
        key = request.key or talk.vm.new_id("msg")
        turn_id = await answer_open_question(context, session.container_id, session.session_id, text, key)
        context.finish()
    if turn_id is None:
        return None
    answered = [wait for wait in await turn_waits(talk, session.session_id, turn_id) if wait.answered_at is not None]
    return await talk.sent(await talk.turn(turn_id)), max(answered, key=lambda wait: wait.answered_at or 0).wait_id


async def _unanswered(talk: Talk, sent: SentTurn) -> tuple[WaitId, ...]:
    """Returns the questions of a turn that were asked beside one that has been answered."""
    waits = await turn_waits(talk, sent.session_id, sent.turn_id)
    return tuple(wait.wait_id for wait in waits if wait.answered_at is None and wait.kind in ("question", "elicitation"))


async def _reply(request: _Request, sent: SentTurn, answered: WaitId | None, *, shows_tools: bool) -> GatewayReply:
    talk, body = request.talk, request.body
    with_usage = body.stream_options is not None and body.stream_options.include_usage
    created, completion_id = talk.vm.clock() // 1000, f"chatcmpl-{sent.turn_id}"
    words = words_for(text_of(request.said.last[0].content))
    chunks = ChatChunks(
        completion_id,
        body.model,
        created,
        with_usage=with_usage,
        shows_tools=shows_tools,
        words=words,
        after=answered,
        unanswered=() if answered is None else await _unanswered(talk, sent),
    )
    headers = {"X-AVM-Session": sent.session_id, "X-AVM-Turn": sent.turn_id}

    async def name_history() -> None:
        await _name(request, sent.session_id, chunks)

    # Whoever gives a key comes back for the answer; half of one would be no answer.
    interrupts = request.named is None and request.key is None
    if body.stream:
        streamed = stream_parts(talk, sent, chunks, on_end=name_history, interrupts=interrupts)
        return GatewayReply(content=streamed, media_type=MEDIA_TYPE, headers=headers)
    try:
        async for part in talk.parts(sent):
            chunks.write(part, 0)
            if chunks.is_done:
                break
    finally:
        if interrupts and not chunks.is_done:
            # The client has left.
            await talk.stop(sent)
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
    history = (*request.said.history, *request.said.last, answer)
    alias = Alias(HISTORIES, digest_of(request.body.model, history))
    await request.talk.aliases(request.container_id).put(alias, session_id, request.talk.vm.clock())


CHAT_ROUTES = (GatewayRoute(method="POST", path="/chat/completions", handler=complete, body=ChatBody, keeps_content=True),)
