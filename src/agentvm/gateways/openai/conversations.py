"""Conversations — sessions that a caller creates before it talks in them."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agentvm.errors import NotFound, Unprocessable
from agentvm.gateways.openai.models import CONTAINER_HEADER
from agentvm.gateways.openai.response_body import InputItem, check_metadata, read_items
from agentvm.gateways.openai.response_items import ITEMS_MAX, items_of, page_of
from agentvm.gateways.openai.response_turns import (
    CONVERSATION_PREFIX,
    CONVERSATIONS,
    client_tools,
    find_conversation,
    session_messages,
)
from agentvm.gateways.routes import Ask, GatewayReply, GatewayRoute, Lenient, NoBody
from agentvm.gateways.talk import Talk
from agentvm.model.session import Alias, Session
from agentvm.operations.message_ask import DEFAULT_AGENT
from agentvm.operations.session import SessionDelete, SessionSetTitle
from agentvm.storage.sql.aliases import NamedQuery

AGENT_HEADER = "x-avm-agent"
TURNS_MAX = 100
"""Turns whose tools are looked at to tell the caller's calls from the agent's."""


class ConversationBody(Lenient, frozen=True):
    items: tuple[InputItem, ...] | None = None
    metadata: dict[str, str] | None = None


async def create_conversation(ask: Ask[ConversationBody], talk: Talk) -> GatewayReply:
    """Creates a conversation with these items. Its agent is the one of the first response in it."""
    container_id, metadata = talk.container(ask.headers.get(CONTAINER_HEADER)), ask.body.metadata or {}
    check_metadata(metadata)
    image = await talk.agent(ask.headers.get(AGENT_HEADER, DEFAULT_AGENT), container_id)
    seeds, _ = read_items(ask.body.items or ())
    session = await talk.open(image.image_id, None, seeds=seeds, title=metadata.get("title"))
    named = f"{CONVERSATION_PREFIX}{session.session_id}"
    await _store_metadata(talk, session, named, metadata)
    return GatewayReply(content=await _shown(talk, session, named))


async def show_conversation(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    return GatewayReply(content=await _shown(talk, await _find(ask, talk), ask.path["conversation_id"]))


async def update_conversation(ask: Ask[ConversationBody], talk: Talk) -> GatewayReply:
    """Replaces the metadata of a conversation, of which the title is that of its session."""
    session, named, metadata = await _find(ask, talk), ask.path["conversation_id"], ask.body.metadata or {}
    check_metadata(metadata)
    await talk.ask(SessionSetTitle(session_id=session.session_id, title=metadata.get("title")))
    await _store_metadata(talk, session, named, metadata)
    return GatewayReply(content=await _shown(talk, await talk.session(session.session_id), named))


async def add_items(ask: Ask[ConversationBody], talk: Talk) -> GatewayReply:
    """Gives a conversation its first messages. Later ones are those of responses."""
    named, session = ask.path["conversation_id"], await _find(ask, talk)
    seeds, _ = read_items(ask.body.items or ())
    if await session_messages(talk, session):
        raise Unprocessable("This conversation has begun: further messages and results are the input of its responses")
    filled = await talk.open(session.image_id, None, seeds=seeds, title=session.title)
    await talk.aliases(session.container_id).put(Alias(CONVERSATIONS, named), filled.session_id, talk.vm.clock())
    await talk.ask(SessionDelete(session_id=session.session_id))
    items = items_of(await session_messages(talk, filled), frozenset())
    return GatewayReply(content=page_of(items, {"order": "asc", "limit": str(ITEMS_MAX)}))


async def delete_conversation(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    named, session = ask.path["conversation_id"], await _find(ask, talk)
    await talk.ask(SessionDelete(session_id=session.session_id))
    if named != f"{CONVERSATION_PREFIX}{session.session_id}":
        # It has gone on with another agent; its beginning is another session.
        with suppress(NotFound):
            await talk.ask(SessionDelete(session_id=(await _find(ask, talk)).session_id))
    return GatewayReply(content={"id": named, "object": "conversation.deleted", "deleted": True})


async def list_items(ask: Ask[NoBody], talk: Talk) -> GatewayReply:
    """Lists the messages, calls and results of a conversation."""
    session = await _find(ask, talk)
    turns = await talk.turns(session, TURNS_MAX)
    tools = frozenset[str]().union(*(client_tools(turn) for turn in turns))
    return GatewayReply(content=page_of(items_of(await session_messages(talk, session), tools), ask.query))


async def _find(ask: Ask[Any], talk: Talk) -> Session:
    talk.principal.require("agent:use")
    container_id = talk.container(ask.headers.get(CONTAINER_HEADER))
    return await find_conversation(talk, ask.path["conversation_id"], container_id)


async def _read_metadata(talk: Talk, session: Session, named: str) -> dict[str, Any]:
    """Returns the metadata of a conversation but for its title."""
    aliases = await talk.aliases(session.container_id).list(CONVERSATIONS, NamedQuery(external=named))
    return aliases[0].metadata if aliases else {}


async def _store_metadata(talk: Talk, session: Session, named: str, metadata: Mapping[str, str]) -> None:
    """Stores the metadata of a conversation with its name."""
    others = {name: value for name, value in metadata.items() if name != "title"}
    if others or await _read_metadata(talk, session, named):
        aliases, alias = talk.aliases(session.container_id), Alias(CONVERSATIONS, named)
        await aliases.put(alias, session.session_id, talk.vm.clock())
        await aliases.set_metadata(alias, others)


async def _shown(talk: Talk, session: Session, named: str) -> dict[str, object]:
    title = {} if session.title is None else {"title": session.title}
    metadata = {**await _read_metadata(talk, session, named), **title}
    return {"id": named, "object": "conversation", "created_at": session.created_at // 1000, "metadata": metadata}


CONVERSATION_ROUTES = (
    GatewayRoute(method="POST", path="/conversations", handler=create_conversation, body=ConversationBody),
    *(
        GatewayRoute(
            method=method,
            path=f"/conversations/{{conversation_id}}{path}",
            handler=handler,
            body=body,
            names={"conversation_id": "conversation_id"},
        )
        for method, path, handler, body in (
            ("GET", "", show_conversation, NoBody),
            ("POST", "", update_conversation, ConversationBody),
            ("DELETE", "", delete_conversation, NoBody),
            ("GET", "/items", list_items, NoBody),
            ("POST", "/items", add_items, ConversationBody),
        )
    ),
)
