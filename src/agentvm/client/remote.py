"""Remote runtime — a runtime on a server, over one WebSocket that reconnects automatically.

When the connection is lost, pending requests fail with `ChannelClosed`; the server may or may not have executed them. The link
reconnects with growing delays and resubscribes to each session from its last cursor, so that handlers and iterators get every
event once, also across a restart of the server. If the server no longer has the missed events (`resync_required`), iterators
end.

Rejected credentials are not retried: the link ends, and the error is raised to its opener.
"""

import itertools
import random
import secrets
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeVar
from urllib.parse import urlsplit

import anyio
import anyio.abc
import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI

from agentvm.client.verbs import AgentX
from agentvm.errors import (
    AccessDenied,
    ChannelClosed,
    ConfigInvalid,
    InvalidInput,
    Refused,
    RequestTimeout,
    Unauthenticated,
    UnknownCommand,
    from_code,
    shorten,
)
from agentvm.log import get_logger
from agentvm.model.address import is_loopback
from agentvm.model.secret import Secret
from agentvm.operations.table import command_name, reply_type
from agentvm.protocol.codec import (
    CLIENT_FRAME_MAX_BYTES,
    decode_event,
    decode_reply,
    encode,
    encode_request,
)
from agentvm.protocol.link import ChannelState, EventHandler, Unsubscribe, WireEvent
from agentvm.protocol.requests import Reply, Request
from agentvm.runtime.observer import Observer
from agentvm.runtime.tasks import open_tasks

logger = get_logger(__name__)

R = TypeVar("R", bound=Reply)

FIRST_DELAY_SECONDS, DELAY_GROWTH_FACTOR, DELAY_SECONDS_MAX = 1.0, 1.3, 10.0

_CREATING = ("image_create_response", "image_build_response", "session_create_response")

PING_INTERVAL_SECONDS = 30.0
"""Time between two pings, and the timeout of a pong."""

CLOSE_TIMEOUT_SECONDS = 1.0
"""Time for the server to acknowledge a close."""

ENDED = {
    4401: "The server no longer accepts these credentials: the key was revoked or is missing",
    4403: "The user or tenant of these credentials is suspended",
    4408: "These credentials have expired",
}
"""Error messages by final close code."""


@dataclass(slots=True, eq=False)
class _Pending:
    answered: anyio.Event = field(default_factory=anyio.Event)
    reply: WireEvent | None = None


