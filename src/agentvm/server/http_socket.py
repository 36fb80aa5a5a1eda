"""HTTP socket — a connection over plain HTTP for clients whose network blocks WebSockets.

Theory of operation. `POST /ws` opens it: the response is a stream of server-sent events, one for each frame. The first names
the link, to which `POST /ws/{link}` sends frames, one in each line. Everything else is the same as over a WebSocket: frames are
handed to the same code, with an inbox in place of the wire. In a cluster the name of a link begins with the number of its node:
frames that come to another one are handed on.
"""

import secrets
from collections.abc import Iterator, Sequence
from typing import Any, Final

import anyio
import msgspec

from agentvm.cluster.mailbox import Answered
from agentvm.errors import InvalidInput
from agentvm.errors.bounds import ServerBusy
from agentvm.model.ids import KeyId, TenantId, UserId
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


BUSY = "Frames of this link wait to be read; send this one again in a second"
TAKEN_STATUS, BUSY_STATUS = 204, 503
NODE_DIGITS_MAX = 15
FRAMES = "frames"
"""The kind of questions that hand frames to the node that has their link."""


class LinkFrames(msgspec.Struct, frozen=True):
    """Frames for a link of another node, and whose request they came with."""

    link: str
    tenant_id: TenantId
    user_id: UserId | None
    key_id: KeyId | None
    text: str


class FramesTaken(msgspec.Struct, frozen=True):
    """The answer: the status that the client gets."""

    status: int


_encoder = msgspec.msgpack.Encoder()
_frames = msgspec.msgpack.Decoder(LinkFrames)
_taken = msgspec.msgpack.Decoder(FramesTaken)


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

    def is_of(self, other: Principal | LinkFrames) -> bool:
        mine = self.principal
        return (mine.tenant_id, mine.user_id, mine.key_id) == (other.tenant_id, other.user_id, other.key_id)

    def put(self, text: str) -> None:
        held = self.inbox.held + len(text)
        if held > WAITING_MAX_BYTES or (held > FREE_BYTES and not self._charge.hold(held)):
            raise ServerBusy(BUSY)
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
        if gate.vm.mailbox is not None:
            gate.vm.mailbox.serving[FRAMES] = self._take_frames

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
        node_id = self._gate.vm.store.node_id
        name = f"{node_id}." * bool(node_id) + secrets.token_urlsafe(24)
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
        name = request.path_params["link"]
        link = self._links.get(name)
        if not (self._is_elsewhere(name) if link is None else link.is_of(principal)):
            raise HttpError(404)
        reservation = ConnectionReservation(self._gate.vm.budget, principal.tenant_id)
        try:
            body = await receive_body(request, reservation)
            text = body.decode()
        except UnicodeDecodeError:
            raise InvalidInput("Frames are JSON in UTF-8, one in each line") from None
        finally:
            reservation.hold(0)
        if link is None:
            return await self._hand_on(LinkFrames(name, principal.tenant_id, principal.user_id, principal.key_id, text))
        link.put(text)
        return HttpResponse(status=204)

    def _is_elsewhere(self, name: str) -> bool:
        """Returns whether another node that is up may have the link."""
        mailbox, number = self._gate.vm.mailbox, name.partition(".")[0]
        if mailbox is None or not (number.isascii() and number.isdigit() and len(number) <= NODE_DIGITS_MAX):
            return False
        return int(number) in mailbox.membership.up - {mailbox.membership.node_id}

    async def _hand_on(self, frames: LinkFrames) -> HttpResponse:
        mailbox = self._gate.vm.mailbox
        assert mailbox is not None
        answer = await mailbox.ask(int(frames.link.partition(".")[0]), _encoder.encode(frames), FRAMES)
        try:
            status = _taken.decode(answer).status
        except msgspec.DecodeError:
            # A node of an older release, whose links have no number.
            status = 404
        if status == BUSY_STATUS:
            raise ServerBusy(BUSY)
        if status != TAKEN_STATUS:
            raise HttpError(status)
        return HttpResponse(status=TAKEN_STATUS)

    async def _take_frames(self, body: bytes) -> Answered:
        """Takes frames that came to another node."""
        frames = _frames.decode(body)
        link = self._links.get(frames.link)
        status = 404
        if link is not None and link.is_of(frames):
            try:
                link.put(frames.text)
                status = TAKEN_STATUS
            except ServerBusy:
                status = BUSY_STATUS
        return _encoder.encode(FramesTaken(status)), lambda: None
