"""Gate — the one way to a route: who is asking, whether they may, about whose tenant; and the audit log of what they did.

Theory of operation. Every request goes the same way: a web page that must not ask is refused, the asker is recognised, the
request is counted, the permission is looked up in the route, the tenant is found, the body is read. From the moment the asker
is known and counted, what becomes of a route that writes is entered in the audit log, also when it is refused. A handler
that is neither public nor made here is refused when the server starts (`agentvm.server.http.api`).
"""

import functools
from collections.abc import AsyncIterator, Callable, Iterator
from urllib.parse import parse_qsl

import anyio
import msgspec

from agentvm.errors import (
    AccessDenied,
    AgentVMError,
    InvalidInput,
    PermissionDenied,
    Unauthenticated,
    shorten,
)
from agentvm.errors.access import AuthenticationOff
from agentvm.errors.validation import explain
from agentvm.log import also_concerning, get_logger
from agentvm.model.account import AuditEntry
from agentvm.model.principal import Principal
from agentvm.operations.http_reply import Streamed
from agentvm.server import paths
from agentvm.server.credentials import of_headers
from agentvm.server.errors import request_id_of
from agentvm.server.exchange import HttpError, HttpRequest, HttpResponse
from agentvm.server.http.body import MAX_BODY, PIECE_BYTES, decode_body, hold, pieces, receive_body, with_file
from agentvm.server.http.route import Answer, Ask, Given, Route
from agentvm.server.http.stream import Streams
from agentvm.server.origin import refusal
from agentvm.server.router import HttpRoute
from agentvm.sharing.connection_reservation import ConnectionReservation
from agentvm.tenants import tickets
from agentvm.tenants.authentication import REFUSED
from agentvm.vm import AgentVM

logger = get_logger(__name__)

AUDIT_SECONDS = 10.0
"""How long a request that is being cancelled waits for its entry in the audit log."""
MAX_PARAMETERS = 50

GOES_ON = "goes_on"
"""In the state of a request whose answer has no end yet."""

OPEN = (
    "Authentication is off, so nobody can be given rights here: start the server with --auth on, which prints the operator's "
    "first key"
)


class Gate:
    """Serves routes. `bound_to` is the address that peers come to."""

    def __init__(self, vm: AgentVM, bound_to: Callable[[], str]) -> None:
        self.vm = vm
        self._bound_to = bound_to
        self.streams = Streams()

    async def serve(self, route: Route, request: HttpRequest) -> HttpResponse:
        headers = request.scope["headers"]
        if reason := refusal(headers, bound_to=self._bound_to(), allowed=self.vm.config.system.allow_origins):
            raise AccessDenied(f"Refused: {reason}; see --allow-origin")
        principal = await self._recognise(request)
        also_concerning(tenant_id=principal.tenant_id, user_id=principal.user_id)
        await self.vm.tenancy.quotas.hit(principal.tenant_id, principal.user_id)
        ask = Ask(
            vm=self.vm,
            principal=principal,
            tenant_id=principal.tenant_id,
            path={name: paths.name(value) for name, value in request.path_params.items()},
            given=Given(),
            accept=request.headers.get("accept", ""),
            content_type=request.headers.get("content-type", ""),
            if_match=request.headers.get("if-match"),
            if_none_match=request.headers.get("if-none-match"),
            request_id=request_id_of(request.scope),
        )
        ask.target = "/".join(ask.path.values())
        result = f"refused:{AgentVMError.code}"
        try:
            answer = await self._answer(route, ask, request)
            result = "ok"
        except AgentVMError as error:
            result = f"refused:{error.code}"
            raise
        except HttpError as error:
            result = f"refused:{error.status}"
            raise
        finally:
            if route.action is not None and not ask.looked_only:
                await self._audit(route.action, ask, result, request)
        if isinstance(answer, Answer) and isinstance(answer.content, Streamed):
            return self._stream(answer, ask, request)
        return _response(answer, ConnectionReservation(self.vm.budget, principal.tenant_id), head=request.method == "HEAD")

    def _stream(self, answer: Answer[Streamed], ask: Ask[Given], request: HttpRequest) -> HttpResponse:
        """What goes on is the asker's for as long as it is let in with what it has brought."""
        owner = ask.principal.tenant_id

        async def may() -> bool:
            try:
                now = await self._recognise(request)
            except AgentVMError:
                return False
            return (now.tenant_id, now.permissions, now.containers) == (
                ask.principal.tenant_id,
                ask.principal.permissions,
                ask.principal.containers,
            )

        self.streams.check(owner)
        request.scope["state"][GOES_ON] = True
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **answer.headers}
        run = functools.partial(self.streams.run, answer.content, owner, may)
        return HttpResponse(run=run, media_type=answer.media_type, headers=headers)

    async def _recognise(self, request: HttpRequest) -> Principal:
        credential = of_headers(request.scope["headers"])
        if credential is not None and credential.startswith(tickets.PREFIX):
            # It is for one WebSocket: whoever found it in a URL must not be able to make a key with it.
            raise Unauthenticated(REFUSED)
        principal = await self.vm.authenticate(credential)
        if principal is None:
            raise Unauthenticated(REFUSED)
        return principal

    async def _answer(self, route: Route, ask: Ask[Given], request: HttpRequest) -> object:
        if route.needs and not any(ask.principal.may(permission) for permission in route.needs):
            if not (route.own and ask.principal.user_id is not None):
                raise PermissionDenied(route.needs[0])
        if route.grants and not self.vm.config.authenticates:
            raise AuthenticationOff(OPEN)
        query = _query(request.scope["query_string"])
        if route.across and (named := query.pop("tenant", None)) is not None:
            ask.tenant_id, ask.named = (await self.vm.tenancy.find_tenant(ask.principal, named)).tenant_id, True
            also_concerning(tenant_id=ask.tenant_id)
        if route.method in ("POST", "PUT"):
            ask.query = _decode(query, route.query)
            return await self._take(route, ask, request)
        ask.given = _decode(query, route.takes)
        return await route.function(ask)

    async def _take(self, route: Route, ask: Ask[Given], request: HttpRequest) -> object:
        """With the body, which is charged to the asker until the route has answered."""
        charge = ConnectionReservation(self.vm.budget, ask.principal.tenant_id)
        try:
            if route.body == "file":
                return await with_file(route, ask, request, charge)
            body = await receive_body(request, charge)
            if route.body == "bytes":
                ask.body = body
            else:
                ask.given = decode_body(body, route)
            del body
            return await route.function(ask)
        finally:
            charge.hold(0)

    async def _audit(self, action: str, ask: Ask[Given], result: str, request: HttpRequest) -> None:
        one = ask.principal
        if result != "ok" and not self.vm.refusals.enter(one.tenant_id, one.actor, action, self.vm.clock()):
            return
        client = request.scope.get("client")
        entry = AuditEntry(
            at=self.vm.clock(),
            tenant_id=ask.tenant_id,
            actor=ask.principal.actor,
            action=action,
            target=shorten(ask.target),
            result=result,
            address=client[0] if client else None,
            request_id=request_id_of(request.scope),
        )
        try:
            with anyio.move_on_after(AUDIT_SECONDS, shield=True):
                await self.vm.tenancy.store.accounts(ask.tenant_id).audit.add(entry)
        except AgentVMError as error:
            logger.error("audit_not_stored", action=action, result=result, request_id=entry.request_id, code=error.code)
            if result == "ok":
                # Who cannot be answered for is told so; a refusal says more itself.
                raise


