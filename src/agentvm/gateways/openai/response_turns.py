"""Response turns — the turn behind the id of a response, and the session behind the id of a conversation."""

from dataclasses import dataclass
from typing import Any

from agentvm.errors import InvalidInput, NotFound, SessionNotFound, not_found
from agentvm.gateways.openai.choices import shown_choice
from agentvm.gateways.openai.response_body import ResponseAbout, about_of
from agentvm.gateways.openai.response_events import ResponseEvents
from agentvm.gateways.openai.response_items import parts_of
from agentvm.gateways.talk import Talk
from agentvm.model.ids import ContainerId, ImageId, SessionId
from agentvm.model.message import Message
from agentvm.model.session import Alias, Session
from agentvm.model.turn import Turn, TurnOptions
from agentvm.operations.branch import SessionFork
from agentvm.operations.pages import is_number
from agentvm.operations.session import SessionDelete
from agentvm.operations.session_lists import SessionHistory
from agentvm.runtime.history import in_order

CONVERSATIONS, DELETED = "openai.conversation", "openai.deleted"
"""The gateways of the aliases: names of conversations, and of responses that were deleted while their session stays."""
RESPONSE_PREFIX, CONVERSATION_PREFIX = "resp_", "conv_"
PAGE_MAX = 200
MESSAGES_MAX = 2_000
"""Messages of one conversation that are listed."""


@dataclass(frozen=True, slots=True)
class FoundResponse:
    """A response: its turn, and its place in it."""

    turn: Turn
    number: int

    @property
    def response_id(self) -> str:
        return response_id(self.turn, self.number)

    @property
    def about(self) -> ResponseAbout:
        return about_of(self.turn.options, self.turn.image_id)

    @property
    def client_tools(self) -> frozenset[str]:
        return client_tools(self.turn)

    async def events(self, talk: Talk, after: int = -1) -> ResponseEvents:
        """Returns a writer of the response that nothing has been told yet."""
        head = head_of(self, await conversation_id(talk, self.turn.container_id, self.turn.session_id))
        return ResponseEvents(head, client_tools=self.client_tools, number=self.number, after=after)

    async def read(self, talk: Talk, after: int = -1) -> tuple[ResponseEvents, bytes]:
        """Returns the response as far as it is told, and its events. `NotFound` when the turn has not come so far."""
        parts, is_complete = await talk.read_parts(self.turn)
        if not is_complete:
            parts = [*parts_of(self.turn, await turn_messages(talk, self.turn), self.client_tools)]
        events = await self.events(talk, after)
        written = events.begin() + b"".join(events.write(part, 0) for part in parts)
        if not events.has_begun:
            raise not_found("Response", response_id(self.turn, self.number))
        return events, written


def response_id(turn: Turn, number: int) -> str:
    return f"{RESPONSE_PREFIX}{turn.turn_id}" if number == 1 else f"{RESPONSE_PREFIX}{turn.turn_id}-{number}"


def client_tools(turn: Turn) -> frozenset[str]:
    return frozenset() if turn.options is None else frozenset(tool.name for tool in turn.options.tools)


async def find_response(talk: Talk, named: str) -> FoundResponse:
    """Returns a response within reach; `NotFound` for any other, and for one that was deleted."""
    talk.principal.require("agent:use")
    turn_id, _, number = named.removeprefix(RESPONSE_PREFIX).partition("-")
    is_named = named.startswith(RESPONSE_PREFIX) and (number == "" or (is_number(number) and number == str(int(number)) != "1"))
    try:
        turn = await talk.turn(turn_id if is_named else "")
        await talk.session(turn.session_id)
    except NotFound:
        raise not_found("Response", named) from None
    if await talk.aliases(turn.container_id).find(Alias(DELETED, named)) is not None:
        raise not_found("Response", named)
    return FoundResponse(turn, int(number or 1))


def head_of(stored: FoundResponse, conversation: str) -> dict[str, Any]:
    """Returns the members of a response that its turn does not change."""
    turn, about, options = stored.turn, stored.about, stored.turn.options
    tools = () if options is None else options.tools
    return {
        "id": stored.response_id,
        "object": "response",
        "created_at": turn.accepted_at // 1000,
        "completed_at": None,
        "model": about.model,
        "instructions": None if options is None else options.instructions,
        "previous_response_id": about.previous if stored.number == 1 else response_id(turn, stored.number - 1),
        "conversation": {"id": conversation},
        "background": about.background,
        "store": about.store,
        "metadata": about.metadata,
        "parallel_tool_calls": True,
        "tool_choice": shown_choice(None if options is None else options.tool_choice),
        "tools": [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in tools
        ],
        "text": {"format": _format(options)},
        "reasoning": {"effort": None, "summary": None},
        "truncation": "disabled",
        "temperature": None if options is None else options.temperature,
        "top_p": None,
        "max_output_tokens": None if options is None else options.max_tokens,
    }


