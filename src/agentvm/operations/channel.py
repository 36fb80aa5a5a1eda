"""Channels — bots on chat platforms, whose messages an agent answers."""

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, field
from msgspec.structs import replace

from agentvm.errors import AgentVMError, Conflict, InvalidInput, NotAvailable, not_found
from agentvm.model.base import Record, record_from
from agentvm.model.channel import (
    ChannelId,
    ChannelKind,
    ChannelName,
    ChannelPort,
    ChannelSettings,
    ChannelStatus,
    ChatChannel,
)
from agentvm.model.ids import KeyId, TenantId
from agentvm.operations.image_open import AgentName
from agentvm.operations.operation import Context, Empty, Http, OperationGroup
from agentvm.operations.pages import Page, PageRequest, page_of
from agentvm.protocol.requests import Request

operation = OperationGroup("channels")

ADMIN = "tenants:admin"
CHANNEL_PERMISSIONS = ("agent:use", "sessions:read")
"""The rights of a channel's key: to talk to agents in the containers of its senders."""
_ALL, _ONE = "/v1/channels", "/v1/channels/{channel_id}"

PerMinute = Annotated[int, Meta(ge=1, le=1_000)]


class ChannelView(Record):
    """A channel. In `settings` a secret is the name of a secret of the tenant, never its value."""

    channel_id: ChannelId
    name: str
    kind: str
    agent: str
    settings: ChannelSettings
    messages_per_minute: int
    key_id: KeyId
    enabled: bool
    status: ChannelStatus
    created_by: str
    created_at: int
    updated_at: int


class ChannelKinds(Record):
    items: tuple[ChannelKind, ...]


@operation("channel.kinds", needs=ADMIN, http=Http("GET", "/v1/channel-kinds"))
async def kinds(context: Context, request: Empty) -> ChannelKinds:
    """List the platforms that channels can connect to, with the settings of each."""
    return ChannelKinds(items=_host(context).kinds())


@operation("channel.list", needs=ADMIN, http=Http("GET", _ALL))
async def list_all(context: Context, request: PageRequest) -> Page[ChannelView]:
    """List channels by name, with their status."""
    views = await _views(context, await context.accounts.channels.list())
    return page_of(views, request, (view.channel_id for view in views))


class ChannelGet(Request[ChannelView]):
    channel_id: ChannelId


@operation("channel.get", needs=ADMIN, http=Http("GET", _ONE))
async def get(context: Context, request: ChannelGet) -> ChannelView:
    """Show a channel and its status."""
    return await _view(context, await _find(context, request.channel_id))


class ChannelCreate(Request[ChannelView]):
    """`kind` is one of `channel.kinds`, `settings` are its own. `agent` is a definition's name, an agent's URI or an image."""

    name: ChannelName
    kind: str
    agent: AgentName
    settings: ChannelSettings = field(default_factory=dict)
    messages_per_minute: PerMinute = 20
    enabled: bool = True


@operation(
    "channel.create",
    needs=ADMIN,
    audit="channel.create",
    http=Http("POST", _ALL, status=201, names=("NewChannel", None)),
    raises=(Conflict,),
)
async def create(context: Context, request: ChannelCreate) -> ChannelView:
    """Connect a bot of a chat platform to an agent.

    The channel gets its own key, which is never shown, with permission to use agents in the containers of its senders.
    """
    settings = await _checked(context, request.kind, request.settings)
    now, channel_id = context.vm.clock(), ChannelId(context.vm.new_id("chn"))
    context.target = channel_id
    key, _ = await context.tenancy.access.issue(
        context.tenant_id,
        name=f"channel {request.name}",
        granter=context.principal,
        permissions=CHANNEL_PERMISSIONS,
        containers=(f"{channel_id}-*",),
    )
    channel = ChatChannel(
        channel_id=channel_id,
        tenant_id=context.tenant_id,
        name=request.name,
        kind=request.kind,
        agent=request.agent,
        settings=settings,
        messages_per_minute=request.messages_per_minute,
        key_id=key.key_id,
        enabled=request.enabled,
        created_by=context.principal.actor,
        created_at=now,
        updated_at=now,
    )
    try:
        await context.accounts.channels.add(channel)
    except AgentVMError:
        await context.tenancy.access.revoke(context.tenant_id, key.key_id)
        raise
    _host(context).changed()
    return await _view(context, channel)


