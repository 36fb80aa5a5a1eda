"""HTTP socket — the socket of a client whose network lets no WebSocket through.

Theory of operation. `POST /ws` opens it: the response is a stream of server-sent events, one for each frame. The first names
the link, to which `POST /ws/{link}` sends frames, one in each line. Everything else is the same as over a WebSocket: what
is read is handed to the same code, with an inbox in place of the wire.
"""

import secrets
from collections.abc import Iterator, Sequence
from typing import Any, Final

import anyio
import msgspec

from agentvm.errors import InvalidInput
from agentvm.errors.bounds import ServerBusy
from agentvm.model.ids import TenantId
from agentvm.model.principal import Principal
from agentvm.protocol.codec import FRAME_MAX_BYTES
from agentvm.server.exchange import HttpError, HttpRequest, HttpResponse, Write
from agentvm.server.http.body import receive_body
from agentvm.server.http.gate import ENDLESS, HttpGate
from agentvm.server.idle import Inbox
from agentvm.server.router import HttpRoute
from agentvm.server.websocket import SocketContext, SocketRequest, serve_socket
from agentvm.sharing.reservation import FREE_BYTES, ConnectionReservation

PATH: Final = "/ws"
EVENTS: Final = "text/event-stream"
HEARTBEAT_SECONDS = 15.0
"""Time between two comments, without which proxies end a stream on which nothing is sent."""
WAITING_MAX_BYTES = 2 * FRAME_MAX_BYTES
"""Frames that wait for the one before them. A client sends its next request when this much was taken."""


class HttpWire:
    """Writes frames as server-sent events. A frame is JSON, so it has no line breaks."""

    __slots__ = ("_inbox", "_write")

    def __init__(self, write: Write, inbox: Inbox) -> None:
        self._write, self._inbox = write, inbox

    async def send(self, message: Any, /) -> None:
        if message["type"] == "websocket.send":
            await self.send_all((message["text"],))
        elif message["type"] == "websocket.close":
            why = {"code": message["code"], "reason": message.get("reason", "")}
            await self._write(_event(msgspec.json.encode(why).decode(), "close"))
            self.abort()

    def send_now(self, texts: Sequence[str]) -> bool:
        return False

    async def send_all(self, texts: Sequence[str]) -> None:
        if texts:
            await self._write(b"".join(map(_event, texts)))

    async def drain(self) -> None: ...

    def trust(self, tenant_id: TenantId) -> None: ...

    def abort(self) -> None:
        self._inbox.put_nowait({"type": "websocket.disconnect"})


def _event(text: str, kind: str = "") -> bytes:
    named = f"event: {kind}\n" if kind else ""
    return f"{named}data: {text}\n\n".encode()


class HttpLink:
    """One open socket: whose it is, and the frames that wait to be read."""

    __slots__ = ("_charge", "inbox", "principal")

    def __init__(self, principal: Principal, charge: ConnectionReservation) -> None:
        self.principal, self._charge = principal, charge
        self.inbox = Inbox()
        self.inbox.put_nowait({"type": "websocket.connect"})

    def is_of(self, principal: Principal) -> bool:
        mine, other = self.principal, principal
        return (mine.tenant_id, mine.user_id, mine.key_id) == (other.tenant_id, other.user_id, other.key_id)

    def put(self, text: str) -> None:
        held = self.inbox.held + len(text)
        if held > WAITING_MAX_BYTES or (held > FREE_BYTES and not self._charge.hold(held)):
            raise ServerBusy("Frames of this link wait to be read; send this one again in a second")
        # Not `splitlines`, which also breaks at characters that JSON has in its texts.
        for line in text.split("\n"):
            if line.strip():
                self.inbox.put_nowait({"type": "websocket.receive", "text": line})

    async def receive(self) -> Any:
        self.inbox.recount()
        if self._charge.held:
            self._charge.hold(self.inbox.held)
        return await self.inbox.get()

    def release(self) -> None:
        self._charge.hold(0)


class HttpSockets:
    """The sockets that are open over HTTP, by the name of their link."""

    def __init__(self, gate: HttpGate, sockets: SocketContext) -> None:
        self._gate, self._sockets = gate, sockets
        self._links: dict[str, HttpLink] = {}

    def routes(self) -> Iterator[HttpRoute]:
        yield HttpRoute("POST", PATH, self._open, is_gated=True)
        yield HttpRoute("POST", f"{PATH}/{{link}}", self._send, FRAME_MAX_BYTES, is_gated=True)

    async def _open(self, request: HttpRequest) -> HttpResponse:
        principal = await self._gate.admit(request)
        await self._gate.vm.admit(principal)
        request.scope["state"][ENDLESS] = True

        async def run(write: Write) -> None:
            await self._serve(principal, write)

        return HttpResponse(run=run, media_type=EVENTS, headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    async def _serve(self, principal: Principal, write: Write) -> None:
        name = secrets.token_urlsafe(24)
        link = HttpLink(principal, ConnectionReservation(self._gate.vm.budget, principal.tenant_id))
        wire = HttpWire(write, link.inbox)

        async def beat() -> None:
            while True:
                await anyio.sleep(HEARTBEAT_SECONDS)
                await write(b":\n\n")

        self._links[name] = link
        try:
            await write(_event(msgspec.json.encode({"link": name}).decode(), "link"))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(beat)
                await serve_socket(self._sockets, SocketRequest(principal), wire, link.receive)
                tasks.cancel_scope.cancel()
        finally:
            del self._links[name]
            link.release()

    async def _send(self, request: HttpRequest) -> HttpResponse:
        """Takes frames for a link. They are counted as frames of a socket are, so the request itself is not."""
        principal = await self._gate.admit(request, is_counted=False)
        link = self._links.get(request.path_params["link"])
        if link is None or not link.is_of(principal):
            raise HttpError(404)
        reservation = ConnectionReservation(self._gate.vm.budget, principal.tenant_id)
        try:
            body = await receive_body(request, reservation)
            text = body.decode()
        except UnicodeDecodeError:
            raise InvalidInput("Frames are JSON in UTF-8, one in each line") from None
        finally:
            reservation.hold(0)
        link.put(text)
        return HttpResponse(status=204)
