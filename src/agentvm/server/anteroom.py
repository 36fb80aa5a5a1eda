"""Anteroom — where a socket without credentials waits: a browser can only send them in a frame, once it is open.

Meanwhile a request is answered with an error and a subscription is kept; both for as long as a person needs, not longer.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import anyio
import msgspec

from agentvm.errors import AgentVMError, Unauthenticated
from agentvm.model.ids import Clock
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
    SubscribeReceived,
)
from agentvm.protocol.dialect_v1 import encode_reply
from agentvm.runtime.channel import Closing
from agentvm.server.credentials import bearer

PATIENCE = 10.0
"""Seconds until the credentials must be there."""

MAX_KEPT = 1_000
"""Subscriptions that are kept for somebody who may be nobody."""

MAX_ROOMS = 200
MAX_ROOMS_PER_ADDRESS = 20
"""Sockets that may wait at a time, and those of them that come from one place."""

NOT_YET = "Authentication is needed before anything else: send an auth frame, or connect with ?token="
UNKNOWN = Closing(4401, "unauthenticated")

Authenticate = Callable[[str], Awaitable[Principal]]
Read = Callable[[], Awaitable[str | bytes | None]]
"""The next text frame; None when the peer has gone."""
Write = Callable[[str], Awaitable[None]]


class Rooms:
    """How many wait, and from where."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()

    def hindrance(self, address: str) -> tuple[int, str] | None:
        """Why nobody else can wait, as a status and a text."""
        if self._taken[address] >= MAX_ROOMS_PER_ADDRESS:
            return 429, "Too many sockets from your address wait without credentials; connect with ?token="
        if self._taken.total() >= MAX_ROOMS:
            return 503, "Too many sockets wait without credentials; connect with ?token="
        return None

    @contextmanager
    def take(self, address: str) -> Iterator[None]:
        self._taken[address] += 1
        try:
            yield
        finally:
            self._taken[address] -= 1
            if not self._taken[address]:
                del self._taken[address]


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
                        await write(self._refusal(command.name, request_id, command.refused()))
                    case CommandRefused(name=name, request_id=request_id):
                        await write(self._refusal(name, request_id, Reply()))
                    case NoiseReceived() | Acked() | Dropped():
                        pass
            return None
        return UNKNOWN

    async def _recognise(self, headers: dict[str, str]) -> Principal | Closing:
        given = next((value for name, value in headers.items() if name.lower() == "authorization"), "")
        try:
            return await self._authenticate(bearer(given))
        except Unauthenticated:
            return UNKNOWN
        except AgentVMError:
            # The store could not be asked; the client comes back.
            return Closing(1013, "try again later")

    def _refusal(self, name: str, request_id: str | None, reply: Reply) -> str:
        refused = msgspec.structs.replace(reply, error=NOT_YET, error_code=Unauthenticated.code)
        return self._connection.send(encode_reply(name, request_id, refused, self._clock()))