class ChannelUpdate(Request[ChannelView]):
    """An absent field stays as it is; `settings` are replaced as a whole."""

    channel_id: ChannelId
    name: ChannelName | None = None
    agent: AgentName | None = None
    settings: ChannelSettings | None = None
    messages_per_minute: PerMinute | None = None


@operation(
    "channel.update",
    needs=ADMIN,
    audit="channel.update",
    http=Http("PUT", _ONE, names=("ChannelChange", None)),
    raises=(Conflict,),
)
async def update(context: Context, request: ChannelUpdate) -> ChannelView:
    """Change a channel. It connects again.

    With another agent, every chat begins a new session.
    """
    channel = await _find(context, request.channel_id)
    settings = None if request.settings is None else await _checked(context, channel.kind, request.settings)
    changes = {
        "name": request.name,
        "agent": request.agent,
        "settings": settings,
        "messages_per_minute": request.messages_per_minute,
    }
    return await _change(context, request.channel_id, **{name: value for name, value in changes.items() if value is not None})


class ChannelEnable(Request[ChannelView]):
    channel_id: ChannelId


@operation("channel.enable", needs=ADMIN, audit="channel.enable", http=Http("POST", f"{_ONE}/enable"))
async def enable(context: Context, request: ChannelEnable) -> ChannelView:
    """Connect a channel that was disabled. Pending answers are delivered."""
    return await _change(context, request.channel_id, enabled=True)


class ChannelDisable(Request[ChannelView]):
    channel_id: ChannelId


@operation("channel.disable", needs=ADMIN, audit="channel.disable", http=Http("POST", f"{_ONE}/disable"))
async def disable(context: Context, request: ChannelDisable) -> ChannelView:
    """Disconnect a channel. Its turns continue; their answers wait."""
    return await _change(context, request.channel_id, enabled=False)


class ChannelDelete(Request[None]):
    channel_id: ChannelId


@operation("channel.delete", needs=ADMIN, audit="channel.delete", http=Http("DELETE", _ONE))
async def delete(context: Context, request: ChannelDelete) -> None:
    """Delete a channel and revoke its key. The sessions of its senders stay."""
    channel = await _find(context, request.channel_id)
    await context.accounts.channels.remove(channel.channel_id)
    await context.tenancy.access.revoke(context.tenant_id, channel.key_id)
    _host(context).changed()


def _host(context: Context) -> ChannelPort:
    host: ChannelPort | None = context.vm.channels
    if host is None:
        raise NotAvailable("Channels run in a server: start one with avm serve")
    return host


async def _find(context: Context, channel_id: ChannelId) -> ChatChannel:
    channel: ChatChannel | None = await context.accounts.channels.get(channel_id)
    if channel is None:
        raise not_found("Channel", channel_id)
    return channel


async def _change(context: Context, channel_id: ChannelId, **fields: object) -> ChannelView:
    now = context.vm.clock()
    channel: ChatChannel | None = await context.accounts.channels.change(
        channel_id, lambda channel: replace(channel, **fields, updated_at=now)
    )
    if channel is None:
        raise not_found("Channel", channel_id)
    _host(context).changed()
    return await _view(context, channel)


async def _checked(context: Context, kind: str, settings: ChannelSettings) -> ChannelSettings:
    """Returns the settings with defaults; `InvalidInput` for a secret that the tenant does not have."""
    host, tenant_id = _host(context), TenantId(context.tenant_id)
    checked = host.check(kind, settings)
    stored = {name for name, _ in await context.tenancy.vault.names(tenant_id)}
    for setting in next(platform for platform in host.kinds() if platform.name == kind).fields:
        name = checked.get(setting.name)
        if setting.is_secret and name not in stored and (setting.required or name is not None):
            raise InvalidInput(f"{setting.name} must be the name of a stored secret; store it first: avm secret set {name}")
    return checked


async def _view(context: Context, channel: ChatChannel) -> ChannelView:
    (view,) = await _views(context, (channel,))
    return view


async def _views(context: Context, channels: Sequence[ChatChannel]) -> list[ChannelView]:
    statuses = await _host(context).statuses(channels)
    return [record_from(ChannelView, channel, status=status) for channel, status in zip(channels, statuses, strict=True)]
