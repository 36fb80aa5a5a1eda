"""Anteroom — where a socket without credentials waits: a browser can only send them in a frame, once it is open.

Meanwhile a request is answered with an error and a subscription is kept; both for as long as a person needs, not longer. How
many may wait at a time is said in `rooms.py`.
"""

from collections.abc import Awaitable, Callable

import anyio
import msgspec

from agentvm.app import EXPIRED, REVOKED, SUSPENDED
from agentvm.errors import AgentVMError, Unauthenticated
from agentvm.events.base import Event, Scope
from agentvm.events.error import SystemError
from agentvm.model.ids import DEFAULT_TENANT, Clock
from agentvm.model.principal import Principal
from agentvm.protocol.commands import Reply
from agentvm.protocol.connection import (
    Acked,
    AuthReceived,
    CommandReceived,
    CommandRefused,
    Connection,
    Dropped,
    NoiseReceived,
    RpcReceived,
    SubscribeReceived,
)
from agentvm.protocol.dialect_v1 import encode_event, encode_reply
from agentvm.protocol.rpc import refuse_rpc
from agentvm.runtime.channel import Closing
from agentvm.server.credentials import bearer

PATIENCE = 10.0
"""Seconds until the credentials must be there."""

MAX_KEPT = 1_000
"""Subscriptions that are kept for somebody who may be nobody."""

NOT_YET = "Authentication is needed before anything else: send an auth frame, or connect with ?token="
UNKNOWN = Closing(4401, "unauthenticated")
_CLOSINGS: dict[object, Closing] = {"revoked": REVOKED, "expired": EXPIRED, "suspended": SUSPENDED}
"""For who has shown that they hold the credentials: as for those whose rights end while they are connected."""

Authenticate = Callable[[str], Awaitable[Principal]]
Read = Callable[[], Awaitable[str | bytes | None]]
"""The next text frame; None when the peer has gone."""
Write = Callable[[str], Awaitable[None]]


class Anteroom:
    """One socket that has not said who it is."""

    def __init__(self, connection: Connection, authenticate: Authenticate, clock: Clock) -> None:
        self._connection = connection
        self._authenticate = authenticate
        self._clock = clock
        self.kept: list[SubscribeReceived] = []

    async def wait(self, read: Read, write: Write) -> Principal | Closing | None:
        """Who it is; or why the socket must be closed; None when it has gone."""
        with anyio.move_on_after(PATIENCE):
            while (text := await read()) is not None:
                match self._connection.receive(text):
                    case AuthReceived(headers=headers):
                        return await self._recognise(headers)
                    case SubscribeReceived() as wish:
                        if len(self.kept) < MAX_KEPT:
                            self.kept.append(wish)
                    case CommandReceived(command=command, request_id=request_id):
                        await self._refuse(write, command.name, request_id, command.refused())
                    case CommandRefused(name=name, request_id=request_id):
                        await self._refuse(write, name, request_id, Reply())
                    case NoiseReceived(error=error):
                        await self._tell(write, error, None)
                    case RpcReceived(request_id=raw):
                        await write(self._connection.send(refuse_rpc(raw)))
                    case Acked() | Dropped():
                        pass
            return None
        return UNKNOWN

    async def _recognise(self, headers: dict[str, str]) -> Principal | Closing:
        given = next((value for name, value in headers.items() if name.lower() == "authorization"), "")
        try:
            return await self._authenticate(bearer(given))
        except Unauthenticated as error:
            return _CLOSINGS.get(error.details.get("reason"), UNKNOWN)
        except AgentVMError:
            # The store could not be asked; the client comes back.
            return Closing(1013, "try again later")

    async def _refuse(self, write: Write, name: str, request_id: str | None, reply: Reply) -> None:
        """As every refusal: the event that clients show, then the reply."""
        error = Unauthenticated(NOT_YET)
        await self._tell(write, error, request_id)
        refused = msgspec.structs.replace(reply, error=str(error), error_code=error.code)
        await write(self._connection.send(encode_reply(name, request_id, refused, self._clock())))

    async def _tell(self, write: Write, error: AgentVMError, request_id: str | None) -> None:
        told = SystemError(message=str(error), request_id=request_id, severity="error", code=error.code)
        frame = encode_event(Event(data=told, scope=Scope(), timestamp=self._clock(), tenant_id=DEFAULT_TENANT))
        if frame is not None:
            await write(self._connection.send(frame))
