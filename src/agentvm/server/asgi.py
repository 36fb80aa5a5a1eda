"""ASGI — one port, two worlds: sockets go straight to their peer, everything else through the management API."""

from collections.abc import Callable
from typing import Any

from litestar import Litestar, Response, get
from uvicorn.protocols.utils import ClientDisconnected

from agentvm.app import AgentVM
from agentvm.server.errors import explain
from agentvm.server.transport import ABORT
from agentvm.server.websocket import Receive, Send, Watch, serve_socket
from agentvm.version import VERSION

SOCKET_PATHS = ("/ws", "/")
"""`/` too: a runtime that listens by itself is reached without a path."""

Scope = dict[str, Any]


class Application:
    """The ASGI application of one AgentVM."""

    def __init__(self, vm: AgentVM, watch: Watch) -> None:
        self._vm = vm
        self._watch = watch
        self._http = management_api(lambda: vm.runtime.accepting)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._http(scope, receive, send)  # type: ignore[arg-type]  # Litestar types ASGI more narrowly
        elif scope["path"] in SOCKET_PATHS:
            abort: Callable[[], None] = scope["extensions"][ABORT]["abort"]
            await serve_socket(self._vm, self._watch, abort, receive, send)
        else:
            await _refuse_socket(scope["path"], receive, send)


def management_api(is_ready: Callable[[], bool]) -> Litestar:
    @get("/health", sync_to_thread=False)
    def health() -> dict[str, str]:
        return {"status": "ok", "version": VERSION}

    @get("/ready", sync_to_thread=False)
    def ready() -> Response[dict[str, str]]:
        if is_ready():
            return Response({"status": "ready"})
        return Response({"status": "shutting down"}, status_code=503)

    return Litestar(
        [health, ready],
        openapi_config=None,
        logging_config=None,
        exception_handlers={Exception: explain},
        debug=False,
    )


async def _refuse_socket(path: str, receive: Receive, send: Send) -> None:
    await receive()  # websocket.connect
    body = f"There is no socket at {path[:200]!r}; connect to /ws\n".encode()
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "websocket.http.response.start", "status": 404, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})
    # uvicorn logs an error when a handler returns without a handshake; this says that there is nobody to shake hands with.
    raise ClientDisconnected
