"""Session — a history that belongs to an image. It has no status: it holds messages, a title, and where its owner put it."""

from dataclasses import dataclass
from typing import NamedTuple

from agentvm.errors import InvalidInput
from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, ImageId, MessageId, RewindId, SessionId, SummaryId, TurnId, UserId


class Fork(Record):
    """The origin of a forked history: that session, up to and including that message."""

    session_id: SessionId
    message_id: MessageId


class ParentCall(Record):
    """The call of an agent's tool that a session is the work of: such a session is in no list, and goes with its root."""

    session_id: SessionId
    turn_id: TurnId
    call_id: str
    root_session: SessionId
    """The session of people at the top."""
    root_turn: TurnId
    """The turn there, on whose budget all agents below it draw."""


class Rewind(Record):
    """Messages that were rewound together, and are kept."""

    rewind_id: RewindId
    rewound_at: int
    messages: int


class Summary(Record):
    """A summary of a session up to and including the exchange of that message. The messages stay."""

    summary_id: SummaryId
    message_id: MessageId
    text: str
    tokens: int
    """About how many it has."""
    model: str
    """The author: `<provider>/<model>`."""
    made_at: int
    user_id: UserId | None = None
    """The user who was billed for it."""
    tainted: bool = False
    """The summary was made of untrusted text, such as a fetched page."""


class RefusedPart(NamedTuple):
    """A part of a user's message that a provider refuses, and that models see as a note instead.

    Without a number it is all of a message, and the tool calls that it made.
    """

    message_id: MessageId
    part: int | None = None


EXTERNAL_MAX = 512


AGENTS = "agents"
"""The gateway of the aliases that lead from the name of an agent to the default session of its image."""

IMAGE_TAGS = "image.tags"
"""The gateway of the aliases that lead from a tag to the default session of an image."""

UNSTORED = "unstored"
"""The gateway of the aliases of sessions that are deleted when their turns have ended, also if the server or the client fails.
"""


STATELESS = "stateless"
"""The gateway of the aliases of sessions whose client sends the whole history each time, so that they can go after a while."""

SOURCES = "sources"
"""The gateway of the aliases that lead from schedules and triggers, or from one run of them, to sessions."""


class Alias(NamedTuple):
    """A client's own name for a session; `gateway` is the namespace of the name."""

    gateway: str
    external: str


class Draft(Record):
    """Text that a user has begun to write and not sent; `device` is absent for a draft without a device."""

    session_id: SessionId
    container_id: ContainerId
    image_id: ImageId
    text: str
    updated_at: int
    device: str | None = None


@dataclass(frozen=True, slots=True)
class Drafted:
    """The result of saving a draft: whether it was saved, when, and the draft that exists now; `changed` if that is another."""

    container_id: ContainerId
    image_id: ImageId
    at: int
    saved: bool
    changed: bool
    draft: Draft | None
    freed: int = 0
    """Bytes that the write has freed."""


class Session(Record):
    session_id: SessionId
    image_id: ImageId
    container_id: ContainerId
    title: str | None
    created_at: int
    updated_at: int
    quarantine: str | None = None
    """The reason why it takes no messages until it is released; None for nearly every session."""
    pinned_at: int | None = None
    archived_at: int | None = None
    deleted_at: int | None = None
    """Time of the deletion: hidden from every list and search; restorable for a while, then erased."""
    forked_from: Fork | None = None
    last_message_at: int | None = None
    preview: str | None = None
    """The beginning of the newest message."""
    agent: str | None = None
    """The agent of its image that answers here, by its URI; None for the image's own definition."""
    parent: ParentCall | None = None
    """Set for the session of a sub-agent."""

    @property
    def active_at(self) -> int:
        """Time of the newest message; before there is one, of the creation."""
        return self.created_at if self.last_message_at is None else self.last_message_at


TITLE_MAX = 300
SEARCH_MAX = 1_000


def check_title(title: str | None) -> None:
    """Refuses a title that is too long: titles are sent to every connection of the container and shown in every list."""
    if title is not None and len(title) > TITLE_MAX:
        raise InvalidInput(f"A title has at most {TITLE_MAX} characters, not {len(title)}")


def check_search(text: str) -> str:
    """Returns the words of a search, unless there are too many."""
    if len(text) > SEARCH_MAX:
        raise InvalidInput(f"A search has at most {SEARCH_MAX} characters, not {len(text)}")
    return text
