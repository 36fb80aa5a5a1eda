"""Session — a history that belongs to an image. It has no status: it holds messages, a title, and where its owner put it."""

from dataclasses import dataclass

from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, ImageId, MessageId, RewindId, SessionId, SummaryId, UserId


class Fork(Record):
    """Where a history was taken from: that session, up to and with that message."""

    session_id: SessionId
    message_id: MessageId


class Rewind(Record):
    """Messages that were taken back together, and are kept."""

    rewind_id: RewindId
    rewound_at: int
    messages: int


class Summary(Record):
    """What a session came to, up to and with the exchange of that message. It stands beside what was said, not in its place."""

    summary_id: SummaryId
    message_id: MessageId
    text: str
    tokens: int
    """About how many it has."""
    model: str
    """Who wrote it: `<provider>/<model>`."""
    made_at: int
    user_id: UserId | None = None
    """Who was billed for it."""


class Draft(Record):
    """What somebody has begun to write and not sent; `device` is absent for what is of no device."""

    session_id: SessionId
    container_id: ContainerId
    image_id: ImageId
    text: str
    updated_at: int
    device: str | None = None


@dataclass(frozen=True, slots=True)
class Drafted:
    """What became of a draft: whether it was saved, when, and what is there now; `changed` if that is something else."""

    container_id: ContainerId
    image_id: ImageId
    at: int
    saved: bool
    changed: bool
    draft: Draft | None
    freed: int = 0
    """Bytes of what it has replaced."""


class Session(Record):
    session_id: SessionId
    image_id: ImageId
    container_id: ContainerId
    title: str | None
    created_at: int
    updated_at: int
    quarantine: str | None = None
    """Why it takes no messages until it is released; None for nearly every session."""
    pinned_at: int | None = None
    archived_at: int | None = None
    deleted_at: int | None = None
    """Since when it is out of every list and search; for a while it can be restored, then it is gone."""
    forked_from: Fork | None = None
    last_message_at: int | None = None
    preview: str | None = None
    """The beginning of what was said last."""

    @property
    def active_at(self) -> int:
        """When something was last said in it; before that, when it was made."""
        return self.created_at if self.last_message_at is None else self.last_message_at
