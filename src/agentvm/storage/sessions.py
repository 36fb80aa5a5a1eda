"""SessionStore — the sessions of some containers of one tenant: listed, kept, read and searched.

Obtained by `store.tenant(t).sessions(containers)`. Sessions of other containers do not exist for it, and neither do deleted
ones, except for `restore` and lists that request them. Conformance: `tests.conformance.sessions`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agentvm.model.ids import ImageId, MessageId, RewindId, SessionId, TurnId
from agentvm.model.message import Message
from agentvm.model.session import Session
from agentvm.model.turn import Turn, TurnOutcome

Role = Literal["user", "assistant", "tool"]
TurnStatus = TurnOutcome | Literal["running", "parked"]
Order = Literal["oldest", "newest"]

PAGE_BYTES = 8 * 1024 * 1024
"""The stored size of all messages of one page."""


@dataclass(frozen=True, slots=True)
class SessionReader:
    """A reader of sessions: a user, or the anonymous one; on all devices, or on one of them."""

    user: str = ""
    device: str = ""


ANYBODY = SessionReader()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuery:
    """A list of sessions; every field that is not None narrows it. `after` is the `next` of the previous page."""

    image_id: ImageId | None = None
    archived: bool | None = False
    """None for both."""
    pinned: bool | None = None
    since: int | None = None
    """Active then or later."""
    until: int | None = None
    """Active before then."""
    title: str | None = None
    """Text anywhere in the title, ignoring case."""
    forked_from: SessionId | None = None
    """Forks of that session."""
    deleted_after: int | None = None
    """Sessions deleted after then, in place of the others."""
    after: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Listed:
    """A session as its reader sees it. `unread` are answers and errors that they have not read, at most 1,000.

    `cursor` is the place of the last message.
    """

    session: Session
    unread: int
    cursor: str | None


@dataclass(frozen=True, slots=True)
class SessionPage:
    items: tuple[Listed, ...]
    total: int
    """The number of items on all pages; at most 10,000 are counted."""
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQuery:
    """A page of messages of a session: those after `cursor`, or before it if the newest come first.

    With `around` those around that message, oldest first. With `rewind` those that it took back, in place of those that stand.
    """

    order: Order = "oldest"
    cursor: str | None = None
    around: MessageId | None = None
    rewind: RewindId | None = None
    limit: int = 50
    max_bytes: int = PAGE_BYTES
    """A page ends before the message that would make it larger; it has at least one, unless `strict`."""
    strict: bool = False


@dataclass(frozen=True, slots=True)
class MessagePage:
    """`next` is the cursor to continue in the same order; None at the end. `previous` to continue the other way.

    `cut` when it has fewer messages than it might, because of their size; without any of them there is no cursor.
    """

    messages: tuple[Message, ...]
    total: int
    next: str | None
    previous: str | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSearch:
    """A search for messages. Each must contain every word of `text`, or one that begins with it."""

    text: str
    image_id: ImageId | None = None
    session_id: SessionId | None = None
    role: Role | None = None
    tool: str | None = None
    since: int | None = None
    until: int | None = None
    archived: bool | None = None
    after: str | None = None
    limit: int = 20
    now: int = 0
    """The time from which the age of a message is counted."""


@dataclass(frozen=True, slots=True)
class Found:
    """A message that was found. `position` is its number in the session, from 0; `snippet` is HTML with `<mark>`.

    `before` and `after` are the beginnings of the messages before and after it.
    """

    session: Session
    message_id: MessageId
    role: Role
    tool: str | None
    at: int
    position: int
    snippet: str
    before: str | None
    after: str | None
    cursor: str


@dataclass(frozen=True, slots=True)
class FoundTitle:
    """A session whose title was found. `snippet` is the title as HTML with `<mark>`."""

    session: Session
    snippet: str


@dataclass(frozen=True, slots=True)
class FoundPage:
    """`capped` when there were more than are ranked: the newest of them were.

    `titles` are on the first page, the latest session first; they are not in `total`.
    """

    items: tuple[Found, ...]
    total: int
    capped: bool
    next: str | None
    titles: tuple[FoundTitle, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnQuery:
    """A list of turns; every field that is not None narrows it. `after` is the `next` of the previous page.

    Those that run take until `now`.
    """

    session_id: SessionId | None = None
    since: int | None = None
    """Accepted then or later."""
    until: int | None = None
    outcome: TurnStatus | None = None
    image_id: ImageId | None = None
    changed_since: int | None = None
    """Ended then or later; or accepted, if they have not ended."""
    order: Literal["newest", "slowest"] = "newest"
    now: int = 0
    after: str | None = None
    limit: int = 100
    counts: bool = False


@dataclass(frozen=True, slots=True)
class TurnPage:
    items: tuple[Turn, ...]
    next: str | None
    total: int | None = None
    """All that the query finds, if it counts them; of very many at least so many."""
    nodes: Mapping[TurnId, int] = field(default_factory=dict)
    """The nodes of a cluster that run those of the turns that run."""
