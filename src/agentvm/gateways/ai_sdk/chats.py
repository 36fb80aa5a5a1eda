"""AI SDK chats — a chat is a session under the name that its page has for it; each message of the assistant is a turn."""

from agentvm.errors import InvalidInput
from agentvm.gateways.ai_sdk.chat_body import (
    REGENERATE,
    UiChatBody,
    edit_key,
    is_edit,
    read_answers,
    read_content,
    read_options,
    regenerate_key,
)
from agentvm.gateways.ai_sdk.ui_chunks import UiChunks
from agentvm.gateways.blocks import WHOLE, Stretch
from agentvm.gateways.client_calls import answer_waits, entire_turn
from agentvm.gateways.routes import Ask, GatewayReply, NoBody
from agentvm.gateways.sse import MEDIA_TYPE, stream_parts
from agentvm.gateways.talk import SentTurn, Talk
from agentvm.gateways.threads import find_named_turn, open_thread, running_turn
from agentvm.model.message import UserContent, UserMessage
from agentvm.model.session import Alias, Session
from agentvm.model.turn import Turn
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
        sent = await _send(ask, talk, alias)
    return _reply(talk, sent, stretch)


async def _send(ask: Ask[UiChatBody], talk: Talk, alias: Alias) -> SentTurn:
    body, last = ask.body, ask.body.last
    content, options = read_content(last), read_options(body)
    session = await open_thread(ask, talk, alias)
    replaced = None if body.message_id is None else await find_named_turn(talk, session, body.message_id)
    if replaced is None:
        return await talk.send(session.session_id, content, key=last.id or None, options=options)
    content = await talk.attach(session.container_id, content)
    if is_edit(replaced.client_key) and await _has_content(talk, replaced, content):
        # The same edit again is the same.
        return await talk.sent(replaced)
    edit = MessageEdit(
        session_id=session.session_id,
        message_id=replaced.message_id,
        content=content,
        client_message_id=edit_key(last.id, content, replaced.message_id),
        on_busy="interrupt",
        options=options,
    )
    return await talk.sent(await talk.turn((await talk.ask(edit)).turn_id or ""))


async def _has_content(talk: Talk, turn: Turn, content: UserContent) -> bool:
    log = talk.context().workspace.store.container(turn.container_id).log(turn.session_id)
    return any(isinstance(row, UserMessage) and row.content == content for row in await log.get_messages([turn.message_id]))


async def _regenerate(body: UiChatBody, talk: Talk, session: Session) -> SentTurn:
    """Regenerates the answer that is named, or the last one."""
    named = body.message_id or body.last.id
    question = await find_named_turn(talk, session, named)
    if question is None and body.message_id is not None:
        question = await find_named_turn(talk, session, body.last.id)
    if question is None and body.last.role != "user":
        raise InvalidInput("There is no message to answer again")
    request = MessageRegenerate(
        session_id=session.session_id,
        message_id=None if question is None else question.message_id,
        client_message_id=regenerate_key(body, talk.vm.new_id),
        on_busy="interrupt",
        options=read_options(body),
    )
    return await talk.sent(await talk.turn((await talk.ask(request)).turn_id or ""))


async def resume(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Answers the turn of a chat that runs, from its beginning; 204 when none does."""
    sent = await running_turn(ask, talk, Alias(CHATS, ask.path["chat"]))
    return _nothing() if sent is None else _reply(talk, sent, await entire_turn(talk, sent))


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
