"""Safe HTTP — the one transport for everything that the server fetches on behalf of a tenant.

A host is resolved, each of its addresses has to be allowed, and the connection goes to an address that was checked: a second
answer of the name server is never used. Redirects pass the same check, are few, and carry no credentials. A response is read up
to a number of bytes, counted after decompression. No proxy, certificate or password is taken from the environment.
"""

import re
import ssl
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from http.cookiejar import DefaultCookiePolicy
from typing import Self

import anyio
import httpcore2
import httpx2

from agentvm.errors import ToolFailed, shorten
from agentvm.errors.tool import EgressRefused
from agentvm.model.public_address import AddressRules, Host, is_public, parse_host
from agentvm.sharing.checked_address import Resolve
from agentvm.sharing.fair_slots import FairSlots, HeldSlots
from agentvm.sharing.name_lookup import resolve_host
from agentvm.tools.base import RESULT_MAX_BYTES, TIMEOUT_SECONDS
from agentvm.tools.checked_network import CheckedNetwork
from agentvm.version import VERSION

PUBLIC_ONLY = AddressRules()
REDIRECTS_MAX, PORT_MAX = 5, 65_535
URL_MAX = 8 * 1024
CONNECTIONS_MAX = 512
OWNER_CONNECTIONS_MAX = 128
"""Connections of one tenant at a time: a server that does not answer holds one for as long as a tool may take."""
_SILENCE_SECONDS = 60.0
_KEEP_ALIVE_SECONDS = 15.0
_PIECE_BYTES = 64 * 1024
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_CREDENTIALS = frozenset({b"authorization", b"cookie", b"proxy-authorization"})
_OF_ENCODED = frozenset({b"content-encoding", b"content-length"})
_TIMEOUTS = httpx2.Timeout(_SILENCE_SECONDS)
_HEADERS = {"User-Agent": f"AgentVM/{VERSION}"}
_CHARSET = re.compile(r"""charset=["']?([\w-]{1,40})""", re.IGNORECASE)
_CHARSETS = re.compile(
    r"utf-?8|utf-?16(le|be)?|us-ascii|ascii|latin-?1|iso-8859-\d{1,2}|windows-125\d|cp125\d|koi8-[ru]|gbk|gb2312|gb18030|big5"
    r"|shift[_-]jis|euc-(jp|kr)|iso-2022-jp",
    re.IGNORECASE,
)
_FINAL_URL = "agentvm.url"
_MAX_BYTES = "agentvm.max_bytes"
_SECRET_HEADERS = "agentvm.secret_headers"
_STAYS = "agentvm.stays"
_OWNER = "agentvm.owner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """One request. `secret_headers` are sent to the host of `url` only, never across a redirect."""

    method: str
    url: httpx2.URL
    headers: tuple[tuple[str, str], ...] = ()
    has_secrets: bool = False
    """The request has secrets, in any place: a redirect to another host is refused."""
    secret_headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    content: bytes = b""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A whole response; `url` is the address that gave it, after redirects."""

    status: int
    url: str
    headers: httpx2.Headers
    body: bytes

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def text(self) -> str:
        """The body as text, in the character set that the server names if it is a usual one, else in UTF-8."""
        match = _CHARSET.search(self.headers.get("content-type", ""))
        # Not every codec of Python takes linear time.
        charset = match[1] if match is not None and _CHARSETS.fullmatch(match[1]) else "utf-8"
        try:
            return self.body.decode(charset, "replace")
        except LookupError:
            return self.body.decode("utf-8", "replace")


