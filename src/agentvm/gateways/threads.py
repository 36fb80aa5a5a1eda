"""Threads — conversations under names that their clients choose, for gateways whose paths name the agent."""

from typing import Any

from agentvm.gateways.routes import Ask
from agentvm.gateways.talk import SentTurn, Talk
from agentvm.model.ids import MessageId, SessionId
from agentvm.model.session import Alias, Session
from agentvm.model.turn import Turn
from agentvm.protocol.records import ImageRecord

CONTAINER_HEADER = "x-avm-container"


async def agent_of(ask: Ask[Any], talk: Talk) -> ImageRecord:
    """Returns the image of the agent in the path."""
    talk.principal.require("agent:use")
    return await talk.agent(ask.path["agent"], talk.container(ask.headers.get(CONTAINER_HEADER)))


async def open_thread(ask: Ask[Any], talk: Talk, alias: Alias) -> Session:
    """Returns the conversation of that name with the agent in the path, the first time a new one."""
    return await talk.open((await agent_of(ask, talk)).image_id, alias)


async def find_thread(ask: Ask[Any], talk: Talk, alias: Alias) -> Session | None:
    """Returns the conversation of that name with the agent in the path; None when there is none."""
    image = await agent_of(ask, talk)
    session_id = await talk.aliases(image.container_id).find(alias)
    session = None if session_id is None else await talk.session(session_id)
    return session if session is not None and session.image_id == image.image_id else None


async def running_turn(ask: Ask[Any], talk: Talk, alias: Alias) -> SentTurn | None:
    """Returns the turn of a conversation that runs; None when none does, or when it waits for somebody."""
    session = await find_thread(ask, talk, alias)
    turns = () if session is None else await talk.turns(session, 1)
    if not turns or turns[0].outcome is not None or turns[0].parked_at is not None:
        return None
    return await talk.sent(turns[0])


async def find_question(talk: Talk, session: Session, named: str) -> MessageId | None:
    """Returns the message of the user that was sent under this name, or that the turn of this name answers."""
    log = talk.context().workspace.store.container(session.container_id).log(SessionId(session.session_id))
    turn: Turn | None = await log.find_turn(named)
    if turn is None and named.startswith("turn_"):
        turn = await talk.turn(named)
    return turn.message_id if turn is not None and turn.session_id == session.session_id else None
