"""SessionStore — the sessions of some containers of one tenant: listed, kept, read and searched.

Obtained by `store.tenant(t).sessions(containers)`. Whatever is asked of it, sessions of other containers are not there, and
neither are deleted ones, but for `restore`. Conformance: `agentvm.testing.conformance.sessions`.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

from agentvm.model.ids import ImageId, MessageId, RewindId, SessionId
from agentvm.model.message import Message
from agentvm.model.session import Rewind, Session, Summary
from agentvm.model.turn import Turn, TurnOutcome

Role = Literal["user", "assistant", "tool"]
Order = Literal["oldest", "newest"]

PAGE_BYTES = 8 * 1024 * 1024
"""What the messages of one page have together, as they are stored."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Who has read something: a user, or nobody in particular; on all devices, or on one of them."""

    user: str = ""
    device: str = ""


ANYBODY = Reader()


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuery:
    """Which sessions; every member that is not None narrows the list. `after` is the `next` of the page before."""

    image_id: ImageId | None = None
    archived: bool | None = False
    """None for both."""
    pinned: bool | None = None
    since: int | None = None
    """Active then or later."""
    until: int | None = None
    """Active before then."""
    title: str | None = None
    """Somewhere in the title, whatever the case."""
    after: str | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class Listed:
    """A session as its reader sees it. `unread` are answers and errors beyond what they have read, at most 1,000.

    `cursor` is the place of the last message.
    """

    session: Session
    unread: int
    cursor: str | None


@dataclass(frozen=True, slots=True)
class SessionPage:
    items: tuple[Listed, ...]
    total: int
    """Of all pages."""
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageQuery:
    """Which messages of a session: those after `cursor`, or before it if the newest come first.

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
    """`next` is the cursor to go on in the same order; None at the end. `previous` to go on the other way.

    `cut` when it has fewer messages than it might, because of their size; without any of them there is no cursor.
    """

    messages: tuple[Message, ...]
    total: int
    next: str | None
    previous: str | None = None
    cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSearch:
    """Which messages. Every word of `text` must be in one, or one that begins with it."""

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
    """What is recent is so from here."""


@dataclass(frozen=True, slots=True)
class Found:
    """A message that was found. `position` is its number in the session, from 0; `snippet` is HTML with `<mark>`.

    `before` and `after` are the beginnings of what was said just before and after it.
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
    """Which turns; every member that is not None narrows the list. `after` is the `next` of the page before.

    Those that run take until `now`.
    """

    session_id: SessionId | None = None
    since: int | None = None
    """Accepted then or later."""
    until: int | None = None
    outcome: TurnOutcome | Literal["running"] | None = None
    order: Literal["newest", "slowest"] = "newest"
    now: int = 0
    after: str | None = None
    limit: int = 100


@dataclass(frozen=True, slots=True)
class TurnPage:
    items: tuple[Turn, ...]
    next: str | None


class SessionStore(Protocol):
    """The sessions of some containers."""

    async def list(self, wanted: SessionQuery, reader: Reader = ANYBODY) -> SessionPage:
        """Pinned ones first, then by when something was last said. What does not move meanwhile is on exactly one page.

        `InvalidInput` for an `after` that is no `next`.
        """

    async def get(self, session_id: SessionId, reader: Reader = ANYBODY) -> Listed | None: ...

    async def keep(
        self, session_id: SessionId, *, pinned: bool | None = None, archived: bool | None = None, now: int
    ) -> Session | None:
        """Changes what is not None; as it is now, or None when there is none. What is so already keeps its time."""

    async def name(self, session_id: SessionId, title: str, now: int) -> Session | None:
        """Gives a session a title that has none; None when it has one, or is gone."""

    async def delete(self, session_id: SessionId, now: int) -> Session | None:
        """Out of every list and search, until it is restored or purged.

        The oldest that is left takes the place of an image's default session. An image without any goes with it: out of every
        list until one of its sessions is restored, and for good when the last of them is purged.
        """

    async def restore(self, session_id: SessionId, now: int, *, deleted_after: int) -> Session | None:
        """Brings back one that was deleted after then; one that was not deleted is returned as it is."""

    async def mark_read(
        self, session_id: SessionId, reader: Reader, now: int, *, cursor: str | None = None, message_id: MessageId | None = None
    ) -> Listed | None:
        """Read up to that place or message, by default to the end; never less than before. None when there is none.

        What somebody has read on one device they have read. `NotFound` for a message that is not there.
        """

    async def messages(self, session_id: SessionId, wanted: MessageQuery) -> MessagePage | None:
        """None when there is no such session. `NotFound` for an `around` or a `rewind` that is not there."""

    async def rewinds(self, session_id: SessionId) -> tuple[Rewind, ...] | None:
        """What was taken back, the latest first, at most 200; None when there is no such session."""

    async def summaries(self, session_id: SessionId) -> tuple[Summary, ...] | None:
        """Those that count, the newest first, at most 200; None when there is no such session."""

    async def history(self, session_id: SessionId, message_id: MessageId, max_bytes: int) -> tuple[Message, ...] | None:
        """The history when that message was last a part of it, whether it still is or was taken back: up to it, and what
        follows as far as `max_bytes` reach. `HistoryTooLarge` when they do not reach it; then nothing was read.

        None when there is no such session or message.
        """

    async def turns(self, wanted: TurnQuery) -> TurnPage:
        """The newest first, or those that took longest. `InvalidInput` for an `after` that is no `next`."""

    async def search(self, wanted: MessageSearch) -> FoundPage:
        """The best first: where the words are rare, much of what is said, and recent. A text without words finds nothing."""
