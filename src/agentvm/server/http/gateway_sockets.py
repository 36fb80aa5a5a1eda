"""Gateway sockets — WebSockets of gateways: their frames are requests behind the gate, their streams the same as over HTTP."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import anyio.abc

from agentvm.errors import AccessDenied, AgentVMError, InvalidInput, Unauthenticated
from agentvm.gateways.routes import VALUES_MAX, Ask, Gateway, GatewayProblem, GatewaySocket, Lenient, NoBody
from agentvm.gateways.talk import Talk
from agentvm.log import concerning
from agentvm.model.principal import Principal
from agentvm.operations.http_reply import Streamed
from agentvm.server import paths
from agentvm.server.credentials import SUBPROTOCOL, is_cookie, of_socket
from agentvm.server.errors import request_id_of, status_of
from agentvm.server.exchange import Message, Receive
from agentvm.server.http.body import decode_body
from agentvm.server.http.gate import HttpGate
from agentvm.server.http.gateways import GATEWAYS
from agentvm.server.http.stream import SEND_TIMEOUT_SECONDS
from agentvm.server.origin import foreign_page
from agentvm.server.wire import Wire
from agentvm.tenants.authentication import REFUSED

SETTLE_SECONDS = 0.03
"""Time between a subscription and the beginning of its stream."""
NORMAL_CODE = 1000

Found = tuple[Gateway, GatewaySocket, Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class SocketCaller:
    """The client of a socket, and the credential by which its rights are looked up again."""

    principal: Principal
    credential: str | None = field(repr=False)
    address: str | None


class GatewaySockets:
    """Serves the sockets that gateways declare."""

    def __init__(self, gate: HttpGate) -> None:
        self._gate = gate

    def serves(self, scope: Mapping[str, Any]) -> bool:
        """Whether a gateway that is switched on has a socket at the path."""
        return self._find(scope) is not None

    async def serve(self, scope: dict[str, Any], wire: Wire, receive: Receive) -> tuple[int, str] | None:
        """Serves a socket until it is closed; returns the status and the text of a refusal before it is opened."""
        match = self._find(scope)
        assert match is not None  # by `serves`
        gateway, socket, path = match
        subprotocols = scope.get("subprotocols", ())
        try:
            credential = of_socket(scope["headers"], scope.get("query_string", b""), subprotocols, also=gateway.key_headers)
            if is_cookie(credential) and self._gate.vm.config.authenticates:
                if reason := foreign_page(scope["headers"], scheme=scope.get("scheme", "ws")):
                    raise AccessDenied(f"Refused: {reason}")
            principal = await self._authenticate(credential)
            await self._gate.admit_stream(principal)
        except AgentVMError as error:
            return status_of(error), str(error)
        await receive()  # websocket.connect
        chosen = next((name for name in subprotocols if name.startswith(SUBPROTOCOL)), None)
        await wire.send({"type": "websocket.accept", "subprotocol": chosen})
        wire.trust(principal.tenant_id)
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        client = scope.get("client")
        caller = SocketCaller(principal, credential, client[0] if client else None)
        opened = _OpenSocket(self._gate, socket, caller, wire, Ask(body=NoBody(), path=path, headers=headers))
        with self._gate.vm.connected(principal):
            await opened.run(receive)
        return None

    async def _authenticate(self, credential: str | None) -> Principal:
        principal = await self._gate.vm.authenticate(credential)
        if principal is None:
            raise Unauthenticated(REFUSED)
        return principal

    def _find(self, scope: Mapping[str, Any]) -> Found | None:
        segments = str(paths.parted(dict(scope))["path"]).strip("/").split("/")
        for gateway in GATEWAYS:
            if getattr(self._gate.vm.config.gateways, gateway.name).enabled == "off":
                continue
            for prefix in gateway.prefixes:
                for socket in gateway.sockets:
                    if (path := _matched(f"{prefix}{socket.path}", segments)) is not None:
                        return gateway, socket, path
        return None


def _matched(template: str, segments: list[str]) -> dict[str, str] | None:
    parts = template.strip("/").split("/")
    if len(parts) != len(segments):
        return None
    pairs = list(zip(parts, segments, strict=True))
    if any(part != segment for part, segment in pairs if not part.startswith("{")) or not all(segments):
        return None
    return {part[1:-1]: paths.name(segment) for part, segment in pairs if part.startswith("{")}


class _OpenSocket:
    """One socket, and the stream of its client's subscriptions."""

    def __init__(self, gate: HttpGate, socket: GatewaySocket, caller: SocketCaller, wire: Wire, ask: Ask[Any]) -> None:
        self._gate, self._socket, self._caller, self._wire, self._ask = gate, socket, caller, wire, ask
        self._state = socket.opened()
        self._telling: anyio.CancelScope | None = None
        self._answering = anyio.Lock()

    async def run(self, receive: Receive) -> None:
        """Answers frames until the client leaves, or the stream has ended."""
        async with anyio.create_task_group() as tasks:
            while (message := await receive())["type"] == "websocket.receive":
                async with self._answering:
                    text, is_changed = await self._answer(_content(message))
                    if not await self._send([text]):
                        break
                if is_changed:
                    if self._telling is not None:
                        self._telling.cancel()
                    self._telling = anyio.CancelScope()
                    tasks.start_soon(self._send_stream, self._telling, tasks.cancel_scope)
            tasks.cancel_scope.cancel()

    async def _send(self, texts: Sequence[str]) -> bool:
        """Sends an answer; False for a peer that is gone, or that does not read."""
        with anyio.move_on_after(SEND_TIMEOUT_SECONDS), suppress(OSError):
            await self._wire.send_all(texts)
            return True
        self._wire.abort()
        return False

    async def _answer(self, content: bytes) -> tuple[str, bool]:
        body: Lenient | None = None
        talk, principal = self._talk(), self._caller.principal
        with concerning(request_id=talk.request_id):
            try:
                if not await self._is_allowed():
                    # As over HTTP: each request is one of somebody who has the right now.
                    raise Unauthenticated(REFUSED)
                await self._gate.vm.tenancy.quotas.hit(principal.tenant_id, principal.user_id)
                await self._gate.vm.runtime.recovered.wait()
                body = decode_body(content, self._socket.body, VALUES_MAX)
                return await self._state.answer(replace(self._ask, body=body), talk)
            except AgentVMError as error:
                is_unread = isinstance(error, InvalidInput) and error.is_unread
                about = {"code": error.code, "message": str(error), "request_id": talk.request_id}
                problem = GatewayProblem(status=status_of(error), is_unread=is_unread, **about)
                return self._socket.refuse(body, problem), False

    async def _send_stream(self, scope: anyio.CancelScope, socket: anyio.CancelScope) -> None:
        """Sends the stream. A stream that ends closes the socket: its client then reconnects and subscribes again."""

        async def write(piece: bytes) -> None:
            if frames := list(self._socket.frames(piece)):
                await self._wire.send_all(frames)

        with scope:
            # Clients subscribe several times at once; what is begun before the last of them would be begun again.
            await anyio.sleep(SETTLE_SECONDS)
            async with self._answering:
                streamed = await self._open()
            if streamed is None:
                return
            with suppress(OSError):
                await self._gate.followers.run(streamed, self._caller.principal.tenant_id, self._is_allowed, write)
        if not scope.cancel_called:
            with anyio.move_on_after(SEND_TIMEOUT_SECONDS), suppress(OSError):
                await self._wire.send({"type": "websocket.close", "code": NORMAL_CODE, "reason": "the stream has ended"})
            socket.cancel()

    async def _open(self) -> Streamed | None:
        try:
            return await self._state.stream(self._ask, self._talk())
        except AgentVMError:
            # The thread was deleted, or its reader has lost a right: the next subscription says so.
            return None

    def _talk(self) -> Talk:
        return Talk(
            vm=self._gate.vm, principal=self._caller.principal, request_id=request_id_of({}), address=self._caller.address
        )

    async def _is_allowed(self) -> bool:
        try:
            now = await self._gate.vm.authenticate(self._caller.credential)
        except AgentVMError:
            return False
        own = self._caller.principal
        rights = (own.tenant_id, own.permissions, own.containers)
        return now is not None and (now.tenant_id, now.permissions, now.containers) == rights


def _content(message: Message) -> bytes:
    text: str | None = message.get("text")
    return bytes(message["bytes"]) if text is None else text.encode(errors="surrogatepass")
