"""ASGI — the application on one port: WebSockets go to their peer, every other request to the management API."""

import time
from collections.abc import Coroutine, Iterator, Mapping, MutableMapping
from typing import Any

import msgspec
from msgspec import UNSET
from uvicorn.protocols.utils import ClientDisconnected

from agentvm.errors import AccessDenied, AgentVMError, shorten
from agentvm.errors.access import AuthenticationOff
from agentvm.log import concerning
from agentvm.model.principal import Principal
from agentvm.observability.metrics import OTHER
from agentvm.server import paths
from agentvm.server.console import console_routes
from agentvm.server.credentials import SUBPROTOCOL, is_cookie, of_socket, without_token
from agentvm.server.errors import request_id_of, status_of
from agentvm.server.exchange import HttpError, HttpRequest, HttpResponse, Message, Receive, Send
from agentvm.server.http import FACES, documents
from agentvm.server.http.answer_page import answer_routes
from agentvm.server.http.api import ManagementApi
from agentvm.server.http.gate import ENDLESS, HttpGate
from agentvm.server.http.gateway_sockets import GatewaySockets
from agentvm.server.http.gateways import GatewayRoutes, served_gateways
from agentvm.server.http.hooks import hook_routes
from agentvm.server.http.mcp_callback import callback_routes
from agentvm.server.http.openapi import AuthMethods, ServedGateway
from agentvm.server.http.protected_resource import metadata_routes
from agentvm.server.http_socket import HttpSockets
from agentvm.server.origin import foreign_page, refusal
from agentvm.server.pending_sockets import PendingSockets
from agentvm.server.proxies import TrustedProxies, behind_proxy, forwarded_sign, real
from agentvm.server.readers import Readers, client_id_of
from agentvm.server.router import HttpRoute
from agentvm.server.websocket import SocketContext, SocketRequest, Watch, serve_socket
from agentvm.server.wire import WIRE, PlainWire
from agentvm.version import VERSION
from agentvm.vm import AgentVM

SOCKET_PATHS = ("/ws", "/ws/", "/")
"""`/` too: a runtime that listens by itself is reached without a path."""

CLIENT_GONE_STATUS = 499
"""Status in the metrics of a request whose client did not wait for the response."""

Scope = dict[str, Any]


