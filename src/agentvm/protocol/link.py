"""Link — the connection of a client to a runtime: a socket and a call look the same from here."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol, TypeVar, overload

import msgspec

from agentvm.model.base import Record
from agentvm.protocol.requests import Reply, Request

R = TypeVar("R", bound=Reply)


class WireEvent(Record):
    """An event as a peer receives it."""

    type: str
    timestamp: int = 0
    data: dict[str, object] = msgspec.field(default_factory=dict)
    context: dict[str, str] = msgspec.field(default_factory=dict)
    source: str = ""
    category: str = ""
    intent: str = ""
    cursor: str | None = None
    """The event's place in its session: pass it to `subscribe` to receive the later ones."""


EventHandler = Callable[[WireEvent], None]
Unsubscribe = Callable[[], None]


ChannelState = Literal["open", "waiting", "closed", "refused"]
"""Connected; lost and trying again; closed by `disconnect`; or ended by the server, which does not accept the credentials."""


class RuntimeLink(Protocol):
    """A way to a runtime: the `channel` of a peer."""

    @property
    def state(self) -> ChannelState: ...

    async def connect(self) -> None:
        """Returns when the channel is open, also again after `disconnect` or a loss; within a process it opens only once."""

    async def disconnect(self) -> None:
        """Closes the channel until `connect`. Requests fail with `ChannelClosed`, and iterators end."""

    async def ask(self, request: Request[R]) -> R:
        """Raises the error the command failed with."""

    async def request(self, kind: str, data: dict[str, object]) -> WireEvent:
        """Like `ask`, by the names of the wire: `request("image_get_request", {"imageId": …})`."""

    async def send(self, frame: Mapping[str, object]) -> None:
        """Sends a frame as it is: `send({"type": "subscribe", "sessionId": …, "afterCursor": …})`. Answers come as events."""

    @overload
    def on(self, kind: EventHandler) -> Unsubscribe: ...

    @overload
    def on(self, kind: str, handler: EventHandler) -> Unsubscribe: ...

    def on(self, kind: str | EventHandler, handler: EventHandler | None = None) -> Unsubscribe:
        """Calls the handler for every event, or for those of one type: `on(handler)`, `on("text_delta", handler)`."""

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[WireEvent]]:
        """Every event from entering on, in order; ends when the link does."""
