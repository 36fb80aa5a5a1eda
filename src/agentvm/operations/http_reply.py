"""HTTP reply — an operation's answer that is more than a record: a status of its own, headers, bytes or a stream.

Only operations whose one face is HTTP return it.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Final, Generic, Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)


class StreamSource(Protocol):
    """Gives the pieces of a stream."""

    async def take(self) -> bytes:
        """Returns the next piece, empty at the end. May be cancelled, and is then called again."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """Content without an end. The source is opened when the stream begins, and closed with it."""

    opened: Callable[[], AbstractContextManager[StreamSource]]
    heartbeat: bytes
    """Sent when there is nothing else to send."""
    follows: bool = False
    """Whether it follows a session: such a stream counts as a connection."""
    closed: Callable[[], Awaitable[None]] | None = None
    """Awaited when the stream has ended, also when its client has left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpReply(Generic[T_co]):
    """Bytes go out as they are, `None` as an empty body, an iterator of bytes as it yields.

    A failure of an iterator can only cut the response off: check everything before.
    """

    content: T_co
    status: int = 200
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


NO_CONTENT: Final[HttpReply[None]] = HttpReply(content=None, status=204)
