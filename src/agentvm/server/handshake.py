"""Handshake — a socket that opens without credentials, because a browser can only send them in a frame.

Meanwhile a request is answered with an error and a subscription is remembered, until the timeout. The requests of AgentX 2.x
are remembered too: its clients may send them before their credentials, and never send them again. `pending_sockets.py` bounds
how many sockets may wait at a time.
"""

from collections.abc import Awaitable, Callable

import anyio
import msgspec

from agentvm.errors import AgentVMError, Unauthenticated
from agentvm.events.base import Event, EventScope
from agentvm.events.error import CommandError
from agentvm.model.base import Record
from agentvm.model.ids import DEFAULT_TENANT, Clock
from agentvm.model.principal import Principal
from agentvm.protocol.codec import decode_headers
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
from agentvm.protocol.rpc import RpcCall, RpcInvalid, RpcProblem, encode_problem
from agentvm.runtime.channel import Closing
from agentvm.server.credentials import bearer
from agentvm.vm import EXPIRED, REVOKED, SUSPENDED

HANDSHAKE_TIMEOUT_SECONDS = 10.0

SUBSCRIPTIONS_MAX = 1_000
"""Subscriptions that are remembered for a peer that may never authenticate."""

CALLS_MAX = 64
CALLS_MAX_BYTES = 1024 * 1024
"""Requests of AgentX 2.x that are remembered for such a peer."""

NOT_YET = "Authentication is needed before anything else: send an auth frame, or connect with ?token="
UNKNOWN = Closing(4401, "unauthenticated")
_CLOSINGS: dict[object, Closing] = {"revoked": REVOKED, "expired": EXPIRED, "suspended": SUSPENDED}
"""For a peer that has proved that it holds the credentials: the same as when rights end during a connection."""

Authenticate = Callable[[str], Awaitable[Principal]]
ReadFrame = Callable[[], Awaitable[str | bytes | None]]
"""The next text frame; None when the peer has gone."""
WriteFrame = Callable[[str], Awaitable[None]]


class _AuthParams(Record):
    headers: msgspec.Raw = msgspec.Raw(b"{}")


_auth = msgspec.json.Decoder(_AuthParams)


class Handshake:
    """One socket that has not authenticated. `kept` are the frames to handle once it has."""

    def __init__(self, connection: PeerConnection, authenticate: Authenticate, clock: Clock) -> None:
        self._connection = connection
        self._authenticate = authenticate
        self._clock = clock
        self.kept: list[SubscribeReceived | FollowReceived | RpcReceived] = []
        self._kept_bytes = 0

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
                        await self._send_error(write, error, None)
                    case RpcReceived() as received:
                        if (sent := await self._keep(received, len(text), write)) is not None:
                            outcome = await self._authenticated(sent)
                            if isinstance(outcome, Closing):
                                await self._refuse_kept(write)
                            return outcome
                    case Acked() | Dropped() | UnsubscribeReceived():
                        pass
            return None
        await self._refuse_kept(write)
        return UNKNOWN

    async def _keep(self, received: RpcReceived, size: int, write: WriteFrame) -> dict[str, str] | None:
        """Remembers the requests of a frame, as far as there is room; returns the headers, if it brings the credentials."""
        headers = None
        for call in received.calls:
            if isinstance(call, RpcInvalid):
                await write(encode_problem(call.id, call.problem).bare)
            elif isinstance(call, RpcCall) and call.method == "auth" and call.id is None:
                headers = decode_headers(_auth.decode(call.params).headers)
        if len(self.kept) < CALLS_MAX and self._kept_bytes + size <= CALLS_MAX_BYTES:
            self._kept_bytes += size
            self.kept.append(RpcReceived([call for call in received.calls if isinstance(call, RpcCall)]))
        else:
            await self._refuse_calls(write, received)
        return headers

    async def _refuse_kept(self, write: WriteFrame) -> None:
        for received in self.kept:
            if isinstance(received, RpcReceived):
                await self._refuse_calls(write, received)

    async def _refuse_calls(self, write: WriteFrame, received: RpcReceived) -> None:
        for call in received.calls:
            if isinstance(call, RpcCall) and call.id is not None:
                await write(encode_problem(call.id, RpcProblem(401, NOT_YET, {"code": Unauthenticated.code})).bare)

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
        await self._send_error(write, error, request_id)
        refused = msgspec.structs.replace(reply, error=str(error), error_code=error.code)
        await write(self._connection.send(encode_reply(name, request_id, refused, self._clock())))

    async def _send_error(self, write: WriteFrame, error: AgentVMError, request_id: str | None) -> None:
        data = CommandError(message=str(error), request_id=request_id, severity="error", code=error.code)
        frame = encode_event(Event(data=data, scope=EventScope(), timestamp=self._clock(), tenant_id=DEFAULT_TENANT))
        if frame is not None:
            await write(self._connection.send(frame))
