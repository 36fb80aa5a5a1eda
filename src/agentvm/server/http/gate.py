"""HTTP gate — the one way to an operation over HTTP.

Theory of operation. Every request goes the same way: a web page of a foreign origin is refused, the principal is
recognised, the request is counted, the permission is checked, the tenant is found, the query and the body are decoded.
From the moment the principal is known and counted, the outcome of an operation that writes is entered in the audit log,
also when it is refused.
"""

import functools
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from urllib.parse import parse_qsl

import msgspec

from agentvm.errors import AccessDenied, AgentVMError, InvalidInput, Unauthenticated
from agentvm.errors.access import AuthenticationOff
from agentvm.errors.validation import explain
from agentvm.log import also_concerning
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.principal import Principal
from agentvm.model.signature import ID_HEADER, SIGNATURE_HEADER, TIME_HEADER
from agentvm.operations.context import Context, HttpDetails
from agentvm.operations.forwarding import run_or_forward
from agentvm.operations.gate import OPEN, Outcome, admit, audited
from agentvm.operations.http_face import HttpFace
from agentvm.operations.http_reply import HttpReply, Streamed
from agentvm.operations.numbers import check_text
from agentvm.operations.oidc import COOKIE as FLOW_COOKIE
from agentvm.server import paths
from agentvm.server.credentials import SEND_ONCE, bearer, cookies, is_cookie, of_headers
from agentvm.server.errors import request_id_of
from agentvm.server.exchange import HttpError, HttpRequest, HttpResponse, Write, attended
from agentvm.server.http.body import (
    BODY_MAX_BYTES,
    PIECE_BYTES,
    check_names,
    decode_body,
    hold,
    pieces,
    receive_body,
    received_file,
)
from agentvm.server.http.stream import FOLLOWERS_MAX, TENANT_FOLLOWERS_MAX, Streams
from agentvm.server.origin import foreign_page, refusal
from agentvm.server.router import HttpRoute
from agentvm.sharing.reservation import ConnectionReservation
from agentvm.tenants import tickets
from agentvm.tenants.authentication import REFUSED
from agentvm.vm import AgentVM

PARAMETERS_MAX = 50
REASON_CHARACTERS_MAX = 150
"""A reason and the id that it is about fit into an entry of the audit log."""
ENDLESS = "endless"
"""In the state of a request whose response has no end."""


