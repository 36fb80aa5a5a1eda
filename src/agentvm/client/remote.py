"""Remote runtime — a runtime elsewhere, over one WebSocket that comes back by itself.

When the socket drops, calls that wait for an answer fail at once with `ChannelClosed` (whether the server carried them out
is unknown). The link reconnects with growing delays and subscribes again to every session it knew, from the cursor it had
reached: handlers and iterators miss nothing and hear nothing twice, also across a restart of the server. Only when the
server no longer has what was missed (`resync_required`) do iterators end.

Credentials that are refused do not get better by being sent again: then the link ends, with the error for whoever opened it.
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
from agentvm.errors.bounds import InputTooLarge
from agentvm.log import get_logger
from agentvm.model.address import is_loopback
from agentvm.model.secret import Secret
from agentvm.protocol.codec import MAX_FRAME_BYTES, MAX_TOLD_BYTES, decode_event, decode_reply, encode
from agentvm.protocol.commands import Command, Reply
from agentvm.protocol.link import EventHandler, Unsubscribe, WireEvent
from agentvm.protocol.verbs import AgentX
from agentvm.runtime.observer import Observer
from agentvm.runtime.tasks import open_tasks

logger = get_logger(__name__)

R = TypeVar("R", bound=Reply)

FIRST_DELAY, DELAY_GROWTH, MAX_DELAY = 1.0, 1.3, 10.0

_MAKING = ("image_create_response", "image_build_response", "session_create_response")

HEARTBEAT = 30.0
"""Seconds between pings, and that a pong may take: a dead server is noticed within two."""

FAREWELL = 1.0
"""Seconds a server may take to answer a goodbye; one that is dead never does."""

ENDED = {
    4401: "The server no longer accepts these credentials: the key was revoked, or none was sent",
    4403: "The server has suspended whom these credentials belong to",
    4408: "These credentials have expired",
}
"""Why a server closes a socket that it would not open again, by close code."""


@dataclass(slots=True, eq=False)
class _Pending:
    answered: anyio.Event = field(default_factory=anyio.Event)
    reply: WireEvent | None = None


class RemoteLink:
    """Speaks to a server. `run` keeps the socket; without it nothing moves."""

    def __init__(self, url: str, headers: Mapping[str, str], timeout: float) -> None:
        self._url = url
        self._headers = dict(headers)
        self._timeout = timeout
        self._observer = Observer()
        self._socket: ClientConnection | None = None
        self.refusal: AccessDenied | None = None
        """Why there will be no connection any more."""
        self._pending: dict[str, _Pending] = {}
        self._sessions: dict[str, int | None] = {}
        """What is subscribed to, and how far it was heard."""
        self._ids = itertools.count(1)
        self._prefix = f"req_{secrets.token_hex(6)}"

    async def run(self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Connects (the first failure is the caller's), then reads and reconnects until cancelled; returns when refused."""
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
                self._observer.end_streams()

    async def ask(self, command: Command[R]) -> R:
        kind = f"{command.name}_request"
        try:
            data = msgspec.to_builtins(command)
        except TypeError as error:
            raise InvalidInput(f"Invalid {kind}: {error}") from None
        response = await self.request(kind, data)
        reply = decode_reply(command.reply_type, response.data)
        return reply  # type: ignore[return-value]  # reply_type is R's own class

    async def request(self, kind: str, data: dict[str, object]) -> WireEvent:
        if not kind.endswith("_request"):
            # A server answers nothing else; why wait for the timeout.
            raise UnknownCommand(f"Unknown command: {kind}")
        socket = self._socket
        if self.refusal is not None:
            raise from_code(self.refusal.code, str(self.refusal))
        if socket is None:
            raise ChannelClosed("Not connected; the link reconnects by itself, try again")
        request_id = f"{self._prefix}_{next(self._ids)}"
        pending = self._pending[request_id] = _Pending()
        frame = {
            "type": kind,
            "timestamp": time.time_ns() // 1_000_000,
            "data": {**data, "requestId": request_id},
            "source": "command",
            "category": "request",
            "intent": "request",
        }
        try:
            with anyio.fail_after(self._timeout):
                await socket.send(_encode_request(kind, frame))
                await pending.answered.wait()
        except TimeoutError:
            raise RequestTimeout(f"Request timeout: {kind} was not answered within {self._timeout:g} s") from None
        except ConnectionClosed:
            pass
        finally:
            del self._pending[request_id]
        if pending.reply is None and self.refusal is not None:
            raise from_code(self.refusal.code, str(self.refusal))
        if pending.reply is None:
            raise ChannelClosed(f"The connection was lost while {kind} waited; it may or may not have been carried out")
        return _checked(pending.reply)

    def on(self, kind: str, handler: EventHandler) -> Unsubscribe:
        return self._observer.on(kind, handler)

    def events(self) -> AbstractAsyncContextManager[AsyncIterator[WireEvent]]:
        return self._observer.events()

    async def close(self) -> None:
        if self._socket is not None:
            await self._socket.close()

    async def _connect(self) -> ClientConnection:
        # A proxy from the environment is for the world, not for a server on this machine.
        proxy: Literal[True] | None = None if is_loopback(urlsplit(self._url).hostname or "") else True
        try:
            socket = await connect(
                self._url,
                additional_headers=self._headers,
                max_size=MAX_TOLD_BYTES,
                compression=None,
                ping_interval=HEARTBEAT,
                ping_timeout=HEARTBEAT,
                close_timeout=FAREWELL,
                proxy=proxy,
            )
        except InvalidStatus as error:
            if error.response.status_code in (401, 403):
                self.refusal = _refused(error)
                raise self.refusal from None
            raise
        self._socket = socket
        return socket

    async def _reconnect(self) -> ClientConnection:
        delay = FIRST_DELAY
        while True:
            # Spread out, so that a server that comes back is not met by everybody at once.
            await anyio.sleep(delay * random.uniform(0.8, 1.2))
            delay = min(delay * DELAY_GROWTH, MAX_DELAY)
            try:
                socket = await self._connect()
                for session_id, cursor in tuple(self._sessions.items()):
                    after = {} if cursor is None else {"afterCursor": str(cursor)}
                    await socket.send(encode({"type": "subscribe", "sessionId": session_id, **after}))
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
            # The probe's wrapper: this client stays with bare frames, which cost no acknowledgements.
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
        """Moves the session's cursor; false for what was heard before the socket dropped."""
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
        """The session goes on from the server's cursor, also when that is behind ours: it has another history now."""
        session_id, cursor = event.data.get("sessionId"), event.data.get("cursor")
        if isinstance(session_id, str) and isinstance(cursor, str) and cursor.isdigit():
            self._sessions[session_id] = int(cursor)

    def _remember(self, response: WireEvent) -> None:
        named = response.data.get("__subscriptions")
        # Nothing can have been missed of a session that was just made.
        first = 0 if response.type in _MAKING else None
        for session_id in (*(named if isinstance(named, list) else ()), response.data.get("sessionId")):
            if isinstance(session_id, str):
                self._sessions.setdefault(session_id, first)
                self._catch_up_from(session_id, response.data.get("cursor"))

    def _catch_up_from(self, session_id: str, cursor: object) -> None:
        """What follows a message that was sent is heard, also if the socket drops before any of it came."""
        if self._sessions[session_id] is None and isinstance(cursor, str) and cursor.isdigit():
            self._sessions[session_id] = int(cursor)

    def _dropped(self) -> None:
        self._socket = None
        for pending in self._pending.values():
            pending.answered.set()
        why: dict[str, object] = {} if self.refusal is None else {"errorCode": self.refusal.code, "message": str(self.refusal)}
        self._observer.react(WireEvent(type="disconnected", category="connection", data=why))


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteRuntime:
    """What `create_agentx` opens: a runtime behind a URL."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    timeout: float

    def __post_init__(self) -> None:
        given = [value for name, value in self.headers.items() if name.lower() == "authorization"]
        if any(not value.isascii() or not value.isprintable() for value in given):
            # Said here, because what the socket would say of it shows it.
            raise ConfigInvalid("The key holds a character that no key has; look for a blank or a line break in it")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[AgentX]:
        link = RemoteLink(self.url, self.headers, self.timeout)
        async with open_tasks() as tasks:

            async def run(*, task_status: anyio.abc.TaskStatus[None]) -> None:
                await link.run(task_status=task_status)
                # Refused: nothing that is still waited for will come.
                tasks.cancel_scope.cancel()

            try:
                with anyio.fail_after(self.timeout):
                    await tasks.start(run)
            except (InvalidURI, ValueError):
                raise ConfigInvalid(
                    f"{_shown(self.url)!r} is no WebSocket URL; write for example ws://localhost:8080/ws"
                ) from None
            except InvalidStatus as error:
                said = shorten((error.response.body or b"").decode(errors="replace").strip())
                if error.response.status_code in (429, 503) and said:
                    # There is a server, and it says why not now.
                    raise Refused(said) from None
                raise ChannelClosed(f"Cannot connect to {_shown(self.url)}: {error}") from None
            except (OSError, TimeoutError, InvalidHandshake) as error:
                raise ChannelClosed(f"Cannot connect to {_shown(self.url)}: {str(error) or 'no answer'}") from None
            try:
                yield AgentX(link, None)
            finally:
                with anyio.CancelScope(shield=True):
                    await link.close()
                tasks.cancel_scope.cancel()
        # Here, and not in the task: beside an error of the body it would be a group of two that say the same.
        if link.refusal is not None:
            raise link.refusal


def _shown(url: str) -> str:
    """Without what may be a credential: the user's part, the query and the fragment."""
    return url.partition("?")[0].partition("#")[0].rpartition("@")[2]


