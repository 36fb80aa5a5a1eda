"""Observer — hands the events a peer receives to its handlers and to those who iterate over them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from agentvm.protocol.link import EventHandler, Unsubscribe, WireEvent

BACKLOG_MAX = 10_000
"""Events an iterator may be behind before it is ended: better an error than a server's worth of memory."""


class Observer:
    """Handlers are called in the order they were added; an exception in one is its owner's and ends the link."""

    def __init__(self) -> None:
        self._handlers: dict[str, dict[object, EventHandler]] = {}
        self._streams: dict[MemoryObjectSendStream[WireEvent], None] = {}

    def on(self, kind: str | EventHandler, handler: EventHandler | None = None) -> Unsubscribe:
        """Without a kind the handler is called for every event."""
        name, called = (kind, handler) if isinstance(kind, str) else ("*", kind)
        if called is None:
            raise TypeError("on() needs a handler")
        key = object()
        self._handlers.setdefault(name, {})[key] = called

        def unsubscribe() -> None:
            self._handlers.get(name, {}).pop(key, None)

        return unsubscribe

    @asynccontextmanager
    async def events(self) -> AsyncIterator[MemoryObjectReceiveStream[WireEvent]]:
        send, receive = anyio.create_memory_object_stream[WireEvent](BACKLOG_MAX)
        self._streams[send] = None
        try:
            yield receive
        finally:
            self._streams.pop(send, None)
            send.close()
            receive.close()

    def react(self, event: WireEvent) -> None:
        for kind in (event.type, "*"):
            # A copy: a handler may unsubscribe while we iterate.
            for handler in tuple(self._handlers.get(kind, {}).values()):
                handler(event)
        for stream in tuple(self._streams):
            try:
                stream.send_nowait(event)
            except (anyio.WouldBlock, anyio.BrokenResourceError):  # too far behind, or closed by its owner
                self._end(stream)

    def end_streams(self) -> None:
        """Iterators end after the events that they already have."""
        for stream in tuple(self._streams):
            self._end(stream)

    def _end(self, stream: MemoryObjectSendStream[WireEvent]) -> None:
        self._streams.pop(stream, None)
        stream.close()
