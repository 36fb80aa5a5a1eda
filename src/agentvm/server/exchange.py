"""HTTP exchange — one request and its response, over ASGI and nothing else."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

from agentvm.errors import AgentVMError

T = TypeVar("T")

# ASGI messages are untyped dictionaries.
Message = dict[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Write = Callable[[bytes], Awaitable[None]]

GONE = "agentvm.gone"
"""In the extensions of a scope: the `PeerWatch` of its connection, if the transport has one."""

LAST_WRITE_SECONDS = 30.0
"""The end of a streamed response is given up after this long."""


class PeerWatch:
    """Cancels the work for a peer when the transport has lost it, so that no task has to wait for that."""

    __slots__ = ("_is_gone", "_scopes")

    def __init__(self) -> None:
        self._is_gone = False
        self._scopes: set[anyio.CancelScope] = set()

    def lose(self) -> None:
        """The peer is gone."""
        self._is_gone = True
        for scope in tuple(self._scopes):
            scope.cancel()

    @contextmanager
    def attending(self) -> Iterator[None]:
        """Cancels the block when the peer is gone."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                if self._is_gone:
                    scope.cancel()
                yield
            finally:
                self._scopes.discard(scope)


class PeerGone(Exception):
    """Raised when the peer closes its connection before its request is complete."""


class HttpError(Exception):
    """A failure that HTTP itself has a status for: no such path, no such method, a body that is too large or too slow."""

    def __init__(self, status: int, headers: Mapping[str, str] | None = None, hint: str = "") -> None:
        super().__init__(status)
        self.status, self.headers, self.hint = status, dict(headers or {}), hint


class HttpRequest:
    """One request. `path_params` are the values of the names in the path's template."""

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope, self._receive = scope, receive
        self.path_params: Mapping[str, str] = {}
        self.max_body_bytes = 0
        self.received: bytes | None = None
        """The body, where it was read before the operation was known to be allowed."""

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    @cached_property
    def headers(self) -> dict[str, str]:
        """The headers by lower-case name; the values of a repeated header are joined."""
        headers: dict[str, str] = {}
        for name, value in self.scope["headers"]:
            key, text = name.decode("latin-1").lower(), value.decode("latin-1")
            headers[key] = f"{headers[key]}, {text}" if key in headers else text
        return headers

    async def stream(self) -> AsyncIterator[bytes]:
        """Yields the body as it arrives. Raises `HttpError` 413 beyond the bound, `PeerGone` without an end."""
        announced = self.headers.get("content-length", "")
        if announced.isdigit() and int(announced) > self.max_body_bytes:
            raise self._too_large()
        size, more = 0, True
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise PeerGone
            body = message.get("body", b"")
            size += len(body)
            if size > self.max_body_bytes:
                raise self._too_large()
            more = message.get("more_body", False)
            yield body

    def _too_large(self) -> HttpError:
        return HttpError(413, hint=f"a body has at most {self.max_body_bytes:,} bytes here")

    async def wait_disconnected(self) -> None:
        """Waits until the client is gone, after the whole body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            await anyio.lowlevel.checkpoint()


async def attended(request: HttpRequest, work: Awaitable[T]) -> T:
    """Does work for as long as the client waits for it: cancelled when it goes, and then `PeerGone`."""
    outcome: list[T] = []
    failure: AgentVMError | None = None

    async def watch() -> None:
        await request.wait_disconnected()
        tasks.cancel_scope.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        try:
            outcome.append(await work)
        except AgentVMError as error:
            # Not through the task group, which would wrap it.
            failure = error
        tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure
    if not outcome:
        raise PeerGone
    return outcome[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """A response: bytes, an iterator of bytes, or `run`, which writes until it has no more to send."""

    content: bytes | AsyncIterator[bytes] = b""
    status: int = 200
    media_type: str | None = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    run: Callable[[Write], Awaitable[None]] | None = None

    async def send(self, receive: Receive, send: Send, extra: Mapping[str, str], watch: PeerWatch | None = None) -> None:
        headers = {name.lower(): value for name, value in {**self.headers, **extra}.items()}
        if self.media_type is not None and self.status not in (204, 304):
            charset = "; charset=utf-8" if self.media_type.startswith("text/") and "charset" not in self.media_type else ""
            headers.setdefault("content-type", f"{self.media_type}{charset}")
        if isinstance(self.content, bytes) and self.run is None and self.status not in (204, 304):
            headers.setdefault("content-length", str(len(self.content)))
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": raw})
        if self.run is not None:
            await _run(self.run, receive, send, watch)
        elif isinstance(self.content, bytes):
            await send({"type": "http.response.body", "body": self.content, "more_body": False})
        else:
            await _pump(self.content, receive, send, watch)


async def _pump(content: AsyncIterator[bytes], receive: Receive, send: Send, watch: PeerWatch | None) -> None:
    async def write_all(write: Write) -> None:
        async for chunk in content:
            await write(chunk)

    await _run(write_all, receive, send, watch)


async def _run(run: Callable[[Write], Awaitable[None]], receive: Receive, send: Send, watch: PeerWatch | None) -> None:
    """Lets `run` write until it ends or the peer is gone."""

    async def write(chunk: bytes) -> None:
        await send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def until_disconnected() -> None:
        while (await receive())["type"] != "http.disconnect":
            # The rest of the request's body.
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()

    async def write_all() -> None:
        await run(write)
        with anyio.move_on_after(LAST_WRITE_SECONDS):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    if watch is not None:
        with watch.attending():
            await write_all()
        return
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(until_disconnected)
        await write_all()
        tasks.cancel_scope.cancel()
