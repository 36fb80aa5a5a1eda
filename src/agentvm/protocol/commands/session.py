"""Session commands — histories."""

from typing import Annotated, Literal

import msgspec

from agentvm.model.ids import ImageId, MessageId, RewindId, SessionId
from agentvm.model.message import Message
from agentvm.model.session import Rewind, Session
from agentvm.protocol.commands.base import Command, Reply, SubscribingReply
from agentvm.protocol.commands.image import ImageRunReply
from agentvm.protocol.commands.message import OnBusy
from agentvm.protocol.records import FoundRecord, SessionRecord, TitleRecord

Limit = Annotated[int, msgspec.Meta(ge=1, le=200)]


class SessionReply(SubscribingReply):
    session: Session | None


class SessionCreate(Command[SessionReply]):
    name = "session_create"
    reply_type = SessionReply
    image_id: ImageId
    title: str | None = None


class SessionGet(Command[SessionReply]):
    name = "session_get"
    reply_type = SessionReply
    session_id: SessionId


class SessionListReply(SubscribingReply):
    sessions: tuple[Session, ...]


class SessionList(Command[SessionListReply]):
    name = "session_list"
    reply_type = SessionListReply
    image_id: ImageId


class SessionSetTitle(Command[SessionReply]):
    name = "session_set_title"
    reply_type = SessionReply
    session_id: SessionId
    title: str | None


class SessionRelease(Command[SessionReply]):
    name = "session_release"
    reply_type = SessionReply
    session_id: SessionId


class SessionResume(Command[ImageRunReply]):
    """Starts (or finds) the session's agent, from the image as it was built."""

    name = "session_resume"
    reply_type = ImageRunReply
    session_id: SessionId


class SessionMessagesReply(Reply):
    """`truncated` when older messages were left out because of their size: `session_history` reads all, page by page."""

    session_id: SessionId
    messages: tuple[Message, ...]
    truncated: bool = False


class SessionMessages(Command[SessionMessagesReply]):
    name = "session_messages"
    reply_type = SessionMessagesReply
    session_id: SessionId


class SessionBrowseReply(Reply):
    """`total` is how many there are on all pages."""

    sessions: tuple[SessionRecord, ...]
    total: int
    next_cursor: str | None = None


class SessionBrowse(Command[SessionBrowseReply]):
    """Every member narrows the list. `archived` is false unless it is said; `all` for both.

    `since` and `until` are about when something was last said, in ms. `device` counts what is unread for that device.
    """

    name = "session_browse"
    reply_type = SessionBrowseReply
    container_id: str | None = None
    image_id: ImageId | None = None
    archived: bool | Literal["all"] = False
    pinned: bool | None = None
    since: int | None = None
    until: int | None = None
    title: str | None = None
    device: str | None = None
    cursor: str | None = None
    limit: Limit = 50


class SessionPin(Command[SessionReply]):
    name = "session_pin"
    reply_type = SessionReply
    session_id: SessionId
    pinned: bool = True


class SessionArchive(Command[SessionReply]):
    name = "session_archive"
    reply_type = SessionReply
    session_id: SessionId
    archived: bool = True


class SessionDeleteReply(Reply):
    session_id: SessionId
    restorable_until: int


class SessionDelete(Command[SessionDeleteReply]):
    name = "session_delete"
    reply_type = SessionDeleteReply
    session_id: SessionId


class SessionRestore(Command[SessionReply]):
    name = "session_restore"
    reply_type = SessionReply
    session_id: SessionId


class SessionMarkReadReply(Reply):
    session_id: SessionId
    unread: int


class SessionMarkRead(Command[SessionMarkReadReply]):
    """Up to the place that a `cursor` names, or that message; to the end if neither is said."""

    name = "session_mark_read"
    reply_type = SessionMarkReadReply
    session_id: SessionId
    cursor: str | None = None
    message_id: MessageId | None = None
    device: str | None = None


class SessionHistoryReply(Reply):
    """`nextCursor` goes on in the same order, `previousCursor` the other way."""

    session_id: SessionId
    messages: tuple[Message, ...]
    total: int
    next_cursor: str | None = None
    previous_cursor: str | None = None


class SessionHistory(Command[SessionHistoryReply]):
    """`around` is a message: those around it, oldest first. With `rewind` what it took back, in place of what stands."""

    name = "session_history"
    reply_type = SessionHistoryReply
    session_id: SessionId
    order: Literal["oldest", "newest"] = "oldest"
    cursor: str | None = None
    around: MessageId | None = None
    rewind: RewindId | None = None
    limit: Limit = 50


class SessionFork(Command[SessionReply]):
    """A new session that begins with what was said up to and with `message_id`; by default with all of it.

    `image_id` may be another image of the same container: another agent goes on with the same history.
    """

    name = "session_fork"
    reply_type = SessionReply
    session_id: SessionId
    message_id: MessageId | None = None
    image_id: ImageId | None = None
    title: str | None = None


class SessionRewindReply(Reply):
    """Which messages were taken back. Without `rewindId` there were none."""

    session_id: SessionId
    message_ids: tuple[MessageId, ...]
    rewind_id: RewindId | None = None


class SessionRewind(Command[SessionRewindReply]):
    """Takes back what came after `message_id`, or `before` and everything after it: one of them. It is kept."""

    name = "session_rewind"
    reply_type = SessionRewindReply
    session_id: SessionId
    message_id: MessageId | None = None
    before: MessageId | None = None
    on_busy: OnBusy = "reject"


class SessionRewindsReply(Reply):
    session_id: SessionId
    rewinds: tuple[Rewind, ...]


class SessionRewinds(Command[SessionRewindsReply]):
    """What was taken back, the latest first. `session_history` reads the messages of each."""

    name = "session_rewinds"
    reply_type = SessionRewindsReply
    session_id: SessionId


class SessionSearchReply(Reply):
    """`capped` when there are more than are ranked; then the newest 10,000 were.

    `titles` are sessions with the words in their title; on the first page, and not in `total`.
    """

    found: tuple[FoundRecord, ...]
    total: int
    capped: bool = False
    next_cursor: str | None = None
    titles: tuple[TitleRecord, ...] | None = None


class SessionSearch(Command[SessionSearchReply]):
    """`q` are the words; every other member narrows the search."""

    name = "session_search"
    reply_type = SessionSearchReply
    q: str
    container_id: str | None = None
    image_id: ImageId | None = None
    session_id: SessionId | None = None
    role: Literal["user", "assistant", "tool"] | None = None
    tool: str | None = None
    since: int | None = None
    until: int | None = None
    cursor: str | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20
