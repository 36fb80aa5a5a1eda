"""AI SDK chats — a chat is a session under the name that its page has for it; each message of the assistant is a turn."""

from agentvm.errors import InvalidInput
from agentvm.gateways.ai_sdk.chat_body import (
    REGENERATE,
    UiChatBody,
    edit_key,
    read_answers,
    read_content,
    read_options,
)
from agentvm.gateways.ai_sdk.ui_chunks import UiChunks
from agentvm.gateways.blocks import WHOLE, Stretch
from agentvm.gateways.client_calls import answer_waits, whole_turn
from agentvm.gateways.routes import Ask, GatewayReply, NoBody
from agentvm.gateways.sse import MEDIA_TYPE, stream_parts
from agentvm.gateways.talk import SentTurn, Talk
from agentvm.gateways.threads import find_question, open_thread, running_turn
from agentvm.model.session import Alias, Session
from agentvm.operations.message import MessageEdit, MessageRegenerate

CHATS = "ai_sdk"
"""The gateway of the aliases of chats."""
_HEADERS = {"x-vercel-ai-ui-message-stream": "v1"}


async def send(ask: Ask[UiChatBody], talk: Talk) -> GatewayReply:
    """Answers the last message of a chat as chunks. The same message again is the same turn, told from its beginning."""
    body, last = ask.body, ask.body.last
    alias, stretch = Alias(CHATS, body.id), WHOLE
    if body.trigger == REGENERATE:
        sent = await _regenerate(body, talk, await open_thread(ask, talk, alias))
    elif last.role == "assistant":
        answers = read_answers(last)
        sent, stretch = await answer_waits(talk, await open_thread(ask, talk, alias), answers)
    else:
        sent = await _say(ask, talk, alias)
    return _reply(talk, sent, stretch)


async def _say(ask: Ask[UiChatBody], talk: Talk, alias: Alias) -> SentTurn:
    body, last = ask.body, ask.body.last
    content, options = read_content(last), read_options(body)
    session = await open_thread(ask, talk, alias)
    replaced = None if body.message_id is None else await find_question(talk, session, body.message_id)
    if replaced is None:
        return await talk.say(session.session_id, content, key=last.id or None, options=options)
    edit = MessageEdit(
        session_id=session.session_id,
        message_id=replaced,
        content=await talk.attach(session.container_id, content),
        client_message_id=edit_key(last.id, content),
        on_busy="interrupt",
    )
    return await talk.sent(await talk.turn((await talk.ask(edit)).turn_id or ""))


async def _regenerate(body: UiChatBody, talk: Talk, session: Session) -> SentTurn:
    """Answers again what the message answers that is named, or the last message of the user."""
    named = body.message_id or body.last.id
    question = await find_question(talk, session, named)
    if question is None and body.message_id is not None:
        question = await find_question(talk, session, body.last.id)
    if question is None and body.last.role != "user":
        raise InvalidInput("There is no message to answer again")
    request = MessageRegenerate(session_id=session.session_id, message_id=question, on_busy="interrupt")
    return await talk.sent(await talk.turn((await talk.ask(request)).turn_id or ""))


async def resume(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Answers the turn of a chat that runs, from its beginning; 204 when none does."""
    sent = await running_turn(ask, talk, Alias(CHATS, ask.path["chat"]))
    return _nothing() if sent is None else _reply(talk, sent, await whole_turn(talk, sent))


async def stop(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Stops the turn of a chat that runs: a page that only leaves does not stop it."""
    sent = await running_turn(ask, talk, Alias(CHATS, ask.path["chat"]))
    if sent is not None:
        await talk.stop(sent)
    return _nothing()


def _nothing() -> GatewayReply:
    return GatewayReply(content=b"", status=204, headers=_HEADERS)


def _reply(talk: Talk, sent: SentTurn, stretch: Stretch) -> GatewayReply:
    options = sent.turn.options
    tools = frozenset[str]() if options is None else frozenset(tool.name for tool in options.tools)
    chunks = UiChunks(sent.turn_id, stretch=stretch, client_tools=tools)
    headers = {**_HEADERS, "X-AVM-Session": sent.session_id, "X-AVM-Turn": sent.turn_id}
    return GatewayReply(content=stream_parts(talk, sent, chunks, interrupts=False), media_type=MEDIA_TYPE, headers=headers)
