"""Gateway routes — serves the routes of gateways behind the one gate: origin, credentials and quota, then their handlers."""

import functools
from collections.abc import Iterator, Mapping

from agentvm.gateways.a2a import A2A
from agentvm.gateways.agui import AGUI
from agentvm.gateways.ai_sdk import AI_SDK
from agentvm.gateways.anthropic import ANTHROPIC
from agentvm.gateways.langgraph import LANGGRAPH
from agentvm.gateways.mcp import MCP
from agentvm.gateways.openai import OPENAI
from agentvm.gateways.routes import BODY_MAX_BYTES, VALUES_MAX, Ask, Gateway, GatewayReply, GatewayRoute, Lenient, NoBody
from agentvm.gateways.talk import Talk
from agentvm.model.gateway_settings import GatewaySettings
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.principal import Principal
from agentvm.server import paths
from agentvm.server.credentials import of_headers
from agentvm.server.errors import request_id_of
from agentvm.server.exchange import HttpError, HttpRequest, HttpResponse, attended
from agentvm.server.http.body import decode_body, receive_body
from agentvm.server.http.gate import HttpGate, parameters_of, response_of
from agentvm.server.router import HttpRoute
from agentvm.sharing.reservation import ConnectionReservation

GATEWAYS: tuple[Gateway, ...] = (OPENAI, ANTHROPIC, MCP, LANGGRAPH, AGUI, AI_SDK, A2A)
"""Every gateway of this server."""
STRANGER = Principal(tenant_id=DEFAULT_TENANT, permissions=frozenset({"agent:use", "images:read", "resources:read"}))
"""The caller of a public route without credentials, who can only read the published items of the operator's tenant."""
SHARED = "/v1"
"""The prefix of the management API, below which a gateway has single words of its own."""


def gateway_of(path: str) -> Gateway | None:
    """Returns the gateway that a path belongs to, whether or not there is such a route."""
    return next((gateway for place, gateway in places() if path == place or path.startswith(f"{place}/")), None)


def served_gateways(settings: GatewaySettings) -> tuple[Gateway, ...]:
    """Returns the gateways that the operator has not switched off."""
    return tuple(gateway for gateway in GATEWAYS if getattr(settings, gateway.name).enabled == "on")


@functools.cache
def places() -> tuple[tuple[str, Gateway], ...]:
    """Returns the paths that belong to a gateway alone: its prefix, or below a shared one the first words of its routes."""
    gateways: dict[str, Gateway] = {}
    for gateway in GATEWAYS:
        for prefix in gateway.prefixes:
            words = {f"{prefix}/{route.path.split('/')[1]}" for route in gateway.routes} if prefix == SHARED else {prefix}
            gateways |= dict.fromkeys(sorted(words), gateway)
        gateways |= {route.path: gateway for route in gateway.roots}
    return tuple(gateways.items())


class GatewayRoutes:
    """Serves gateways through the gate."""

    def __init__(self, gate: HttpGate) -> None:
        self._gate = gate

    def routes(self) -> Iterator[HttpRoute]:
        for gateway in GATEWAYS:
            for path, route in gateway.paths():
                handler = functools.partial(self._serve, gateway, route)
                takes_body = route.method in ("POST", "PUT", "PATCH") or route.body is not NoBody
                bound = BODY_MAX_BYTES if takes_body else 0
                yield HttpRoute(route.method, path, handler, bound, is_gated=True)

    async def _serve(self, gateway: Gateway, route: GatewayRoute, request: HttpRequest) -> HttpResponse:
        switch = getattr(self._gate.vm.config.gateways, gateway.name)
        if switch.enabled == "off":
            raise HttpError(404)
        path = {name: paths.name(value) for name, value in request.path_params.items()}
        principal = await self._admit(gateway, route, path, request)
        await self._gate.vm.runtime.recovered.wait()
        client = request.scope.get("client")
        talk = Talk(
            vm=self._gate.vm,
            principal=principal,
            request_id=request_id_of(request.scope),
            address=client[0] if client else None,
        )
        body, content = await self._body(route, principal, request)
        ask = Ask(
            body=body,
            path=path,
            query=parameters_of(request.scope["query_string"], joins=True),
            headers=request.headers,
            origin=f"{request.scope.get('scheme', 'http')}://{request.headers.get('host', 'localhost')}",
            content=content,
        )
        if route.streams or getattr(ask.body, "stream", False):
            # Before a turn begins: clients repeat by themselves what is refused, and each attempt would begin another.
            await self._gate.admit_stream(principal)
        work = route.handler(ask, talk)
        return await self._response(await attended(request, work), principal, request, gateway)

    async def _admit(self, gateway: Gateway, route: GatewayRoute, path: Mapping[str, str], request: HttpRequest) -> Principal:
        if route.is_public is not None and route.is_public(self._gate.vm.config.gateways, path):
            if of_headers(request.scope["headers"], also=gateway.key_headers) is None:
                # Not counted: strangers must not use up what the users of a tenant may ask.
                return STRANGER
        return await self._gate.admit(request, key_headers=gateway.key_headers)

    async def _body(self, route: GatewayRoute, principal: Principal, request: HttpRequest) -> tuple[Lenient, bytes]:
        if not request.max_body_bytes:
            return NoBody(), b""
        reservation = ConnectionReservation(self._gate.vm.budget, principal.tenant_id)
        try:
            content = await receive_body(request, reservation)
            # An ignored body may be anything.
            body = NoBody() if route.body is NoBody else decode_body(content, route.body, VALUES_MAX)
            return body, content if route.keeps_content else b""
        finally:
            reservation.hold(0)

    async def _response(
        self, reply: GatewayReply, principal: Principal, request: HttpRequest, gateway: Gateway
    ) -> HttpResponse:
        if reply.streamed is not None:
            about = (reply.media_type, reply.headers, gateway.key_headers)
            return await self._gate.stream(reply.streamed, principal, request, *about)
        reservation = ConnectionReservation(self._gate.vm.budget, principal.tenant_id)
        return response_of(reply.content, reply.status, reply.media_type, reply.headers, reservation)
