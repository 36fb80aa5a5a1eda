"""Carrier — how sessions leave a tenant and come into one: read in pages, written all at once.

Conformance: `tests.conformance.carry`.
"""

from dataclasses import dataclass

from agentvm.model.ids import ContainerId, ImageId, MessageId, TurnId
from agentvm.model.image import Image
from agentvm.model.memory import ContainerMemory
from agentvm.model.message import Message
from agentvm.model.schedule import Schedule, Trigger
from agentvm.model.session import Session
from agentvm.model.session_file import FileDelta
from agentvm.model.turn import Turn
from agentvm.storage.attachments import Upload


@dataclass(frozen=True, slots=True)
class ExportedHistory:
    """One moment of a session: its turns that have ended, those that have not, and how far its messages went.

    `rewound` is the number of the last rewind: messages of later rewinds were still present.
    """

    turns: tuple[Turn, ...]
    running: frozenset[TurnId]
    last: int
    rewound: int = 0


@dataclass(frozen=True, slots=True)
class MessagePart:
    """Some messages of a session; `next` is where the following ones begin, None at the end."""

    messages: tuple[Message, ...]
    next: int | None


@dataclass(frozen=True, slots=True)
class SessionContent:
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
class ChangedFile:
    """A change of a file of the session that came last before it. Without its bytes if they have come before."""

    delta: FileDelta
    body: bytes | None


@dataclass(frozen=True, slots=True)
class Present:
    """An image that the tenant has already, in that container. It stays as it is; the sessions behind it become its own."""

    image: Image


@dataclass(frozen=True, slots=True)
class Continued:
    """A session that the tenant has already. It is not changed; newer messages are added after `last`.

    `last` is its last message, None if it has none.
    """

    session: Session
    last: MessageId | None


ContainerItem = ContainerMemory | Schedule | Trigger
"""An item that a container has besides images and sessions."""
Carried = Image | Present | Session | Continued | SessionContent | Attached | ChangedFile | ContainerItem
"""The items of an import, in order: an image, then its sessions, each with attachments before its messages and files behind.

Memories, schedules and triggers come last.
"""


@dataclass(frozen=True, slots=True)
class ExistingSession:
    """A session that the tenant has."""

    container_id: ContainerId
    image_id: ImageId
    messages: int
    turns: int
    last: MessageId | None
    """The last of its messages."""
    is_deleted: bool
    is_rewound: bool
    """Whether messages were rewound."""
    reached: int
    """Number of messages up to the one that was asked for, rewound ones included; 0 without that one."""
