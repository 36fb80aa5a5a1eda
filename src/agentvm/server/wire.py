"""Wire — how one socket is written to. Our own protocol is one; for another ASGI server there is `PlainWire`."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from agentvm.model.ids import TenantId

WIRE = "agentvm.wire"
"""The ASGI extension under which a socket's handler finds its wire."""


class Wire(Protocol):
    """A socket's sending side."""

    def send(self, message: Any, /) -> Awaitable[None]:
        """Sends an ASGI message."""

    def send_now(self, texts: Sequence[str]) -> bool:
        """Sends all texts with one write; False, and nothing is sent, if the peer must read first. `OSError` if it is gone."""

    async def send_all(self, texts: Sequence[str]) -> None:
        """Sends all texts with one write, as soon as the peer has read enough. `OSError` if it is gone."""

    async def drain(self) -> None:
        """Returns when the peer has taken nearly all of the sent bytes."""

    def trust(self, tenant_id: TenantId) -> None:
        """Notes that the peer has authenticated: from now on it may send large frames."""

    def abort(self) -> None:
        """Ends the socket at once: a peer that does not read never lets `close` finish."""


class PlainWire:
    """The wire of an ASGI server that offers no more than `send`."""

    __slots__ = ("_abort", "send")

    def __init__(self, send: Callable[[Any], Awaitable[None]], abort: Callable[[], None] = lambda: None) -> None:
        """Without `abort` a peer that never reads holds its socket until the ASGI server gives up."""
        self.send = send
        self._abort = abort

    def send_now(self, texts: Sequence[str]) -> bool:
        return False

    async def send_all(self, texts: Sequence[str]) -> None:
        for text in texts:
            await self.send({"type": "websocket.send", "text": text})

    async def drain(self) -> None: ...

    def trust(self, tenant_id: TenantId) -> None: ...

    def abort(self) -> None:
        self._abort()
