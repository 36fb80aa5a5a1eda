"""Handshake — a socket that opens without credentials: a browser can only send them in a frame, once it is open.

Meanwhile a request is answered with an error and a subscription is remembered, until the timeout. `pending_sockets.py` bounds
how many sockets may wait at a time.
"""

from collections.abc import Awaitable, Callable

import anyio
import msgspec

from agentvm.errors import AgentVMError, Unauthenticated
from agentvm.events.base import Event, EventScope
from agentvm.events.error import CommandError
from agentvm.model.ids import DEFAULT_TENANT, Clock
from agentvm.model.principal import Principal
from agentvm.protocol.connection import (
    Acked,
    AuthReceived,
    CommandReceived,
    CommandRefused,
    Dropped,
    FollowReceived,
    NoiseReceived,
    PeerConnection,
    RpcReceived,
    SubscribeReceived,
    UnsubscribeReceived,
)
from agentvm.protocol.dialect_v1 import encode_event, encode_reply
from agentvm.protocol.requests import Reply
from agentvm.protocol.rpc import refuse_rpc
from agentvm.runtime.channel import Closing
from agentvm.server.credentials import bearer
from agentvm.vm import EXPIRED, REVOKED, SUSPENDED

HANDSHAKE_TIMEOUT_SECONDS = 10.0

SUBSCRIPTIONS_MAX = 1_000
"""Subscriptions that are remembered for a peer that may never authenticate."""

NOT_YET = "Authentication is needed before anything else: send an auth frame, or connect with ?token="
UNKNOWN = Closing(4401, "unauthenticated")
_CLOSINGS: dict[object, Closing] = {"revoked": REVOKED, "expired": EXPIRED, "suspended": SUSPENDED}
"""For a peer that has proved that it holds the credentials: the same as when rights end during a connection."""

Authenticate = Callable[[str], Awaitable[Principal]]
ReadFrame = Callable[[], Awaitable[str | bytes | None]]
"""The next text frame; None when the peer has gone."""
WriteFrame = Callable[[str], Awaitable[None]]


class Handshake:
    """One socket that has not authenticated."""

    def __init__(self, connection: PeerConnection, authenticate: Authenticate, clock: Clock) -> None:
        self._connection = connection
        self._authenticate = authenticate
        self._clock = clock
        self.kept: list[SubscribeReceived | FollowReceived] = []

    async def wait(self, read: ReadFrame, write: WriteFrame) -> Principal | Closing | None:
        """Returns the principal, or the reason to close the socket, or None when the peer has gone."""
        with anyio.move_on_after(HANDSHAKE_TIMEOUT_SECONDS):
            while (text := await read()) is not None:
                match self._connection.receive(text):
                    case AuthReceived(headers=headers):
                        return await self._authenticated(headers)
                    case SubscribeReceived() | FollowReceived() as subscription:
                        if len(self.kept) < SUBSCRIPTIONS_MAX:
                            self.kept.append(subscription)
                    case CommandReceived(request=request, name=name, request_id=request_id):
                        await self._refuse(write, name, request_id, request.refused())
                    case CommandRefused(name=name, request_id=request_id):
                        await self._refuse(write, name, request_id, Reply())
                    case NoiseReceived(error=error):
                        await self._tell(write, error, None)
                    case RpcReceived(request_id=raw):
                        await write(self._connection.send(refuse_rpc(raw)))
                    case Acked() | Dropped() | UnsubscribeReceived():
                        pass
            return None
        return UNKNOWN

    async def _authenticated(self, headers: dict[str, str]) -> Principal | Closing:
        authorization = next((value for name, value in headers.items() if name.lower() == "authorization"), "")
        try:
            return await self._authenticate(bearer(authorization))
        except Unauthenticated as error:
            return _CLOSINGS.get(error.details.get("reason"), UNKNOWN)
        except AgentVMError:
            # The store failed; the client tries again.
            return Closing(1013, "try again later")

    async def _refuse(self, write: WriteFrame, name: str, request_id: str | None, reply: Reply) -> None:
        """Sends the event that clients show, then the reply, as for every refusal."""
        error = Unauthenticated(NOT_YET)
        await self._tell(write, error, request_id)
        refused = msgspec.structs.replace(reply, error=str(error), error_code=error.code)
        await write(self._connection.send(encode_reply(name, request_id, refused, self._clock())))

    async def _tell(self, write: WriteFrame, error: AgentVMError, request_id: str | None) -> None:
        data = CommandError(message=str(error), request_id=request_id, severity="error", code=error.code)
        frame = encode_event(Event(data=data, scope=EventScope(), timestamp=self._clock(), tenant_id=DEFAULT_TENANT))
        if frame is not None:
            await write(self._connection.send(frame))
