"""ASGI — one port, two worlds: sockets go straight to their peer, everything else through the management API."""

from collections.abc import Callable
from typing import Any

from litestar import Litestar, Response, get, head
from litestar.exceptions import HTTPException
from uvicorn.protocols.utils import ClientDisconnected

from agentvm.app import AgentVM
from agentvm.errors import shorten
from agentvm.server.errors import explain
from agentvm.server.origin import refusal
from agentvm.server.readers import Readers, client_id_of
from agentvm.server.transport import ABORT
from agentvm.server.websocket import House, Receive, Send, Watch, serve_socket
from agentvm.version import VERSION

SOCKET_PATHS = ("/ws", "/")
"""`/` too: a runtime that listens by itself is reached without a path."""

Scope = dict[str, Any]


class Application:
    """The ASGI application of one AgentVM."""

    def __init__(self, vm: AgentVM, watch: Watch) -> None:
        self._vm = vm
        self._house = House(vm, watch, Readers())
        self.bound_to = vm.config.host
        """The address peers come to."""
        self._http = management_api(lambda: vm.runtime.hindrance)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._http(scope, receive, send)  # type: ignore[arg-type]  # Litestar types ASGI more narrowly
        elif scope["path"] not in SOCKET_PATHS:
            await _refuse_socket(404, f"There is no socket at {shorten(scope['path'])!r}; connect to /ws", receive, send)
        elif reason := refusal(scope["headers"], bound_to=self.bound_to, allowed=self._vm.config.allow_origins):
            await _refuse_socket(403, f"Refused: {reason}; see --allow-origin", receive, send)
        else:
            client_id = client_id_of(scope.get("query_string", b""))
            await serve_socket(self._house, client_id, _abort_of(scope), receive, send)


def management_api(hindrance: Callable[[], str | None]) -> Litestar:
    """`hindrance` says why no new work is taken, if so."""

    @get("/health", sync_to_thread=False)
    def health() -> dict[str, str]:
        return {"status": "ok", "version": VERSION}

    @get("/ready", sync_to_thread=False)
    def ready() -> Response[dict[str, str]]:
        reason = hindrance()
        return Response({"status": "ready"}) if reason is None else Response({"status": reason}, status_code=503)

    @head("/health", sync_to_thread=False)
    def health_head() -> None:
        """Probes often ask for no more than the status."""

    @get("/ws", sync_to_thread=False)
    def socket_by_http() -> None:
        raise HTTPException(status_code=426, headers={"Upgrade": "websocket"})

    return Litestar(
        [health, health_head, ready, socket_by_http],
        openapi_config=None,
        logging_config=None,
        exception_handlers={Exception: explain},
        debug=False,
    )


def _abort_of(scope: Scope) -> Callable[[], None]:
    """Another ASGI server than ours offers none; there a peer that never reads holds its socket until that server gives up."""
    abort: Callable[[], None] = scope.get("extensions", {}).get(ABORT, {}).get("abort", lambda: None)
    return abort


async def _refuse_socket(status: int, why: str, receive: Receive, send: Send) -> None:
    await receive()  # websocket.connect
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": f"{why}\n".encode()})
    # uvicorn logs an error when a handler returns without a handshake; this says that there is nobody to shake hands with.
    raise ClientDisconnected
