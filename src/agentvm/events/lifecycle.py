"""Lifecycle — containers, images, sessions and agents come and go."""

import msgspec

from agentvm.events.base import EventData
from agentvm.model.ids import AgentId, ContainerId, ImageId, MessageId, RewindId, SessionId, SummaryId, TurnId, UserId


class ContainerEvent(EventData):
    source = "container"
    category = "lifecycle"


class ContainerCreated(ContainerEvent):
    type = "container_created"
    container_id: ContainerId
    created_at: int


class ContainerDeleted(ContainerEvent):
    """The content of the container is being erased, and cannot be restored."""

    type = "container_deleted"
    container_id: ContainerId
    deleted_at: int


class ImageCreated(ContainerEvent):
    type = "image_created"
    needs = "images:read"
    image_id: ImageId
    container_id: ContainerId
    name: str
    created_at: int


class ImageUpdated(ContainerEvent):
    type = "image_updated"
    needs = "images:read"
    image_id: ImageId
    container_id: ContainerId
    name: str
    updated_at: int
    description: str | None = None


class ImageDeleted(ContainerEvent):
    type = "image_deleted"
    image_id: ImageId
    container_id: ContainerId


class AgentRegistered(ContainerEvent):
    """`definition_name` is the image's name, as 1.x sends it."""

    type = "agent_registered"
    container_id: ContainerId
    agent_id: AgentId
    definition_name: str
    registered_at: int
    image_id: ImageId | None = None
    session_id: SessionId | None = None


class AgentUnregistered(ContainerEvent):
    type = "agent_unregistered"
    container_id: ContainerId
    agent_id: AgentId
    image_id: ImageId | None = None
    session_id: SessionId | None = None


class SessionEvent(EventData):
    source = "session"
    category = "lifecycle"


class SessionCreated(SessionEvent):
    type = "session_created"
    needs = "sessions:read"
    session_id: SessionId
    image_id: ImageId
    container_id: ContainerId
    title: str | None
    created_at: int


class SessionTitleUpdated(SessionEvent):
    type = "session_title_updated"
    needs = "sessions:read"
    session_id: SessionId
    title: str | None
    updated_at: int


class SessionUpdated(SessionEvent):
    """The session was pinned, unpinned, archived or unarchived."""

    type = "session_updated"
    session_id: SessionId
    image_id: ImageId
    container_id: ContainerId
    updated_at: int
    pinned_at: int | None = None
    archived_at: int | None = None


class SessionDeleted(SessionEvent):
    """The session is hidden from every list and search; until `restorable_until` it can be restored."""

    type = "session_deleted"
    session_id: SessionId
    image_id: ImageId
    container_id: ContainerId
    deleted_at: int
    restorable_until: int


class SessionRestored(SessionEvent):
    type = "session_restored"
    needs = "sessions:read"
    session_id: SessionId
    image_id: ImageId
    container_id: ContainerId
    title: str | None
    updated_at: int


class SessionForked(SessionEvent):
    """A new session begins with the messages of another, up to and including `message_id`; absent if there are none."""

    type = "session_forked"
    original_session_id: SessionId
    new_session_id: SessionId
    new_image_id: ImageId
    forked_at: int
    message_id: MessageId | None = None


class SessionRewound(SessionEvent):
    """Messages were rewound, together with the answers to them. New messages come after this event.

    `kept_id` is the last message that stays; absent if none does. `folded` counts the rewound messages, an answer with its tool
    calls as one.
    """

    type = "session_rewound"
    session_id: SessionId
    rewind_id: RewindId
    message_ids: tuple[MessageId, ...]
    rewound_at: int
    kept_id: MessageId | None = None
    folded: int | None = None


class SessionRead(SessionEvent):
    """A user has read the session, except for `unread` answers; for the user's other devices."""

    type = "session_read"
    session_id: SessionId
    unread: int
    read_at: int
    user_id: UserId | None = None


class SessionDraftUpdated(SessionEvent):
    """A user has changed a draft; its text is read separately. For the user's other devices."""

    type = "session_draft_updated"
    session_id: SessionId
    updated_at: int
    user_id: UserId | None = None
    device: str | None = None
    removed: bool = False


class SessionDestroyed(SessionEvent):
    """The agent of this session is gone. The history stays: the name is 1.x's."""

    type = "session_destroyed"
    session_id: SessionId
    agent_id: AgentId
    container_id: ContainerId


class ResyncRequired(SessionEvent):
    """The events after the subscriber's cursor are gone: read the messages, then continue from this cursor."""

    type = "resync_required"
    session_id: SessionId
    cursor: str


class QuotaWarning(SessionEvent):
    """A soft limit is reached: nothing is refused yet. `resetAt` is absent where time does not help."""

    type = "quota_warning"
    metric: str
    limit: int
    used: int
    reset_at: int | None = None


class ProviderFallback(SessionEvent):
    """A model call goes to another provider, because the chosen one is unavailable. Both are `<provider>/<model>`.

    `reason` is the code of the error; `retry_at` is the earliest time for the chosen one, absent if unknown.
    """

    type = "provider_fallback"
    from_: str = msgspec.field(name="from")
    to: str
    reason: str
    retry_at: int | None = None


class Interrupted(EventData):
    """An interrupt was accepted; the end of the turn it stops follows, if it stops one."""

    type = "interrupted"
    source = "agent"
    category = "lifecycle"
    agent_id: AgentId
    container_id: ContainerId
    turn_id: TurnId | None = None


class SessionCompacted(SessionEvent):
    """The messages up to that one have a summary, and stay. Its text is read separately."""

    type = "session_compacted"
    session_id: SessionId
    summary_id: SummaryId
    message_id: MessageId
    tokens: int