class Application:
    """The ASGI application of one AgentVM."""

    def __init__(self, vm: AgentVM, watch: Watch) -> None:
        self._vm = vm
        self._sockets = SocketContext(vm, watch, Readers(vm.mailbox))
        self.bound_to = vm.config.system.host
        """The address that the server listens on."""
        self.gate = HttpGate(vm, lambda: self.bound_to)
        gated = (route for face in FACES for route in self.gate.routes(face))
        pages = (*callback_routes(vm), *answer_routes(vm), *metadata_routes(vm), *documents(), *console_routes())
        hooks = hook_routes(vm)
        served = [
            *public_routes(vm),
            *pages,
            *hooks,
            *gated,
            *GatewayRoutes(self.gate).routes(),
            *HttpSockets(self.gate, self._sockets).routes(),
        ]
        self._gateway_sockets = GatewaySockets(self.gate)
        self.http = ManagementApi(served, self._refuse_forwarded, lambda: vm.config.system.allow_origins)
        self._proxies = TrustedProxies(vm.config.system.trusted_proxies)

    @property
    def pending(self) -> PendingSockets:
        """Sockets that have not authenticated."""
        return self._sockets.pending

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Coroutine[Any, Any, None]:
        # No coroutine of its own: an idle socket waits in each.
        return (self._open_socket if scope["type"] == "websocket" else self._serve_http)(scope, receive, send)

    async def _serve_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        routed = paths.parted(real(scope, self._proxies))
        with concerning(request_id=request_id_of(routed)):
            await self._answer(routed, receive, send)

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Returns the status and text for a socket that no peer may open; None when it may be opened."""
        if scope["path"] not in SOCKET_PATHS and not self._gateway_sockets.serves(scope):
            return 404, f"There is no socket at {shorten(scope['path'])!r}; connect to /ws"
        if reason := refusal(scope["headers"], bound_to=self.bound_to, allowed=self._vm.config.system.allow_origins):
            return 403, f"Refused: {reason}; see --allow-origin"
        if not self._vm.config.authenticates and (sign := forwarded_sign(scope["headers"])):
            return 403, behind_proxy(sign)
        return None

    async def _answer(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serves a request and counts it by the template of its path, which holds no ids."""
        began, status = time.perf_counter_ns(), CLIENT_GONE_STATUS
        scope.setdefault("state", {}).update(clock=self._vm.clock)

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.http(scope, receive, watched)
        finally:
            if scope["type"] == "http":
                route = scope.get("path_template") or OTHER
                took = None if scope["state"].get(ENDLESS) else (time.perf_counter_ns() - began) // 1000
                self._vm.monitor.metrics.served(scope["method"], route, status, took)

    def _refuse_forwarded(self, request: HttpRequest) -> None:
        """Refuses requests through a proxy while authentication is off: then only this machine is served."""
        if not self._vm.config.authenticates and (sign := forwarded_sign(request.scope["headers"])):
            raise AuthenticationOff(behind_proxy(sign))

    async def _open_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Opens a socket. Credentials in the request are checked before; a socket without any authenticates in a frame."""
        # Taken out, since the wire holds the scope.
        wire = scope.get("extensions", {}).pop(WIRE, None) or PlainWire(send)
        if (refused := self._refusal(scope)) is not None:
            await _refuse_socket(*refused, receive, send)
            return
        scope = real(scope, self._proxies)
        if scope["path"] not in SOCKET_PATHS:
            if (failed := await self._gateway_sockets.serve(scope, wire, receive)) is not None:
                await _refuse_socket(*failed, receive, send)
            return
        query, subprotocols = scope.get("query_string", b""), scope.get("subprotocols", ())
        # A log of the socket's address must not hold a credential.
        scope["query_string"] = without_token(query)
        try:
            credential = of_socket(scope["headers"], query, subprotocols)
            if is_cookie(credential) and self._vm.config.authenticates:
                if reason := foreign_page(scope["headers"], scheme=scope.get("scheme", "ws")):
                    raise AccessDenied(f"Refused: {reason}")
            principal = await self._vm.authenticate(credential)
            if principal is not None:
                await self._vm.admit(principal)
        except AgentVMError as error:
            await _refuse_socket(status_of(error), str(error), receive, send)
            return
        # What only the handshake needs goes with it: a socket lives long.
        request, scope = _socket_request(scope, principal, query), {}
        await serve_socket(self._sockets, request, wire, receive)


def public_routes(vm: AgentVM) -> Iterator[HttpRoute]:
    """Routes of health checks, and the answer to a WebSocket's path without an upgrade."""

    async def health(request: HttpRequest) -> HttpResponse:
        # The body is what 1.x probes compare; that authentication is off must be seen all the same.
        headers = {} if vm.config.authenticates else {"X-AgentVM-Auth": "off"}
        return _status({"status": "ok", "version": VERSION}, request, headers=headers)

    async def ready(request: HttpRequest) -> HttpResponse:
        reason = vm.hindrance
        return _status({"status": reason or "ready"}, request, 200 if reason is None else 503)

    async def methods(_: HttpRequest) -> HttpResponse:
        is_on = vm.config.authenticates
        flow = vm.tenancy.oidc if is_on else None
        content = AuthMethods(
            auth="on" if is_on else "off",
            methods=() if not is_on else ("key",) if flow is None else ("key", "oidc"),
            version=VERSION,
            oidc=UNSET if flow is None else flow.client.name,
            gateways=tuple(
                ServedGateway(name=gateway.name, prefixes=gateway.prefixes) for gateway in served_gateways(vm.config.gateways)
            ),
            public_url=vm.config.system.public_url or UNSET,
        )
        return HttpResponse(content=msgspec.json.encode(content), headers={"Cache-Control": "no-store"})

    async def socket_by_http(_: HttpRequest) -> HttpResponse:
        raise HttpError(426, {"Upgrade": "websocket"})

    for method in ("GET", "HEAD"):
        yield HttpRoute(method, "/health", health)
        yield HttpRoute(method, "/ready", ready)
    yield HttpRoute("GET", "/v1/auth/methods", methods)
    yield HttpRoute("GET", "/ws", socket_by_http)


def _status(
    content: dict[str, str], request: HttpRequest, status: int = 200, headers: Mapping[str, str] | None = None
) -> HttpResponse:
    """Probes often use HEAD and need only the status."""
    body = b"" if request.method == "HEAD" else msgspec.json.encode(content)
    return HttpResponse(content=body, status=status, headers=headers or {})


def _socket_request(scope: Scope, principal: Principal | None, query: bytes) -> SocketRequest:
    client = scope.get("client")
    chosen = next((name for name in scope.get("subprotocols", ()) if name.startswith(SUBPROTOCOL)), None)
    address = str(client[0]) if principal is None and client else ""
    return SocketRequest(principal, client_id_of(query), chosen, address)


async def _refuse_socket(status: int, why: str, receive: Receive, send: Send) -> None:
    await receive()  # websocket.connect
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": f"{why}\n".encode()})
    # uvicorn logs an error when a handler returns without a handshake; this says that there is nobody to shake hands with.
    raise ClientDisconnected
