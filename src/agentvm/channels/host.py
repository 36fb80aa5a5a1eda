"""Channel host — runs the enabled channels of all tenants, and follows their changes."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.abc
import msgspec

from agentvm.channels.base import AdapterParts, ChannelAdapter
from agentvm.channels.leading_node import LeadingHost
from agentvm.channels.registry import adapters, check_settings, describe, find_adapter
from agentvm.channels.running import RETRY_MAX_SECONDS, RunningChannel
from agentvm.cluster.membership import while_leading
from agentvm.errors import AgentVMError
from agentvm.errors.channel import PlatformRefused
from agentvm.log import get_logger
from agentvm.model.channel import (
    ChannelId,
    ChannelKind,
    ChannelSettings,
    ChannelStatus,
    ChatChannel,
    HookAnswer,
    PlatformHook,
)
from agentvm.model.public_address import AddressRules
from agentvm.runtime.tasks import open_tasks
from agentvm.tools.safe_http import SafeHttp
from agentvm.vm import AgentVM

logger = get_logger(__name__)

CLUSTER_SECONDS = 5.0
"""Time between two looks at the channels in a cluster."""
OFF, CONNECTING = ChannelStatus(state="off"), ChannelStatus(state="connecting")
HOOKS_PATH = "/hooks"
"""The path that platforms call; below it are the kind and the id of a channel."""


@dataclass(frozen=True, slots=True)
class _Started:
    running: RunningChannel
    secrets: Mapping[str, str]
    scope: anyio.CancelScope


class ChannelHost:
    """The channels of a server; see `agentvm.model.channel.ChannelPort`."""

    def __init__(self, vm: AgentVM, http: SafeHttp) -> None:
        self._vm, self._http = vm, http
        self._started: dict[ChannelId, _Started] = {}
        self._changed = anyio.Event()
        self._leading = None if vm.mailbox is None else LeadingHost(vm.mailbox, self)

    def kinds(self) -> tuple[ChannelKind, ...]:
        return tuple(describe(adapter) for adapter in adapters().values())

    def check(self, kind: str, settings: Mapping[str, str]) -> ChannelSettings:
        return check_settings(kind, settings)

    async def statuses(self, channels: Sequence[ChatChannel]) -> Sequence[ChannelStatus]:
        ids = [channel.channel_id for channel in channels]
        if ids and self._leading is not None and not self._leading.is_here:
            running = await self._leading.statuses(ids)
        else:
            running = [self.own_status(channel_id) for channel_id in ids]
        return [(status or CONNECTING) if channel.enabled else OFF for channel, status in zip(channels, running, strict=True)]

    def own_status(self, channel_id: ChannelId) -> ChannelStatus | None:
        """Returns the status of a channel that runs here."""
        started = self._started.get(channel_id)
        return None if started is None else started.running.status

    async def take_hook(self, kind: str, channel_id: str, hook: PlatformHook) -> HookAnswer | None:
        if self._leading is not None and not self._leading.is_here:
            return await self._leading.take_hook(kind, channel_id, hook)
        return await self.take_own_hook(kind, channel_id, hook)

    async def take_own_hook(self, kind: str, channel_id: str, hook: PlatformHook) -> HookAnswer | None:
        """The same for a channel that runs here."""
        started = self._started.get(ChannelId(channel_id))
        if started is None or started.running.channel.kind != kind:
            return None
        return await started.running.take_hook(hook)

    def changed(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Starts, restarts and stops channels as their rows and secrets change, until cancelled."""
        await self._vm.runtime.recovered.wait()
        self._started.clear()
        # Other nodes of a cluster change rows, too, and tell nobody.
        patience = None if self._vm.membership is None else CLUSTER_SECONDS
        async with open_tasks() as tasks:
            while True:
                self._changed, seconds = anyio.Event(), patience
                try:
                    await self._follow(tasks)
                except AgentVMError as error:
                    logger.error("channels_not_read", code=error.code, error=str(error))
                    seconds = RETRY_MAX_SECONDS
                with anyio.move_on_after(seconds):
                    await self._changed.wait()

    async def _follow(self, tasks: anyio.abc.TaskGroup) -> None:
        channels = {channel.channel_id: channel for channel in await self._vm.store.directory.channels()}
        secrets = {channel_id: await self._secrets(channel) for channel_id, channel in channels.items()}
        for channel_id, started in tuple(self._started.items()):
            is_same = channels.get(channel_id) == started.running.channel and secrets.get(channel_id) == started.secrets
            if not is_same or started.running.status.state == "refused" or not await started.running.is_allowed():
                started.scope.cancel()
                del self._started[channel_id]
        for channel_id in channels.keys() - self._started.keys():
            self._start(tasks, channels[channel_id], secrets[channel_id])

    async def _secrets(self, channel: ChatChannel) -> Mapping[str, str]:
        """Returns the values of the secrets that a channel names; one that is gone or cannot be opened is left out."""
        adapter, values = adapters().get(channel.kind), dict[str, str]()
        for field in () if adapter is None else describe(adapter).fields:
            if field.is_secret and (name := channel.settings.get(field.name)):
                try:
                    value = await self._vm.tenancy.vault.get(channel.tenant_id, name)
                except AgentVMError as error:
                    logger.error("channel_secret_not_opened", channel=channel.name, secret=name, error=str(error))
                    continue
                if value is not None:
                    values[field.name] = value.reveal()
        return values

    def _start(self, tasks: anyio.abc.TaskGroup, channel: ChatChannel, secrets: Mapping[str, str]) -> None:
        running = RunningChannel(self._vm, channel, partial(self._make, channel, secrets))
        scope = anyio.CancelScope()
        self._started[channel.channel_id] = _Started(running, secrets, scope)
        tasks.start_soon(_run, running, scope)

    def _make(self, channel: ChatChannel, secrets: Mapping[str, str]) -> ChannelAdapter:
        adapter = find_adapter(channel.kind)
        for field in describe(adapter).fields:
            name = channel.settings.get(field.name)
            if field.is_secret and field.name not in secrets and (field.required or name):
                raise PlatformRefused(f"The secret {name} is missing", f"Store it: avm secret set {name}")
        settings = msgspec.convert(channel.settings, adapter.settings)
        base = self._vm.config.system.public_url
        hook = None if base is None else f"{base.rstrip('/')}{HOOKS_PATH}/{channel.kind}/{channel.channel_id}"
        return adapter(AdapterParts(settings=settings, secrets=secrets, http=self._http, clock=self._vm.clock, hook=hook))


async def _run(running: RunningChannel, scope: anyio.CancelScope) -> None:
    with scope:
        await running.run()


@asynccontextmanager
async def open_channels(vm: AgentVM) -> AsyncIterator[ChannelHost]:
    """Runs the channels of a server while the block lasts."""
    async with SafeHttp(AddressRules.parse(vm.config.tools.network.allow)) as http, open_tasks() as tasks:
        host = vm.channels = ChannelHost(vm, http)
        # One node of a cluster is the bot: two would answer twice.
        tasks.start_soon(while_leading, vm.membership, host.run)
        try:
            yield host
        finally:
            vm.channels = None
            tasks.cancel_scope.cancel()
