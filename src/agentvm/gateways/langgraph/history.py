"""LangGraph history — the messages of a session as the values of a thread."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from agentvm.gateways.langgraph.messages import LangMessage, messages_of, up_to_turn
from agentvm.gateways.talk import Talk
from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import Message
from agentvm.model.session import Session
from agentvm.model.turn import Turn
from agentvm.operations.session_lists import SessionMessages
from agentvm.storage.sessions import TurnQuery, TurnStatus

READ = "sessions:read"


@dataclass(frozen=True, slots=True)
class History:
    """The messages of a session by the ids that clients use: a client's own messages by the client's ids."""

    messages: tuple[Message, ...]
    stored: Mapping[str, MessageId]
    """The ids of this server, by those of clients."""
    turns: Mapping[str, TurnId]
    """The turns of clients' messages by the clients' ids, including rewound ones."""

    def stored_id(self, message_id: str) -> MessageId:
        return self.stored.get(message_id, MessageId(message_id))


async def read_history(talk: Talk, of: Session | Turn) -> History:
    """Returns the messages of a session, as many of the newest as fit into memory."""
    # Before the messages: what was said in a turn that is known here is then among them, unless it was taken back.
    turns = await talk.context().workspace.store.container(of.container_id).log(of.session_id).list_turns()
    messages = (await talk.ask(SessionMessages(session_id=of.session_id))).messages
    keyed = [(turn.client_key, turn) for turn in turns if turn.client_key is not None]
    own = {turn.message_id: MessageId(client_id) for client_id, turn in keyed}
    shown = (msgspec.structs.replace(message, id=own[message.id]) if message.id in own else message for message in messages)
    stored = {client_id: turn.message_id for client_id, turn in keyed}
    return History(tuple(shown), stored, {client_id: turn.turn_id for client_id, turn in keyed})


async def list_turns(talk: Talk, session: Session, state: TurnStatus | None = None, limit: int = 100) -> tuple[Turn, ...]:
    """Returns the turns of a session, the newest first."""
    talk.principal.require(READ)
    sessions = await talk.context().sessions.within(session.container_id)
    query = TurnQuery(session_id=session.session_id, outcome=state, now=talk.vm.clock(), limit=limit)
    return (await sessions.turns(query)).items


async def read_values(talk: Talk, session: Session) -> list[LangMessage]:
    return messages_of((await read_history(talk, session)).messages)


async def read_before(talk: Talk, turn: Turn) -> list[LangMessage]:
    """Returns the messages before a turn, and its question."""
    return messages_of(up_to_turn((await read_history(talk, turn)).messages, turn.turn_id, whole=False))


async def read_after(talk: Talk, turn: Turn) -> list[LangMessage]:
    """Returns the messages at the end of a turn."""
    return messages_of(up_to_turn((await read_history(talk, turn)).messages, turn.turn_id, whole=True))