class RemoteLink:
    """A connection to a server. `run` must be running while it is used."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float) -> None:
        self._url = url
        self._headers = dict(headers)
        self._timeout = timeout
        self._observer = Observer()
        self._socket: ClientConnection | None = None
        self.refusal: AccessDenied | None = None
        """The error that ended the link permanently."""
        self._pending: dict[str, _Pending] = {}
        self._sessions: dict[str, int | None] = {}
        """Last cursor by subscribed session."""
        self._opened, self._wanted = anyio.Event(), anyio.Event()
        self._wanted.set()
        self._ids = itertools.count(1)
        self._prefix = f"req_{secrets.token_hex(6)}"

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Connects, then reads and reconnects until cancelled. The first failure is raised; returns when rejected."""
        socket = await self._connect()
        task_status.started()
        try:
            while True:
                await self._read(socket)
                if socket.close_code in ENDED:
                    self.refusal = Unauthenticated(ENDED[socket.close_code])
                self._dropped()
                if self.refusal is not None:
                    return
                socket = await self._reconnect()
        except AccessDenied as refusal:
            logger.info("reconnect_refused", code=refusal.code)
        finally:
            if self.refusal is not None:
                self._opened.set()
                self._observer.end_streams()

    @property
    def state(self) -> ChannelState:
        away: ChannelState = "waiting" if self._wanted.is_set() else "closed"
        return "refused" if self.refusal is not None else away if self._socket is None else "open"

    async def connect(self) -> None:
        self._wanted.set()
        await self._opened.wait()
        self._check_refused()

    async def disconnect(self) -> None:
        socket, self._socket = self._socket, None
        self._opened.set()
        self._wanted, self._opened = anyio.Event(), anyio.Event()
        if socket is not None:
            await socket.close()
        self._observer.end_streams()

    async def ask(self, request: Request[R]) -> R:
        kind = f"{command_name(request)}_request"
        try:
            data = msgspec.to_builtins(request)
        except TypeError as error:
            raise InvalidInput(f"Invalid {kind}: {error}") from None
        response = await self.request(kind, data)
        reply: R = decode_reply(reply_type(request), response.data)
        return reply

    async def request(self, kind: str, data: dict[str, object]) -> WireEvent:
        if not kind.endswith("_request"):
            # A server does not answer other frames.
            raise UnknownCommand(f"Unknown command: {kind}")
        socket = self._connected()
        request_id = f"{self._prefix}_{next(self._ids)}"
        pending = self._pending[request_id] = _Pending()
        command = {"type": kind, "timestamp": time.time_ns() // 1_000_000, "data": {**data, "requestId": request_id}}
        frame = {**command, "source": "command", "category": "request", "intent": "request"}
        try:
            with anyio.fail_after(self._timeout):
                await socket.send(encode_request(kind, frame))
                await pending.answered.wait()
        except TimeoutError:
            raise RequestTimeout(f"Request timeout: {kind} was not answered within {self._timeout:g} s") from None
        except ConnectionClosed:
            pass
        finally:
            del self._pending[request_id]
        if pending.reply is None:
            self._check_refused()
            raise ChannelClosed(f"The connection was lost while {kind} waited; it may or may not have been carried out")
        return _checked(pending.reply)

    async def send(self, frame: Mapping[str, object]) -> None:
        try:
            await self._connected().send(encode_request("frame", frame))
        except ConnectionClosed:
            raise ChannelClosed("The connection was lost; the frame may or may not have arrived") from None

    def _check_refused(self) -> None:
        if self.refusal is not None:
            raise from_code(self.refusal.code, str(self.refusal))

    def _connected(self) -> ClientConnection:
        self._check_refused()
        if self._socket is None:
            remedy = "the link reconnects by itself, try again" if self._wanted.is_set() else "connect() opens it again"
            raise ChannelClosed(f"Not connected; {remedy}")
        return self._socket

    def on(self, kind: str | EventHandler, handler: EventHandler | None = None) -> Unsubscribe:
        return self._observer.on(kind, handler)

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[WireEvent]]:
        return self._observer.events()

    async def _connect(self) -> ClientConnection:
        # Proxies from the environment are not for a server on this machine.
        proxy: Literal[True] | None = None if is_loopback(urlsplit(self._url).hostname or "") else True
        try:
            socket = await connect(
                self._url,
                additional_headers=self._headers,
                max_size=CLIENT_FRAME_MAX_BYTES,
                compression=None,
                ping_interval=PING_INTERVAL_SECONDS,
                ping_timeout=PING_INTERVAL_SECONDS,
                close_timeout=CLOSE_TIMEOUT_SECONDS,
                proxy=proxy,
            )
        except InvalidStatus as error:
            if error.response.status_code in (401, 403):
                self.refusal = _refused(error)
                raise self.refusal from None
            raise
        self._socket = socket
        self._opened.set()
        return socket

    async def _reconnect(self) -> ClientConnection:
        delay = FIRST_DELAY_SECONDS
        while True:
            # Random, so that clients do not reconnect all at once.
            await anyio.sleep(delay * random.uniform(0.8, 1.2))
            await self._wanted.wait()
            delay = min(delay * DELAY_GROWTH_FACTOR, DELAY_SECONDS_MAX)
            try:
                socket = await self._connect()
                for session_id, cursor in tuple(self._sessions.items()):
                    after = {} if cursor is None else {"afterCursor": str(cursor)}
                    await socket.send(encode({"type": "subscribe", "sessionId": session_id, **after}))
                if not self._wanted.is_set():
                    # Closed while it was being opened.
                    await self.disconnect()
            except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed) as error:
                logger.info("reconnect_failed", error=str(error))
                continue
            self._observer.react(WireEvent(type="connected", category="connection"))
            return socket

    async def _read(self, socket: ClientConnection) -> None:
        try:
            async for text in socket:
                self._receive(text if isinstance(text, str) else text.decode(errors="replace"))
        except ConnectionClosed:
            pass

    def _receive(self, text: str) -> None:
        try:
            event = decode_event(text)
        except InvalidInput:
            # A probe for reliable frames, which this client does not use.
            return
        if event.category == "response":
            pending = self._pending.get(str(event.data.get("requestId")))
            if pending is not None:
                self._remember(event)
                pending.reply = event
                pending.answered.set()
                return
        if self._is_new(event):
            self._observer.react(event)
        if event.type == "resync_required":
            self._start_over(event)
            self._observer.end_streams()

    def _is_new(self, event: WireEvent) -> bool:
        """Advances the cursor of the session; false for an event received before a reconnect."""
        session_id = event.context.get("sessionId")
        if session_id is None:
            return True
        seen = self._sessions.setdefault(session_id, None)
        if event.cursor is None or not event.cursor.isdigit():
            return True
        cursor = int(event.cursor)
        if seen is not None and cursor <= seen:
            return False
        self._sessions[session_id] = cursor
        return True

    def _start_over(self, event: WireEvent) -> None:
        """Sets the cursor to the server's, even to a lower one: the session has another history now."""
        session_id, cursor = event.data.get("sessionId"), event.data.get("cursor")
        if isinstance(session_id, str) and isinstance(cursor, str) and cursor.isdigit():
            self._sessions[session_id] = int(cursor)

    def _remember(self, response: WireEvent) -> None:
        subscribed = response.data.get("__subscriptions")
        # A new session has no missed events.
        first = 0 if response.type in _CREATING else None
        for session_id in (*(subscribed if isinstance(subscribed, list) else ()), response.data.get("sessionId")):
            if isinstance(session_id, str):
                self._sessions.setdefault(session_id, first)
                self._catch_up_from(session_id, response.data.get("cursor"))

    def _catch_up_from(self, session_id: str, cursor: object) -> None:
        """Sets the first cursor, so that events after a sent message arrive even if the connection is lost before them."""
        if self._sessions[session_id] is None and isinstance(cursor, str) and cursor.isdigit():
            self._sessions[session_id] = int(cursor)

    def _dropped(self) -> None:
        self._socket = None
        if self._opened.is_set():
            self._opened = anyio.Event()
        for pending in self._pending.values():
            pending.answered.set()
        error = self.refusal
        reason: dict[str, object] = {} if error is None else {"errorCode": error.code, "message": str(error)}
        self._observer.react(WireEvent(type="disconnected", category="connection", data=reason))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRuntime:
    """A runtime at a URL, to be opened by `create_agentx`."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    timeout: float

    def __post_init__(self) -> None:
        values = [value for name, value in self.headers.items() if name.lower() == "authorization"]
        if any(not value.isascii() or not value.isprintable() for value in values):
            # The error of the WebSocket library would print the key.
            raise ConfigInvalid("The API key contains an invalid character; check it for spaces and line breaks")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AgentX]:
        link = RemoteLink(self.url, self.headers, self.timeout)
        async with open_tasks() as tasks:

            async def run(*, task_status: anyio.abc.TaskStatus[None]) -> None:
                await link.run(task_status=task_status)
                # Rejected: no pending request will be answered.
                tasks.cancel_scope.cancel()

            try:
                with anyio.fail_after(self.timeout):
                    await tasks.start(run)
            except (InvalidURI, ValueError):
                raise ConfigInvalid(
                    f"{_shown(self.url)!r} is not a valid WebSocket URL; use for example ws://localhost:8080/ws"
                ) from None
            except InvalidStatus as error:
                message = _message(error)
                if error.response.status_code in (429, 503) and message:
                    raise Refused(message) from None
                raise ChannelClosed(f"Cannot connect to {_shown(self.url)}: {error}") from None
            except (OSError, TimeoutError, InvalidHandshake) as error:
                raise ChannelClosed(f"Cannot connect to {_shown(self.url)}: {str(error) or 'no answer'}") from None
            try:
                yield AgentX(link, None)
            finally:
                with anyio.CancelScope(shield=True):
                    await link.disconnect()
                tasks.cancel_scope.cancel()
        # Not in the task: with an error of the body it would become a group of two.
        if link.refusal is not None:
            raise link.refusal


def _shown(url: str) -> str:
    """The URL without user, query and fragment, which may hold credentials."""
    return url.partition("?")[0].partition("#")[0].rpartition("@")[2]


def remote_runtime(
    url: str, *, key: Secret | None = None, headers: Mapping[str, str] | None = None, timeout: float = 30.0
) -> RemoteRuntime:
    """A runtime on the server at `url` (`ws://host:port/ws`), with the API key if it requires one."""
    all_headers = dict(headers or {})
    if key is not None:
        if any(name.lower() == "authorization" for name in all_headers):
            raise ConfigInvalid("Use a key or an Authorization header, not both")
        all_headers["Authorization"] = f"Bearer {key.reveal()}"
    return RemoteRuntime(url=url, headers=all_headers, timeout=timeout)


def _refused(error: InvalidStatus) -> AccessDenied:
    """The error for a rejected handshake, with the message of the server if it sent one."""
    message = _message(error)
    if error.response.status_code == 401:
        return Unauthenticated(message or "The server does not accept these credentials")
    return AccessDenied(message or "The server refuses to open a socket for these credentials")


def _message(error: InvalidStatus) -> str:
    return shorten((error.response.body or b"").decode(errors="replace").strip())


def _checked(response: WireEvent) -> WireEvent:
    error = response.data.get("error")
    if isinstance(error, str) and error:
        code = response.data.get("errorCode")
        raise from_code(code if isinstance(code, str) else None, error)
    return response
