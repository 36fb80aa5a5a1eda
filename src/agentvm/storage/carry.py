"""Carrier — how sessions leave a tenant and come into one: read in pages, written all at once.

Conformance: `agentvm.testing.conformance.carry`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from agentvm.model.ids import ContainerId, ImageId, MessageId, SessionId, TurnId
from agentvm.model.image import Image
from agentvm.model.message import Message
from agentvm.model.session import Session
from agentvm.model.turn import Turn
from agentvm.storage.attachments import Upload


@dataclass(frozen=True, slots=True)
class History:
    """One moment of a session: its turns that have ended, those that have not, and how far its messages went.

    `rewound` is the number of what was taken back last: what is taken back later was still there.
    """

    turns: tuple[Turn, ...]
    running: frozenset[TurnId]
    last: int
    rewound: int = 0


@dataclass(frozen=True, slots=True)
class Page:
    """Some messages of a session; `next` is where the following ones begin, None at the end."""

    messages: tuple[Message, ...]
    next: int | None


@dataclass(frozen=True, slots=True)
class Said:
    """Messages and turns of the session that came last before it."""

    messages: tuple[Message, ...] = ()
    turns: tuple[Turn, ...] = ()


@dataclass(frozen=True, slots=True)
class Attached:
    """A file of the container of the session that came last before it. Without its bytes if they have come before."""

    digest: str
    size: int
    upload: Upload
    body: bytes | None


@dataclass(frozen=True, slots=True)
class Present:
    """An image that the tenant has already, in that container. It stays as it is; the sessions behind it become its own."""

    image: Image


@dataclass(frozen=True, slots=True)
class Continued:
    """A session that the tenant has already. It stays as it is; what is said behind it is added after `last`.

    `last` is its last message, None if it has none.
    """

    session: Session
    last: MessageId | None


Carried = Image | Present | Session | Continued | Said | Attached
"""What comes in, in order: an image, then its sessions, each with what was said in it, and before that what it refers to."""


@dataclass(frozen=True, slots=True)
class SessionHere:
    """A session that the tenant has."""

    container_id: ContainerId
    image_id: ImageId
    messages: int
    turns: int
    last: MessageId | None
    """The last of its messages."""
    is_deleted: bool
    is_rewound: bool
    """Whether something of it was taken back."""
    reached: int
    """How many messages it has up to the one that was asked for, also of those that were taken back; 0 without that one."""


class Carrier(Protocol):
    """The sessions of one tenant, for those who move them."""

    async def measure(self, container_id: ContainerId, session_id: SessionId | None = None) -> int:
        """Bytes of the messages in a container, or in one session of it."""

    async def history(self, container_id: ContainerId, session_id: SessionId) -> History: ...

    async def read(self, container_id: ContainerId, session_id: SessionId, history: History, after: int) -> Page:
        """The next messages of that moment: a few megabytes at most, but at least one."""

    async def images_here(self, image_ids: Collection[str]) -> Mapping[str, ContainerId]:
        """Those of them that the tenant has already, with where each is."""

    async def sessions_here(self, wanted: Mapping[str, str | None]) -> Mapping[str, SessionHere]:
        """Those of them that the tenant has already, deleted ones as well. With each, a message that is asked for."""

    async def add(self, load: Callable[[], Iterator[Carried]], now: int) -> None:
        """All that is loaded, or nothing, with containers as needed. Nobody sees it before all of it is there.

        Images hold those versions of their lock that the tenant may read here. `Conflict` if an id is taken meanwhile, or if
        something that should be here is not, or was continued otherwise, or if a container was deleted
        meanwhile, or earlier with its user.
        """
