"""Chat channel — a bot on a chat platform whose messages one agent answers, and the port to the host that runs channels."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, NewType, Protocol

import msgspec

from agentvm.model.base import Record
from agentvm.model.ids import ContainerId, KeyId, SessionId, TenantId, TurnId

ChannelId = NewType("ChannelId", str)

ChannelState = Literal["off", "connecting", "connected", "waiting", "refused"]
"""`waiting`: the connection failed and is tried again. `refused`: it fails until its settings are changed."""

NAME_PATTERN = r"^[a-z0-9][a-z0-9-]{0,39}$"
ChannelName = Annotated[str, msgspec.Meta(pattern=NAME_PATTERN)]
SETTING_MAX = 500
SettingValue = Annotated[str, msgspec.Meta(max_length=SETTING_MAX)]
ChannelSettings = dict[str, SettingValue]
"""The settings of an adapter by name, as in JSON. Where one is a secret, it is the name of a secret of the tenant."""


class ChatChannel(Record):
    """One bot. `key_id` names the key whose permissions the channel has; its text is not stored anywhere."""

    channel_id: ChannelId
    tenant_id: TenantId
    name: str
    kind: str
    agent: str
    settings: ChannelSettings
    messages_per_minute: int
    """Messages of one sender that are taken in a minute."""
    key_id: KeyId
    enabled: bool
    created_by: str
    created_at: int
    updated_at: int


class ChannelMessage(Record):
    """A message of a chat, from when it was heard until its answer has been delivered."""

    position: int = 0
    channel_id: ChannelId
    message_key: str
    """The platform's id of the message."""
    container_id: ContainerId
    body: bytes | None = None
    """The message as JSON; None when the answer has been delivered."""
    answer: str | None = None
    """A fixed text to deliver instead of an agent's answer."""
    session_id: SessionId | None = None
    turn_id: TurnId | None = None
    cursor: int | None = None
    """The cursor before the events that are to be delivered."""
    sent_pieces: int = 0
    kept: dict[str, str] = msgspec.field(default_factory=dict)
    """Facts of the adapter about pieces on their way, such as the platform's id of a message that is edited."""
    attempts: int = 0
    next_at: int = 0
    heard_at: int = 0
    done_at: int | None = None


class SettingField(Record):
    """A setting of an adapter, for a form. `is_secret`: its value is the name of a secret of the tenant."""

    name: str
    description: str
    is_secret: bool = False
    required: bool = True
    default: str | None = None


class ChannelKind(Record):
    """An adapter that is installed: a platform."""

    name: str
    title: str
    description: str
    fields: tuple[SettingField, ...]


class ChannelStatus(Record):
    """`since` is when the state began. `remedy` is the remedy of the last error, if one is known."""

    state: ChannelState
    since: int | None = None
    last_error: str | None = None
    last_error_at: int | None = None
    remedy: str | None = None
    hook: str | None = None
    """The address that the platform calls, of a channel that does not connect by itself."""


class PlatformHook(Record):
    """A request of a platform that delivers an event. Names of headers are in lower case."""

    headers: Mapping[str, str]
    body: bytes


class HookAnswer(Record):
    """The response to such a request: an object as JSON."""

    content: dict[str, str] = msgspec.field(default_factory=dict)


class ChannelPort(Protocol):
    """The host that runs the channels, as operations know it."""

    def kinds(self) -> tuple[ChannelKind, ...]:
        """Returns the adapters that are installed."""
        ...

    def check(self, kind: str, settings: Mapping[str, str]) -> ChannelSettings:
        """Returns the settings with defaults; `InvalidInput` for an unknown kind or a wrong setting."""
        ...

    async def statuses(self, channels: Sequence[ChatChannel]) -> Sequence[ChannelStatus]:
        """Returns how each of the channels is doing, wherever it runs."""
        ...

    async def take_hook(self, kind: str, channel_id: str, hook: PlatformHook) -> HookAnswer | None:
        """Stores a message of a platform once, however often it is delivered. None for a request that is not the
        platform's."""
        ...

    def changed(self) -> None:
        """Makes the host look for changed channels and secrets."""
        ...
