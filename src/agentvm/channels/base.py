"""Channel adapter — the port to a chat platform. An adapter parses, throttles and renders; the host does everything else.

A plug-in is a class with this shape, named by an entry point of the group `agentvm.channels`.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import anyio
import msgspec

from agentvm.errors.channel import PlatformFailed, PlatformRefused
from agentvm.model.base import Record
from agentvm.model.channel import HookAnswer, PlatformHook
from agentvm.model.ids import Clock
from agentvm.tools.safe_http import SafeHttp

FILE_MAX_BYTES = 20 * 1024 * 1024
"""Bytes of a file of a chat that are fetched."""


UNKNOWN_TYPE = "application/octet-stream"
NO_HOOK = "The platform cannot call this channel: the server does not know its own address"
HOOK_REMEDY = "Set system.publicUrl to the address at which the platform reaches this server, with https"


def setting(description: str) -> msgspec.Meta:
    """Declares a setting of an adapter, for forms and the documentation."""
    return msgspec.Meta(description=description, min_length=1)


def secret(description: str) -> msgspec.Meta:
    """Declares a setting whose value is the name of a secret of the tenant."""
    return msgspec.Meta(description=description, min_length=1, extra={"secret": True})


class ChatSender(Record):
    """A person of a chat. `id` is the platform's."""

    id: str
    name: str = ""


class InboundFile(Record):
    """A file of a message that is not fetched yet; `place` is for the adapter."""

    place: dict[str, str]
    media_type: str = UNKNOWN_TYPE
    name: str | None = None


class InboundMessage(Record):
    """A message of a chat for the agent. `key` is the platform's id of it; `reply` has the facts that the adapter needs to
    answer."""

    key: str
    chat: str
    sender: ChatSender
    text: str = ""
    files: tuple[InboundFile, ...] = ()
    is_group: bool = False
    reply: dict[str, str] = msgspec.field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedFile:
    content: bytes
    media_type: str
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of an answer that fits into one message of the platform: its whole text so far. A final one changes no more."""

    index: int
    text: str
    is_final: bool


@dataclass(slots=True)
class ChatReply:
    """Where an answer goes, and the facts that the adapter keeps about it across a restart."""

    key: str
    to: Mapping[str, str]
    kept: dict[str, str]
    save: Callable[[], Awaitable[None]]

    async def keep(self, **facts: str) -> None:
        """Stores facts before anything else is sent, such as the id of a message that is edited from now on."""
        self.kept.update(facts)
        await self.save()


@dataclass(frozen=True, slots=True, kw_only=True)
class AdapterParts:
    """The parts that an adapter is made of. `secrets` are values, by the names of the settings that have one."""

    settings: Any
    secrets: Mapping[str, str] = field(repr=False)
    http: SafeHttp
    clock: Clock
    hook: str | None = None
    """The public address at which the platform can call this channel; None when the server knows none of its own."""


class MessageListener(Protocol):
    """The host, as an adapter knows it."""

    async def receive(self, message: InboundMessage) -> None:
        """Stores a message, once however often it comes. Returns when it cannot be lost any more."""
        ...

    def connected(self) -> None:
        """Says that the platform has accepted the channel. Answers are delivered from then on."""
        ...


class ChannelAdapter(Protocol):
    """A connection to a platform. The host makes one for each channel, and runs it again when it fails or ends."""

    name: ClassVar[str]
    title: ClassVar[str]
    description: ClassVar[str]
    settings: ClassVar[type[Record]]
    text_max: ClassVar[int]
    """Size of one message."""

    def __init__(self, parts: AdapterParts) -> None: ...

    @property
    def update_seconds(self) -> float | None:
        """Least time between two updates of an answer that is being written; None: only finished pieces are sent."""
        return None

    @property
    def hook(self) -> str | None:
        """The address to which the platform sends messages; None for an adapter that connects to the platform."""
        return None

    @staticmethod
    def measure(text: str) -> int:
        """Returns the size of a text as the platform counts it."""
        return len(text.encode("utf-8", "surrogatepass"))

    async def wait_for_hooks(self, host: MessageListener) -> None:
        """Stays until it is cancelled: the platform calls. `PlatformRefused` when the server knows no address of its own."""
        if self.hook is None:
            raise PlatformRefused(NO_HOOK, HOOK_REMEDY)
        host.connected()
        await anyio.sleep_forever()

    async def run(self, host: MessageListener) -> None:
        """Stays connected. `PlatformFailed` when that is over, `PlatformRefused` when the settings have to change."""
        ...

    async def take_hook(self, hook: PlatformHook, host: MessageListener) -> HookAnswer | None:
        """Hears the messages in a request of the platform; None unless the request proves that it is the platform's."""
        return None

    async def begin(self, reply: ChatReply) -> None:
        """Shows that the agent is at work, if the platform can."""

    async def write(self, reply: ChatReply, piece: Piece) -> None:
        """Sends a piece, or its new text; the same piece again has no other effect. `PlatformFailed` if it was not taken."""
        ...

    async def fetch(self, file: InboundFile) -> FetchedFile:
        """Returns a file of a message."""
        raise PlatformFailed("This platform has no files", permanent=True)
