"""Routes — the declaration of a gateway: its paths, bodies and the shape of its errors. The server serves them."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from agentvm.errors import InvalidInput
from agentvm.gateways.talk import Talk
from agentvm.model.gateway_settings import GatewaySettings
from agentvm.operations.http_reply import Streamed

B = TypeVar("B")

BODY_MAX_BYTES = 32 * 1024 * 1024
VALUES_MAX = 200_000
KEY_HEADER, KEY_MAX = "idempotency-key", 200


class Lenient(msgspec.Struct, frozen=True, kw_only=True):
    """A body, or a part of one, of another protocol: fields that it does not declare are ignored."""


class NoBody(Lenient, frozen=True):
    """A request without a body, or with an ignored one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask(Generic[B]):
    """A request of a gateway."""

    body: B
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    """By lower-case name."""
    origin: str = ""
    """Scheme and host by which the client reaches this server."""
    content: bytes = b""
    """The body as it came, of a route that keeps it."""

    @property
    def key(self) -> str | None:
        """The client's name for this request: sent again under it, it is the same request."""
        key = self.headers.get(KEY_HEADER)
        if key is not None and not 0 < len(key) <= KEY_MAX:
            raise InvalidInput(f"Idempotency-Key has 1 to {KEY_MAX} characters")
        return key


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayReply:
    """A response: a record or a dictionary as JSON, bytes as they are, or a stream."""

    content: object
    status: int = 200
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def streamed(self) -> Streamed | None:
        return self.content if isinstance(self.content, Streamed) else None


GatewayHandler = Callable[[Ask[Any], Talk], Awaitable[GatewayReply]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayProblem:
    """A failure before a dialect has given it a shape. `code` is stable, `message` is for people; no details cross."""

    status: int
    code: str
    message: str
    request_id: str
    is_unread: bool = False
    """Whether the body is no JSON, which some dialects tell apart from a wrong one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapedProblem:
    """A failure in a dialect."""

    status: int
    content: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRoute:
    """A path and a method below each prefix of its gateway."""

    method: str
    path: str
    handler: GatewayHandler
    body: type[Lenient] = NoBody
    names: Mapping[str, str] = field(default_factory=dict)
    """The meaning of the names in the path, for the tests of isolation: `{"model": "image_id"}`."""
    keeps_content: bool = False
    """Whether its handler needs the body as it came, too."""
    streams: bool = False
    """Whether it always answers with a stream that follows a session. Others do if the body's `stream` is true."""
    is_public: Callable[[GatewaySettings, Mapping[str, str]], bool] | None = None
    """Whether a request for these names of the path is answered without a credential, too. By default none is."""


class SocketState(Protocol):
    """One socket of a gateway: answers its frames, and sends the subscriptions of its client as one stream."""

    async def answer(self, ask: Ask[Any], talk: Talk) -> tuple[str, bool]:
        """Returns the answer to a frame, and whether the stream has to be restarted."""

    async def stream(self, ask: Ask[Any], talk: Talk) -> Streamed | None:
        """Returns the events that the client has subscribed to; None without any subscription."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySocket:
    """A path below each prefix at which a client may open a WebSocket. Frames are answered one after another."""

    path: str
    opened: Callable[[], SocketState]
    body: type[Lenient]
    frames: Callable[[bytes], Iterable[str]]
    """Returns the frames of a piece of the stream."""
    refuse: Callable[[Any, GatewayProblem], str]
    """Returns the answer to a frame that failed, and that may be unreadable."""
    names: Mapping[str, str] = field(default_factory=dict)
    """As of a `GatewayRoute`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gateway:
    """A protocol of other clients. `name` is its switch in the configuration: `gateways.<name>.enabled`."""

    name: str
    prefixes: tuple[str, ...]
    """The paths it is served below; every prefix has all routes."""
    routes: tuple[GatewayRoute, ...]
    roots: tuple[GatewayRoute, ...] = ()
    """Routes whose paths are below no prefix, because others have chosen them."""
    shape: Callable[[GatewayProblem], ShapedProblem]
    """Gives a failure the dialect's shape, also one of the router: no such path, no such method, a body too large."""
    tells_issuer: bool = False
    """Whether a refused credential is answered with the address that tells where tokens come from."""
    sockets: tuple[GatewaySocket, ...] = ()
    key_headers: tuple[str, ...] = ()
    """Headers besides `Authorization` that may hold the key."""

    def paths(self) -> Iterator[tuple[str, GatewayRoute]]:
        """Yields the path of every route, as it is served."""
        yield from ((f"{prefix}{route.path}", route) for prefix in self.prefixes for route in self.routes)
        yield from ((route.path, route) for route in self.roots)
