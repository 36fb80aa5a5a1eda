"""Opening of tiers — every tier that the settings name, each with the number of jobs it runs at a time."""

import hashlib
import platform
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from agentvm.model.ids import Clock
from agentvm.model.public_address import AddressRules
from agentvm.model.settings import MEMORY, Settings
from agentvm.model.tier import Offer, TierName
from agentvm.model.tier_settings import RemoteSettings
from agentvm.model.tool_settings import PackageSettings
from agentvm.tiers.base import RemoteRequest, Tier, default_slots
from agentvm.tiers.container import SLOTS_MAX, ContainerSettings, ContainerTier, open_container_tier
from agentvm.tiers.docker_api import open_docker_api
from agentvm.tiers.egress import EgressPolicy
from agentvm.tiers.isolate import WORKERS_MAX, installed_engines, isolate_offer, open_isolate_tier
from agentvm.tiers.launcher_host import LauncherSettings
from agentvm.tiers.layers import LayerSettings
from agentvm.tiers.process import open_process_tier
from agentvm.tiers.remote import RemoteTier

Connect = Callable[[RemoteSettings], AbstractAsyncContextManager[RemoteRequest]]
UID_COUNT_MAX = 16_384
"""Uids from `tools.uids` on that jobs may have."""


@dataclass(frozen=True, slots=True)
class OpenTiers:
    """The tiers of a server with the slots of each."""

    tiers: tuple[Tier, ...]
    slots: dict[TierName, int]


@asynccontextmanager
async def open_tiers(settings: Settings, clock: Clock, connect: Connect | None = None) -> AsyncIterator[OpenTiers]:
    """Yields the tiers, which keep packages in the data directory. When the context is left, no process of them is left."""
    tools = settings.tools
    launcher = LauncherSettings(rootfs=tools.rootfs, first_uid=tools.uids, uids=UID_COUNT_MAX)
    policy = EgressPolicy(rules=AddressRules.parse(tools.network.allow))
    async with AsyncExitStack() as stack:
        process = await stack.enter_async_context(
            open_process_tier(launcher, policy, _layers(tools.packages, settings.system.data_dir))
        )
        isolate = await stack.enter_async_context(open_isolate_tier(process, launcher))
        tiers: list[Tier] = [isolate, process]
        if (containers := container_settings(settings)) is not None:
            tiers.append(await stack.enter_async_context(open_container_tier(containers, clock, policy, process.hold_layer)))
        if tools.remote.url is not None and connect is not None:
            ask = await stack.enter_async_context(connect(tools.remote))
            tiers.append(RemoteTier(ask, urlsplit(tools.remote.url).hostname or ""))
        slots: dict[TierName, int] = {"isolate": WORKERS_MAX, "process": tools.slots or default_slots(), "container": SLOTS_MAX}
        yield OpenTiers(tuple(tiers), slots)


async def probe_others(settings: Settings, jail: Offer, connect: Connect) -> tuple[Offer, ...]:
    """Offers of the tiers besides `process`, whose offer is `jail`. Nothing is started, and nothing is deleted."""
    offers = [isolate_offer(jail, installed_engines())]
    if (containers := container_settings(settings)) is not None:
        async with open_docker_api(containers.socket) as api:
            offers.append(await ContainerTier(api, containers, lambda: 0).offer())
    if settings.tools.remote.url is not None:
        async with connect(settings.tools.remote) as ask:
            offers.append(await RemoteTier(ask, urlsplit(settings.tools.remote.url).hostname or "").offer())
    return tuple(offers)


def container_settings(settings: Settings) -> ContainerSettings | None:
    """The settings of the tier `container`; None without an engine."""
    docker = settings.tools.docker
    if docker.socket is None:
        return None
    in_memory = settings.system.data_dir == MEMORY
    return ContainerSettings(
        socket=docker.socket,
        server=_server_id(settings.system.data_dir),
        images=docker.images,
        runtime=docker.runtime,
        prewarm=settings.tools.prewarm,
        exchange="" if in_memory else str(Path(settings.system.data_dir).resolve() / "containers"),
        packages=not in_memory and settings.tools.packages.index is not None,
    )


def _server_id(data_dir: str) -> str:
    """Returns an id that is the same after a restart, so that the containers of a crashed server are found; a server in memory
    has a new one."""
    place = uuid.uuid4().hex if data_dir == MEMORY else f"{platform.node()}:{Path(data_dir).resolve()}"
    return hashlib.sha256(place.encode()).hexdigest()[:16]


def _layers(settings: PackageSettings, data_dir: str) -> LayerSettings | None:
    if data_dir == MEMORY:
        return None
    most_bytes = settings.max_megabytes * 1024 * 1024
    return LayerSettings(folder=Path(data_dir) / "packages", index=settings.index, hosts=settings.hosts, most_bytes=most_bytes)
