"""Management API — matches each HTTP request, calls its handler, and turns failures into responses."""

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

from agentvm.server.console import PUBLIC_PATHS, missing_page
from agentvm.server.cors import cors_headers, preflight_headers
from agentvm.server.errors import explain, request_id_of
from agentvm.server.exchange import GONE, HttpError, HttpRequest, HttpResponse, PeerGone, Receive, Scope, Send
from agentvm.server.http.gateways import gateway_of
from agentvm.server.http.hooks import PATH as HOOK
from agentvm.server.http.protected_resource import METADATA_PATHS, challenge
from agentvm.server.router import HttpRoute, Router
from agentvm.tools.mcp.consent import CALLBACK, CLIENT

FORMS: Final = frozenset({"/answer/{token}", CALLBACK})
"""Pages with a form, for browsers: no part of the document of the API."""
CALLED: Final = frozenset({HOOK, CLIENT})
"""Paths that other services call: no part of it either. Requests of chat platforms show by a secret whose they are;
authorization servers read a document that is the same for all."""
_OPEN: Final = frozenset({"/health", "/ready", "/ws", "/openapi.json", "/docs", "/v1/auth/methods", *METADATA_PATHS})
PUBLIC: Final = _OPEN | FORMS | CALLED
"""Paths of the API that are served without the gate; so are the pages of the console."""

Before = Callable[[HttpRequest], None]
"""Called before each handler; raises to refuse the request."""


class ManagementApi:
    """The ASGI application of the routes. A route that is neither public nor of the gate is refused at the start."""

    def __init__(self, routes: Iterable[HttpRoute], before: Before, allowed: Callable[[], Sequence[str]] = tuple) -> None:
        """`allowed` are the origins whose pages may use the gateways."""
        self.routes = tuple(routes)
        for route in self.routes:
            if not route.is_gated and route.path not in PUBLIC and route.path not in PUBLIC_PATHS:
                raise RuntimeError(f"{route.method} {route.path} is not behind the gate")
        self._router, self._before, self._allowed = Router(self.routes), before, allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = HttpRequest(scope, receive)
        gateway = gateway_of(str(scope["path"]))
        extra = {"X-Request-Id": request_id_of(scope)}
        if gateway is not None:
            extra |= cors_headers(scope["headers"], self._allowed())
        try:
            response = await self._respond(request)
        except PeerGone:
            return
        except Exception as error:  # noqa: BLE001  # Protects the server: a failure answers one request, and `explain` logs it.
            response = explain(scope, error, None if gateway is None else gateway.shape)
            if gateway is not None and gateway.tells_issuer and response.status == 401:
                extra["WWW-Authenticate"] = challenge(scope)
        watch = (scope.get("extensions") or {}).get(GONE)
        await response.send(receive, send, extra, watch)

    async def _respond(self, request: HttpRequest) -> HttpResponse:
        try:
            match = self._router.match(str(request.scope["path"]))
        except HttpError:
            is_gateway = gateway_of(str(request.scope["path"])) is not None
            page = None if is_gateway else missing_page(request)
            if page is None:
                raise
            self._before(request)
            return page
        request.scope["path_template"] = re.sub(r":\w+}", "}", match.template)
        if request.method == "OPTIONS":
            is_gateway = gateway_of(str(request.scope["path"])) is not None
            more = preflight_headers(request.scope["headers"], match.allowed) if is_gateway else {}
            return HttpResponse(status=204, headers={"Allow": match.allowed, **more})
        route = match.route(request.method)
        request.path_params, request.max_body_bytes = match.params, route.max_body_bytes
        self._before(request)
        handle: Callable[[HttpRequest], Awaitable[HttpResponse]] = route.handler
        return await handle(request)