def _format(options: TurnOptions | None) -> dict[str, Any]:
    if options is None or options.output is None:
        return {"type": "text"}
    return {"type": "json_schema", "name": options.output.name, "schema": options.output.schema, "strict": True}


async def turn_messages(talk: Talk, turn: Turn) -> list[Message]:
    """Returns the messages of a turn; `NotFound` when they were rewound."""
    page = await talk.ask(SessionHistory(session_id=turn.session_id, around=turn.message_id, limit=PAGE_MAX))
    messages: list[Message] = []
    while True:
        messages += (message for message in page.messages if turn.turn_id == message.turn_id or message.id == turn.message_id)
        # Another turn's may stand between: a message that was queued is stored before the turn ahead of it has ended.
        if page.next_cursor is None or (page.messages and page.messages[-1].turn_id not in (None, turn.turn_id)):
            return in_order(messages)
        page = await talk.ask(SessionHistory(session_id=turn.session_id, cursor=page.next_cursor, limit=PAGE_MAX))


async def session_messages(talk: Talk, session: Session) -> list[Message]:
    """Returns the messages of a session, the oldest first; of a long one the newest."""
    page = await talk.ask(SessionHistory(session_id=session.session_id, order="newest", limit=PAGE_MAX))
    messages = list(page.messages)
    while page.next_cursor is not None and len(messages) < MESSAGES_MAX:
        page_request = SessionHistory(session_id=session.session_id, order="newest", cursor=page.next_cursor, limit=PAGE_MAX)
        page = await talk.ask(page_request)
        messages += page.messages
    return in_order(messages[::-1])


async def conversation_id(talk: Talk, container_id: ContainerId, session_id: SessionId) -> str:
    """Returns the name of a session as a conversation."""
    names = await talk.aliases(container_id).of_session(CONVERSATIONS, session_id)
    return names[0] if names else f"{CONVERSATION_PREFIX}{session_id}"


async def find_conversation(talk: Talk, named: str, container_id: ContainerId) -> Session:
    """Returns the session of a conversation within reach; `NotFound` for any other."""
    talk.principal.require("agent:use")
    try:
        moved = await talk.aliases(container_id).find(Alias(CONVERSATIONS, named))
        is_named = named.startswith(CONVERSATION_PREFIX)
        return await talk.session(moved or (named.removeprefix(CONVERSATION_PREFIX) if is_named else ""))
    except SessionNotFound:
        raise not_found("Conversation", named) from None


async def go_on(talk: Talk, stored: FoundResponse, image_id: ImageId) -> Session:
    """Returns the session to continue in after a response: its own if it ends with it, else a fork that does."""
    turn, session = stored.turn, await talk.session(stored.turn.session_id)
    newest = (await talk.ask(SessionHistory(session_id=session.session_id, order="newest", limit=1))).messages
    is_last = bool(newest) and turn.turn_id == newest[-1].turn_id
    if is_last and session.image_id == image_id:
        return session
    if turn.outcome is None:
        raise InvalidInput("The previous response has not ended yet")
    last = (await turn_messages(talk, turn))[-1].id
    return await _forked(talk, SessionFork(session_id=session.session_id, message_id=last, image_id=image_id))


async def go_on_in(talk: Talk, named: str, session: Session, image_id: ImageId) -> Session:
    """Returns the session of a conversation for that agent: with another agent it continues in a fork, under the same name."""
    if session.image_id == image_id:
        return session
    forked = await _forked(talk, SessionFork(session_id=session.session_id, image_id=image_id))
    await talk.aliases(session.container_id).put(Alias(CONVERSATIONS, named), forked.session_id, talk.vm.clock())
    if session.last_message_at is None:
        await talk.ask(SessionDelete(session_id=session.session_id))
    return forked


async def _forked(talk: Talk, request: SessionFork) -> Session:
    record = (await talk.ask(request)).session
    assert record is not None
    return await talk.session(record.session_id)