class SafeHttp:
    """The requests of this server, over one set of connections. Nothing is opened before the first request."""

    def __init__(
        self, rules: AddressRules = PUBLIC_ONLY, *, resolve: Resolve = resolve_host, ssl_context: ssl.SSLContext | None = None
    ) -> None:
        self.rules = rules
        self.network = CheckedNetwork(rules, resolve)
        self._slots = FairSlots(CONNECTIONS_MAX, share=OWNER_CONNECTIONS_MAX, idle_first=True)
        self._ssl_context = ssl_context
        self._pool: httpcore2.AsyncConnectionPool | None = None
        self._client: httpx2.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pool, self._pool, self._client = self._pool, None, None
        if pool is not None:
            await pool.aclose()

    async def send(
        self,
        request: Outgoing,
        *,
        owner: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
        max_bytes: int = RESULT_MAX_BYTES,
    ) -> Fetched:
        """Sends a request for a tenant, or for the server itself, and reads the response.

        Every failure is a `ToolFailed`; a status of 400 and above is a response.
        """
        if self._client is None:
            self._client = self.client()
        secret = frozenset(name.lower() for name, _ in request.secret_headers)
        try:
            with anyio.fail_after(timeout_seconds):
                response = await self._client.request(
                    request.method,
                    request.url,
                    headers=[*request.headers, *request.secret_headers],
                    content=request.content or None,
                    extensions={
                        _SECRET_HEADERS: secret,
                        _MAX_BYTES: max_bytes,
                        _STAYS: request.has_secrets,
                        _OWNER: owner,
                    },
                )
        except TimeoutError:
            raise ToolFailed(f"{request.url.host} did not answer within {timeout_seconds:g} seconds") from None
        except httpx2.HTTPError as error:
            raise ToolFailed(f"{request.url.host} could not be reached: {type(error).__name__}") from None
        final = response.extensions[_FINAL_URL]
        assert isinstance(final, str)
        return Fetched(response.status_code, final, response.headers, response.content)

    def client(
        self,
        *,
        owner: str | None = None,
        redirects: int = REDIRECTS_MAX,
        max_bytes: int = RESULT_MAX_BYTES,
        auth: httpx2.Auth | None = None,
    ) -> httpx2.AsyncClient:
        """Returns a client over the shared connections, for libraries that bring their own requests. It keeps no cookies
        and may be closed at any time; `redirects` of 0 leaves redirects to the library."""
        transport = SafeTransport(self._connections(), self._slots, owner=owner, redirects=redirects, max_bytes=max_bytes)
        client = httpx2.AsyncClient(
            transport=transport, auth=auth, trust_env=False, follow_redirects=False, timeout=_TIMEOUTS, headers=_HEADERS
        )
        client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        return client

    def allows_plain(self, url: httpx2.URL) -> bool:
        """Whether an address may be asked without TLS and with credentials: the operator has named it himself."""
        host = parse_host(url.raw_host.decode("ascii", "replace"))
        port = url.port or 80
        if host is None or (host.name, port) in self.rules.endpoints:
            return host is not None
        return host.address is not None and not is_public(host.address) and self.rules.allows(host, host.address, port)

    def _connections(self) -> httpcore2.AsyncConnectionPool:
        if self._pool is None:
            self._pool = httpcore2.AsyncConnectionPool(
                ssl_context=self._ssl_context or _trusted(),
                max_connections=CONNECTIONS_MAX,
                max_keepalive_connections=CONNECTIONS_MAX // 4,
                keepalive_expiry=_KEEP_ALIVE_SECONDS,
                network_backend=self.network,
            )
        return self._pool


@cache
def _trusted() -> ssl.SSLContext:
    """The certificate authorities that are trusted; reading them takes a tenth of a second."""
    return httpx2.create_ssl_context(trust_env=False)


