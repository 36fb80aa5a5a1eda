"""Turn stream — the events of a turn as server-sent events, as they happen. The id of each is its cursor."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentvm.errors import NotFound
from agentvm.operations.http_reply import HttpReply, Streamed, StreamSource
from agentvm.operations.operation import Context
from agentvm.protocol.dialect_v1 import encode_stored_events

if TYPE_CHECKING:
    from agentvm.events.base import Event
    from agentvm.model.turn import Turn
    from agentvm.runtime.follow import TurnFollower

MEDIA_TYPE = "text/event-stream"
HEARTBEAT = b": \n\n"


def stream_turn(context: Context, turn: "Turn", after: int) -> HttpReply[Streamed]:
    """Returns the turn's events after that cursor, until the turn has ended."""
    follower = context.vm.runtime.follow_turn(context.tenant_id, turn, after)

    @contextmanager
    def opened() -> Iterator[StreamSource]:
        with follower:
            yield _TurnStream(follower)

    return HttpReply(content=Streamed(opened, HEARTBEAT, follows=True), media_type=MEDIA_TYPE)


class _TurnStream:
    def __init__(self, follower: "TurnFollower") -> None:
        self._follower = follower

    async def take(self) -> bytes:
        try:
            events = await self._follower.take()
        except NotFound:
            # The session was deleted: there is nothing more to tell.
            return b""
        return b"".join(map(encode_sse, events))


def encode_sse(event: "Event") -> bytes:
    """Returns an event as a server-sent event."""
    number = b"id: %d\n" % event.seq if event.seq else b""
    return b"%bevent: %b\ndata: %b\n\n" % (number, event.data.type.encode(), encode_stored_events(event).bare.encode())
