"""Platform calls — requests to the HTTP interfaces of platforms, over the checked transport, and checked sockets."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpcore2
import httpx2
import msgspec
import websockets
from websockets.asyncio.client import ClientConnection, connect

from agentvm.channels.base import FILE_MAX_BYTES, UNKNOWN_TYPE, FetchedFile, InboundFile
from agentvm.errors import ToolFailed
from agentvm.errors.channel import PlatformFailed
from agentvm.model.ids import Clock
from agentvm.tools.safe_http import Outgoing, SafeHttp, check_url

REPLY_MAX_BYTES = 4 * 1024 * 1024
FRAME_MAX_BYTES = 1024 * 1024
FRAMES_MAX = 4
"""Frames of a socket that wait to be read. Their number times their size bounds the memory that a platform can take for a
channel."""
CALL_SECONDS = 30.0
OPEN_SECONDS = 20.0
CLOSE_SECONDS = 2.0
EXPIRY_MS = 60_000
"""A token or an address that ends within this time is not used any more."""
_NO_JSON = (msgspec.DecodeError, UnicodeError, RecursionError)
"""The errors of decoding a text that is not JSON, is not Unicode, or is nested too deeply."""
_NO_SOCKET = "The platform names no address of a WebSocket"
_NOT_PLAIN = "is only called over TLS, because of the secrets; the operator can allow other addresses with tools.network.allow"


async def call_json(
    http: SafeHttp,
    method: str,
    url: str,
    body: object = None,
    *,
    headers: Mapping[str, str] | None = None,
    timeout_seconds: float = CALL_SECONDS,
) -> tuple[int, dict[str, Any]]:
    """Returns the status and the JSON object of a response; `PlatformFailed` when there is none."""
    try:
        request = Outgoing(
            method=method,
            url=_parsed(http, url),
            headers=() if body is None else (("Content-Type", "application/json; charset=utf-8"),),
            # Tokens are in addresses, headers or bodies.
            has_secrets=True,
            secret_headers=tuple((headers or {}).items()),
            content=b"" if body is None else msgspec.json.encode(body),
        )
        fetched = await http.send(request, timeout_seconds=timeout_seconds, max_bytes=REPLY_MAX_BYTES)
    except ToolFailed as error:
        raise PlatformFailed(str(error)) from None
    try:
        reply: dict[str, Any] = msgspec.json.decode(fetched.body, type=dict[str, Any])
    except _NO_JSON:
        raise PlatformFailed(f"{request.url.host} answered {fetched.status} without JSON") from None
    return fetched.status, reply


async def fetch_file(http: SafeHttp, url: str, file: InboundFile, headers: Mapping[str, str] | None = None) -> FetchedFile:
    """Returns a file of a message, of the type that the platform names, or else of the one that the message named."""
    content, media_type = await download(http, url, headers)
    return FetchedFile(
        content=content, media_type=file.media_type if media_type == UNKNOWN_TYPE else media_type, name=file.name
    )


async def download(http: SafeHttp, url: str, headers: Mapping[str, str] | None = None) -> tuple[bytes, str]:
    """Returns the bytes of a file and its media type."""
    try:
        request = Outgoing(
            method="GET", url=_parsed(http, url, has_secrets=bool(headers)), secret_headers=tuple((headers or {}).items())
        )
        fetched = await http.send(request, timeout_seconds=CALL_SECONDS, max_bytes=FILE_MAX_BYTES)
    except ToolFailed as error:
        raise PlatformFailed(str(error)) from None
    if fetched.status != 200:
        raise PlatformFailed(f"{request.url.host} answered {fetched.status} instead of a file", permanent=True)
    return fetched.body, fetched.media_type or UNKNOWN_TYPE


def _parsed(http: SafeHttp, text: str, *, has_secrets: bool = True) -> httpx2.URL:
    """Returns an address of a platform. No failure repeats its text: a token may be in it."""
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError):
        raise PlatformFailed("The address of the platform is not valid: correct the setting address") from None
    check_url(url)
    if has_secrets and url.scheme != "https" and not http.allows_plain(url):
        raise PlatformFailed(f"{url.host} {_NOT_PLAIN}")
    return url


@asynccontextmanager
async def open_socket(http: SafeHttp, url: str) -> AsyncIterator[ClientConnection]:
    """Opens a WebSocket to an address that was checked as every other request is. `PlatformFailed` when it breaks."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "wss" else 80)
    except ValueError:
        raise PlatformFailed(_NO_SOCKET) from None
    if parts.scheme not in ("ws", "wss") or not host:
        raise PlatformFailed(_NO_SOCKET)
    addresses = await _checked(http, host, port)
    if parts.scheme == "ws" and not http.allows_plain(httpx2.URL(scheme="http", host=host, port=port)):
        raise PlatformFailed(f"{host} {_NOT_PLAIN}")
    try:
        async with connect(
            url,
            # A second answer of the name server is never used; the certificate is checked for the host of the address.
            host=str(addresses[0]),
            port=port,
            proxy=None,
            open_timeout=OPEN_SECONDS,
            close_timeout=CLOSE_SECONDS,
            ping_interval=None,
            max_size=FRAME_MAX_BYTES,
            max_queue=FRAMES_MAX,
        ) as socket:
            yield socket
    except websockets.InvalidStatus as error:
        raise PlatformFailed(f"{host} refused the connection with status {error.response.status_code}") from None
    except (OSError, TimeoutError, websockets.WebSocketException) as error:
        raise PlatformFailed(f"The connection to {host} is broken: {type(error).__name__}") from None


async def _checked(http: SafeHttp, host: str, port: int) -> tuple[object, ...]:
    try:
        return await http.network.check(host, port)
    except ToolFailed as error:
        raise PlatformFailed(str(error)) from None
    except httpcore2.ConnectError:
        raise PlatformFailed(f"{host} has no address") from None


class AccessToken:
    """A token of a platform, asked for again before it ends. `ask` returns a new one and its seconds."""

    def __init__(self, clock: Clock, ask: Callable[[], Awaitable[tuple[str, int]]]) -> None:
        self._clock, self._ask = clock, ask
        self._token, self._ends_at = "", 0

    async def get(self) -> str:
        if self._clock() + EXPIRY_MS >= self._ends_at:
            self._token, seconds = await self._ask()
            self._ends_at = self._clock() + seconds * 1000
        return self._token

    def drop(self) -> None:
        """Forgets a token that the platform takes no more."""
        self._ends_at = 0


def read_object(frame: str | bytes) -> dict[str, Any] | None:
    """Returns a frame as a JSON object; None for one that is no such thing, which is ignored."""
    try:
        decoded: dict[str, Any] = msgspec.json.decode(frame, type=dict[str, Any])
    except _NO_JSON:
        return None
    return decoded


def text_of(value: object, *path: str) -> str:
    """Returns a text deep in a JSON object; '' when there is none."""
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else str(value) if isinstance(value, int) and not isinstance(value, bool) else ""