class SafeTransport(httpx2.AsyncBaseTransport):
    """Sends the requests of one client over the shared connections."""

    def __init__(
        self, pool: httpcore2.AsyncConnectionPool, slots: FairSlots, *, owner: str | None, redirects: int, max_bytes: int
    ) -> None:
        self._pool, self._slots, self._owner, self._redirects, self._max_bytes = pool, slots, owner, redirects, max_bytes

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        hop = Hop.of(request)
        held = await self._slots.acquire(request.extensions.get(_OWNER) or self._owner)
        with ExitStack() as unless_answered:
            unless_answered.callback(held.release)
            hop, response = await self._follow(hop, request)
            unless_answered.pop_all()
        return self._received(hop, response, request.extensions.get(_MAX_BYTES, self._max_bytes), held)

    async def _follow(self, hop: "Hop", request: httpx2.Request) -> "tuple[Hop, httpcore2.Response]":
        """Returns the last hop of a request, and its response."""
        for _ in range(self._redirects + 1):
            response = await self._send(hop, request.extensions.get("timeout"))
            if response.status not in _REDIRECTS or not self._redirects:
                return hop, response
            try:
                hop = hop.follow(response.status, _location(response))
            finally:
                await response.aclose()
        raise ToolFailed(f"{request.url.host} redirects more than {self._redirects} times")

    async def _send(self, hop: "Hop", timeouts: object) -> httpcore2.Response:
        url = hop.url
        with _explained(url.host):
            return await self._pool.handle_async_request(
                httpcore2.Request(
                    hop.method,
                    httpcore2.URL(scheme=url.raw_scheme, host=url.raw_host, port=url.port, target=url.raw_path),
                    headers=list(hop.headers),
                    content=hop.content,
                    extensions={"timeout": timeouts or _TIMEOUTS.as_dict()},
                )
            )

    def _received(self, hop: "Hop", response: httpcore2.Response, max_bytes: int, held: HeldSlots) -> httpx2.Response:
        encoding = httpx2.Headers(response.headers).get("content-encoding", "").strip().lower()
        headers = [(name, value) for name, value in response.headers if name.lower() not in _OF_ENCODED]
        body = _Body(response, hop.url.host, encoding, max_bytes, held)
        return httpx2.Response(response.status, headers=headers, stream=body, extensions={_FINAL_URL: str(hop.url)})

    async def aclose(self) -> None:
        """The connections are shared, and stay."""


@contextmanager
def _explained(host: str) -> Iterator[None]:
    """Words the failures of a connection for a model: none of them tells about this machine or its network."""
    try:
        yield
    except httpcore2.TimeoutException as error:
        failure = ToolFailed(f"{host} did not answer in time")
        failure.unsent = isinstance(error, httpcore2.ConnectTimeout | httpcore2.PoolTimeout)
        raise failure from None
    except httpcore2.ConnectError as error:
        cause = "its certificate is not valid" if isinstance(error.__context__, ssl.SSLError) else "there is no connection"
        failure = ToolFailed(f"{host} could not be reached: {cause}")
        failure.unsent = True
        raise failure from None
    except (httpcore2.NetworkError, httpcore2.ProtocolError):
        raise ToolFailed(f"{host} closed the connection, or does not speak HTTP") from None


@dataclass(frozen=True, slots=True)
class Hop:
    """One request of a chain of redirects."""

    method: str
    url: httpx2.URL
    headers: tuple[tuple[bytes, bytes], ...] = field(repr=False)
    content: bytes | httpx2.AsyncByteStream
    secret_headers: frozenset[bytes]
    """Names, in lower case."""
    stays: bool = False
    """Whether redirects to another host are refused."""

    @classmethod
    def of(cls, request: httpx2.Request) -> Self:
        check_url(request.url)
        names = request.extensions.get(_SECRET_HEADERS, ())
        headers = tuple((name, value) for name, value in request.headers.raw if name.lower() != b"accept-encoding")
        assert isinstance(request.stream, httpx2.AsyncByteStream)
        secret = _CREDENTIALS.union(name.encode() for name in names)
        stays = bool(request.extensions.get(_STAYS))
        return cls(request.method, request.url, (*headers, (b"Accept-Encoding", b"gzip")), request.stream, secret, stays)

    def follow(self, status: int, location: str) -> "Hop":
        """Returns the request that a redirect asks for, without any credentials. Raises `EgressRefused` for an unsafe one."""
        try:
            url = self.url.join(location)
        except httpx2.InvalidURL:
            raise ToolFailed(f"{self.url.host} redirects to an invalid address") from None
        check_url(url)
        if self.url.scheme == "https" and url.scheme != "https":
            raise EgressRefused(f"{self.url.host} redirects from https to http, which is not followed")
        if self.stays and _origin(url) != _origin(self.url):
            raise EgressRefused(f"{self.url.host} redirects to {url.host}, which is not followed: the call has a secret")
        passed_headers = [(name, value) for name, value in self.headers if name.lower() not in self.secret_headers | {b"host"}]
        headers = ((b"Host", url.netloc), *passed_headers)
        keeps = status in (307, 308)
        if keeps and self.method not in ("GET", "HEAD") and _origin(url) != _origin(self.url):
            raise EgressRefused(f"{self.url.host} redirects a request with a body to {url.host}, which is not followed")
        if keeps or self.method in ("GET", "HEAD"):
            return replace(self, url=url, headers=headers)
        bare = tuple((name, value) for name, value in headers if not name.lower().startswith((b"content-", b"transfer-")))
        return replace(self, method="GET", url=url, headers=bare, content=b"")