class HttpGate:
    """Serves operations. `bound_to` is the address that peers connect to."""

    def __init__(self, vm: AgentVM, bound_to: Callable[[], str]) -> None:
        self.vm, self._bound_to = vm, bound_to
        self.streams = Streams()
        self.followers = Streams(most=FOLLOWERS_MAX, most_of_tenant=TENANT_FOLLOWERS_MAX)

    def reopen(self) -> None:
        """Allows streams, when the server listens again."""
        self.streams.reopen()
        self.followers.reopen()

    def end_streams(self) -> None:
        self.streams.end()
        self.followers.end()

    def routes(self, face: HttpFace) -> Iterator[HttpRoute]:
        """The route of each method of an operation."""
        bound = face.http.max_body_bytes
        for method in (face.method, "HEAD") if face.http.head else (face.method,):
            handler = functools.partial(self.serve, face)
            yield HttpRoute(method, face.http.path, handler, BODY_MAX_BYTES if bound is None else bound, is_gated=True)

    async def serve(self, face: HttpFace, request: HttpRequest) -> HttpResponse:
        principal = await self.admit(request, face)
        path = {name: paths.name(value) for name, value in request.path_params.items()}
        with self._context(principal, request, "/".join(path.values())) as context:
            async with audited(face.operation, context) as outcome:
                reply = await self._execute(face, context, request, path, outcome)
            context.finish()
            answer = reply if isinstance(reply, HttpReply) else face.reply(reply, path)
            if isinstance(answer.content, Streamed):
                return await self.stream(answer.content, principal, request, answer.media_type, answer.headers)
            reservation = ConnectionReservation(self.vm.budget, principal.tenant_id)
            return _response(answer, reservation, is_head=request.method == "HEAD")

    async def admit(
        self,
        request: HttpRequest,
        face: HttpFace | None = None,
        key_headers: Sequence[str] = (),
        *,
        is_counted: bool = True,
    ) -> Principal:
        """Returns the principal of a request, which is counted. `key_headers` may hold its key besides `Authorization`."""
        allowed = self.vm.config.system.allow_origins
        if reason := refusal(request.scope["headers"], bound_to=self._bound_to(), allowed=allowed):
            raise AccessDenied(f"Refused: {reason}; see --allow-origin")
        if face is None or face.http.caller == "credential":
            principal = await self._recognise(request, key_headers)
        elif face.http.caller == "nobody":
            if request.method != "GET":
                _check_page(request, is_required=False)
            # Not counted: strangers must not use up what the users of a tenant may ask.
            return Principal(tenant_id=DEFAULT_TENANT, containers=())
        else:
            principal = await self._by_body(face, request, is_invited=face.http.caller == "invitation")
        also_concerning(tenant_id=principal.tenant_id, user_id=principal.user_id)
        if is_counted:
            await self.vm.tenancy.quotas.hit(principal.tenant_id, principal.user_id)
        return principal

    async def _recognise(self, request: HttpRequest, key_headers: Sequence[str] = ()) -> Principal:
        credential = of_headers(request.scope["headers"], also=key_headers)
        if is_cookie(credential) and self.vm.config.authenticates and request.method not in ("GET", "HEAD"):
            _check_page(request, is_required=True)
        return await self._authenticate(credential)

    async def _by_body(self, face: HttpFace, request: HttpRequest, *, is_invited: bool) -> Principal:
        """Recognises a caller by the key in the header or in the body. A foreign page must not sign a user in either."""
        _check_page(request, is_required=False)
        credential = of_headers(request.scope["headers"], reads_cookie=False)
        reservation = ConnectionReservation(self.vm.budget, DEFAULT_TENANT)
        try:
            request.received = await receive_body(request, reservation)
        finally:
            reservation.hold(0)
        key: str | None = msgspec.structs.asdict(decode_body(request.received, face.body))["key"]
        if is_invited:
            if not self.vm.config.authenticates:
                raise AuthenticationOff(OPEN)
            return await self.vm.tenancy.access.invited(key or "")
        if key is not None:
            if credential is not None:
                raise InvalidInput(SEND_ONCE)
            credential = bearer(f"Bearer {key}")
        return await self._authenticate(credential)

    async def _authenticate(self, credential: str | None) -> Principal:
        if credential is not None and credential.startswith(tickets.PREFIX):
            # A ticket is for one WebSocket: whoever found it in a URL must not be able to create a key with it.
            raise Unauthenticated(REFUSED)
        principal = await self.vm.authenticate(credential)
        if principal is None:
            raise Unauthenticated(REFUSED)
        return principal

    def _context(self, principal: Principal, request: HttpRequest, target: str) -> Context:
        details = HttpDetails(
            accept=request.headers.get("accept", ""),
            content_type=request.headers.get("content-type", ""),
            if_match=request.headers.get("if-match"),
            if_none_match=request.headers.get("if-none-match"),
            user_agent=request.headers.get("user-agent", ""),
            last_event_id=request.headers.get("last-event-id"),
            origin=f"{request.scope.get('scheme', 'http')}://{request.headers.get('host', '')}",
            flow_cookie=next(iter(cookies(request.scope["headers"], FLOW_COOKIE)), ""),
            is_secure=request.scope.get("scheme") == "https",
            signed={name: request.headers.get(name, "") for name in (ID_HEADER, TIME_HEADER, SIGNATURE_HEADER)},
        )
        client = request.scope.get("client")
        return Context(
            vm=self.vm,
            workspace=self.vm.workspace(principal),
            http=details,
            request_id=request_id_of(request.scope),
            address=client[0] if client else None,
            target=target,
        )

    async def _execute(
        self, face: HttpFace, context: Context, request: HttpRequest, path: dict[str, str], outcome: Outcome
    ) -> object:
        await admit(face.operation, context)
        parameters = parameters_of(request.scope["query_string"])
        if face.operation.across and (name := parameters.pop("tenant", None)) is not None:
            tenant = await self.vm.tenancy.find_tenant(context.principal, name)
            context.workspace, context.http.names_tenant = self.vm.workspace(context.principal, tenant.tenant_id), True
            also_concerning(tenant_id=tenant.tenant_id)
            if face.operation.discloses and (reason := parameters.pop("reason", None)) is not None:
                context.http.reason = check_text(reason, "reason", max_length=REASON_CHARACTERS_MAX)
        query = _decode(parameters, face.query)
        if not face.has_body:
            return await run_or_forward(face.operation, context, face.request(path, query, None))
        reservation = ConnectionReservation(self.vm.budget, context.principal.tenant_id)
        try:
            if face.http.body == "file":
                async with received_file(face, context, request, reservation) as file:
                    context.http.file = file
                    return await face.operation.function(context, face.request(path, query, None))
            content = await receive_body(request, reservation)
            body = None
            if face.http.body == "bytes":
                context.http.body = content
            else:
                body = decode_body(content, face.body, face.http.max_values)
                check_names(content, body)
            del content
            if getattr(body, "stream", False):
                # Before the operation: what it begins for a stream that is refused then would be begun again by each attempt.
                await self.admit_stream(context.principal)
            work = run_or_forward(face.operation, context, face.request(path, query, body))
            return await (attended(request, work) if face.http.attended else work)
        except HttpError as error:
            outcome.result = f"refused:{error.status}"
            raise
        finally:
            reservation.hold(0)

    async def admit_stream(self, principal: Principal) -> None:
        """`Refused` or `QuotaExceeded` when there is no room for another stream that follows a session."""
        self.followers.check(principal.tenant_id)
        await self.vm.admit(principal)

    async def stream(
        self,
        content: Streamed,
        principal: Principal,
        request: HttpRequest,
        media_type: str,
        headers: Mapping[str, str],
        key_headers: Sequence[str] = (),
    ) -> HttpResponse:
        """A stream lasts as long as its principal keeps the rights it began with."""

        async def is_allowed() -> bool:
            try:
                now = await self._recognise(request, key_headers)
            except AgentVMError:
                return False
            rights = (principal.tenant_id, principal.permissions, principal.containers)
            return (now.tenant_id, now.permissions, now.containers) == rights

        streams = self.followers if content.follows else self.streams
        if content.follows:
            await self.admit_stream(principal)
        else:
            streams.check(principal.tenant_id)
        request.scope["state"][ENDLESS] = True

        async def run(write: Write) -> None:
            with self.vm.connected(principal) if content.follows else nullcontext():
                await streams.run(content, principal.tenant_id, is_allowed, write)

        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no", **headers}
        return HttpResponse(run=run, media_type=media_type, headers=headers)