def routes_of(gate: Gate, route: Route) -> Iterator[HttpRoute]:
    """The route of each method, served through the gate."""
    for method in (route.method, "HEAD") if route.head else (route.method,):
        yield HttpRoute(
            method=method,
            path=route.path,
            handler=functools.partial(gate.serve, route),
            max_body_bytes=MAX_BODY if route.most_body is None else route.most_body,
            is_gated=True,
        )


def _query(text: bytes) -> dict[str, str]:
    try:
        pairs = parse_qsl(text.decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_PARAMETERS)
    except ValueError:
        raise InvalidInput(f"A query has at most {MAX_PARAMETERS} parameters") from None
    if len(query := dict(pairs)) != len(pairs):
        raise InvalidInput("A parameter must be given once")
    return query


def _decode(query: dict[str, str], kind: type[Given]) -> Given:
    try:
        given = msgspec.convert(query, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"The query cannot be understood: {explain(error, kind)}") from None
    for member in msgspec.structs.fields(kind):
        # A number that is the text `null` is none to msgspec, and who sends it surely means something else.
        if member.encode_name in query and getattr(given, member.name) is None:
            raise InvalidInput(f"The query cannot be understood: {member.encode_name} must not be null; leave it out")
    return given


def _response(answer: object, charge: ConnectionReservation, *, head: bool = False) -> HttpResponse:
    known: Answer[object] = answer if isinstance(answer, Answer) else Answer(content=answer)
    # Answers hold keys and money: no cache on the way may keep them.
    headers = {"Cache-Control": "no-store", **known.headers}
    if head:
        return HttpResponse(status=known.status, media_type=known.media_type, headers=headers)
    if isinstance(known.content, AsyncIterator):
        return HttpResponse(content=known.content, status=known.status, media_type=known.media_type, headers=headers)
    match known.content:
        case None:
            content = b""
        case bytes(raw):
            content = raw
        case record:
            content = msgspec.json.encode(record)
    if len(content) > PIECE_BYTES:
        hold(charge, len(content))
        charge.hold(0)
        headers["Content-Length"] = str(len(content))
        return HttpResponse(content=pieces(content, charge), status=known.status, media_type=known.media_type, headers=headers)
    return HttpResponse(content=content, status=known.status, media_type=known.media_type, headers=headers)