def check_url(url: httpx2.URL) -> Host:
    """Returns the host of an address that may be asked; `EgressRefused` says why another may not."""
    if url.scheme not in ("http", "https"):
        raise EgressRefused(f"Tools may use http and https, not {shorten(url.scheme)!r}")
    if url.userinfo:
        raise EgressRefused("An address may not hold a user name or a password")
    if len(str(url)) > URL_MAX:
        raise EgressRefused(f"An address may have {URL_MAX} characters")
    if url.port is not None and url.port > PORT_MAX:
        raise EgressRefused(f"A port is a number up to {PORT_MAX}")
    host = parse_host(url.raw_host.decode("ascii", "replace"))
    if host is None:
        raise EgressRefused(f"{shorten(url.host)!r} is not a host that tools may reach")
    return host


def parse_url(text: str) -> httpx2.URL:
    """Parses an address that a model or a person wrote, as strictly as it is requested later."""
    if any(character <= " " or character == "\\" for character in text):
        raise EgressRefused("An address may hold neither blanks nor backslashes")
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, ValueError):
        raise EgressRefused(f"{shorten(text)!r} is not an address") from None
    check_url(url)
    return url


def endpoint_of(text: str) -> str | None:
    """Returns host and port of an address, as `AddressRules.parse` reads them; None for a text that is not an address."""
    try:
        url = httpx2.URL(text)
    except (httpx2.InvalidURL, TypeError):
        return None
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{host}:{url.port or (443 if url.scheme == 'https' else 80)}"


def _origin(url: httpx2.URL) -> tuple[str, str, int | None]:
    return url.scheme, url.host, url.port


def _location(response: httpcore2.Response) -> str:
    location = httpx2.Headers(response.headers).get("location")
    if location is None or len(location) > URL_MAX:
        raise ToolFailed("A redirect names no address, or one that is too long")
    return location


class _Body(httpx2.AsyncByteStream):
    """The body of a response, decompressed piece by piece. Too many bytes fail it before they are kept."""

    def __init__(self, response: httpcore2.Response, host: str, encoding: str, max_bytes: int, held: HeldSlots) -> None:
        self._response, self._host, self._encoding, self._max_bytes = response, host, encoding, max_bytes
        self._held = held

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoding not in ("", "identity", "gzip", "x-gzip"):
            raise ToolFailed(f"{self._host} answers in the encoding {shorten(self._encoding)!r}, which was not requested")
        inflate = zlib.decompressobj(zlib.MAX_WBITS | 16) if "gzip" in self._encoding else None
        received = yielded = 0
        with _explained(self._host):
            async for raw in self._response.aiter_stream():
                received += len(raw)
                for piece in (raw,) if inflate is None else _inflated(inflate, raw):
                    yielded += len(piece)
                    if yielded > self._max_bytes:
                        break
                    yield piece
                # Both are counted: compressed bytes may stand for any number of others, none included.
                if max(received, yielded) > self._max_bytes:
                    raise ToolFailed(f"{self._host} answers with more than {self._max_bytes} bytes")

    async def aclose(self) -> None:
        try:
            await self._response.aclose()
        finally:
            self._held.release()


def _inflated(inflate: "zlib._Decompress", raw: bytes) -> Iterable[bytes]:
    try:
        piece = inflate.decompress(raw, _PIECE_BYTES)
        while piece:
            yield piece
            piece = inflate.decompress(inflate.unconsumed_tail, _PIECE_BYTES)
    except zlib.error:
        raise ToolFailed("The response is damaged: it is not gzip, as it says") from None