def _check_page(request: HttpRequest, *, is_required: bool) -> None:
    scheme = request.scope.get("scheme", "http")
    if reason := foreign_page(request.scope["headers"], scheme=scheme, is_required=is_required):
        raise AccessDenied(f"Refused: {reason}")


def parameters_of(text: bytes, *, joins: bool = False) -> dict[str, str]:
    """Returns the query; `InvalidInput` for one with too many parameters, or with one twice, unless commas join its values."""
    try:
        pairs = parse_qsl(text.decode("latin-1"), keep_blank_values=True, max_num_fields=PARAMETERS_MAX)
    except ValueError:
        raise InvalidInput(f"A query has at most {PARAMETERS_MAX} parameters") from None
    if joins:
        names = dict.fromkeys(name for name, _ in pairs)
        return {name: ",".join(value for other, value in pairs if other == name) for name in names}
    if len(parameters := dict(pairs)) != len(pairs):
        raise InvalidInput("The query has a parameter twice")
    return parameters


def _decode(parameters: dict[str, str], kind: type[msgspec.Struct]) -> msgspec.Struct:
    try:
        query = msgspec.convert(parameters, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"The query is invalid: {explain(error, kind)}") from None
    for field in msgspec.structs.fields(kind):
        # msgspec takes the text `null` as None, which the sender did not mean.
        if field.encode_name in parameters and getattr(query, field.name) is None:
            raise InvalidInput(f"The query is invalid: {field.encode_name} must not be null; leave it out")
    return query


def _response(answer: HttpReply[object], reservation: ConnectionReservation, *, is_head: bool) -> HttpResponse:
    if is_head:
        headers = {"Cache-Control": "no-store", **answer.headers}
        return HttpResponse(status=answer.status, media_type=answer.media_type, headers=headers)
    return response_of(answer.content, answer.status, answer.media_type, answer.headers, reservation)


def response_of(
    reply: object, status: int, media_type: str, about: Mapping[str, str], reservation: ConnectionReservation
) -> HttpResponse:
    """Returns a response with a record as JSON, bytes as they are, or an iterator of bytes."""
    # Responses hold keys and money: no cache on the way may keep them.
    headers = {"Cache-Control": "no-store", **about}
    match reply:
        case None:
            content: bytes | AsyncIterator[bytes] = b""
        case bytes() | AsyncIterator():
            content = reply
        case record:
            content = msgspec.json.encode(record)
    if isinstance(content, bytes) and len(content) > PIECE_BYTES:
        hold(reservation, len(content))
        reservation.hold(0)
        headers["Content-Length"] = str(len(content))
        content = pieces(content, reservation)
    return HttpResponse(content=content, status=status, media_type=media_type, headers=headers)