def remote_runtime(
    url: str, *, key: Secret | None = None, headers: Mapping[str, str] | None = None, timeout: float = 30.0
) -> RemoteRuntime:
    """Agents run behind `url` (`ws://host:port/ws`); `key` says who is asking, where the server wants to know."""
    sent = dict(headers or {})
    if key is not None:
        if any(name.lower() == "authorization" for name in sent):
            raise ConfigInvalid("Give a key or an Authorization header, not both")
        sent["Authorization"] = f"Bearer {key.reveal()}"
    return RemoteRuntime(url=url, headers=sent, timeout=timeout)


def _refused(error: InvalidStatus) -> AccessDenied:
    """In the server's words, if it has any."""
    said = shorten((error.response.body or b"").decode(errors="replace").strip())
    if error.response.status_code == 401:
        return Unauthenticated(said or "The server does not accept these credentials")
    return AccessDenied(said or "The server refuses to open a socket for these credentials")


def _encode_request(kind: str, frame: object) -> str:
    try:
        text = encode(frame)
    except (TypeError, UnicodeEncodeError) as error:
        raise InvalidInput(f"Invalid {kind}: {error}") from None
    # Said here: a server closes the connection of who sends it such a frame.
    if len(text) > MAX_FRAME_BYTES:
        raise InputTooLarge(f"{kind} is too large: a frame has at most {MAX_FRAME_BYTES:,} bytes; upload files as attachments")
    return text


def _checked(response: WireEvent) -> WireEvent:
    error = response.data.get("error")
    if isinstance(error, str) and error:
        code = response.data.get("errorCode")
        raise from_code(code if isinstance(code, str) else None, error)
    return response
