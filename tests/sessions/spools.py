"""Spools — with a few records on them."""

import msgspec
from tests.conformance.records import default_session, image, message, session, turn

from agentvm.model.ids import MessageId, TurnId
from agentvm.model.message import UserMessage
from agentvm.model.session import Fork
from agentvm.sessions.spool import Spool

ENDED = turn("turn_1", outcome="completed", ended=2)


def put(spool: Spool) -> None:
    """An image with two sessions, the second forked from the first, in which something was said."""
    spool.add_image(image())
    spool.add_session(default_session(image()))
    spool.add_turn(ENDED)
    spool.add_message(UserMessage(id=MessageId("m1"), timestamp=1, role="user", content="a", turn_id=TurnId("turn_1")))
    spool.add_message(message("m2"))
    forked = Fork(session_id=image().session_id, message_id=MessageId("m1"))
    spool.add_session(msgspec.structs.replace(session("s2"), forked_from=forked))
