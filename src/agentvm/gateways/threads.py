"""Threads — conversations under names that their clients choose, for gateways whose paths name the agent."""

import re
from typing import Any

from agentvm.gateways.routes import Ask
from agentvm.gateways.talk import SentTurn, Talk
from agentvm.model.ids import SessionId
from agentvm.model.session import Alias, Session
from agentvm.model.turn import Turn
from agentvm.protocol.records import ImageRecord

RECENT_TURNS_MAX = 200
"""Turns among which changes of a message are looked for."""
_CHANGE = r"([0-9a-f]{32}|(turn|again)_\w+)"
"""An edit by its digest, an answer that is replaced by its turn, or another answer."""
CONTAINER_HEADER = "x-avm-container"


async def agent_of(ask: Ask[Any], talk: Talk, end_user: str | None = None) -> ImageRecord:
    """Returns the image of the agent in the path, for a user of the caller if the dialect names one."""
    talk.principal.require("agent:use")
    return await talk.agent(ask.path["agent"], talk.container(ask.headers.get(CONTAINER_HEADER), end_user))


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
    """Returns the turn of a conversation that runs; None when none does, or when it waits for an answer."""
    session = await find_thread(ask, talk, alias)
    turns = () if session is None else await talk.turns(session, 1)
    if not turns or turns[0].outcome is not None or turns[0].parked_at is not None:
        return None
    return await talk.sent(turns[0])


def key_of_change(named: str, change: str) -> str:
    """Returns the key of a message that takes the place of the one that the client has named so."""
    return f"{named}:{change}"


async def find_named_turn(talk: Talk, session: Session, named: str) -> Turn | None:
    """Returns the turn of the message that was sent under this name, or the turn of this name.

    Of a message that was edited or answered again, the turn that is in its place now.
    """
    log = talk.context().workspace.store.container(session.container_id).log(SessionId(session.session_id))
    turn: Turn | None = await log.find_turn(named)
    if turn is not None:
        is_changed = re.compile(rf"{re.escape(named)}:{_CHANGE}").fullmatch
        turns = await talk.turns(session, RECENT_TURNS_MAX)
        turn = next((row for row in turns if row.client_key is not None and is_changed(row.client_key)), turn)
    elif named.startswith("turn_"):
        turn = await talk.turn(named)
    return turn if turn is not None and turn.session_id == session.session_id else None
