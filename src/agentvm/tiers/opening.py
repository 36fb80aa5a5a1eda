"""Opening of tiers — every tier that the settings name, each with the number of jobs it runs at a time."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agentvm.model.public_address import AddressRules
from agentvm.model.settings import MEMORY
from agentvm.model.tier import TierName
from agentvm.model.tool_settings import PackageSettings, ToolSettings
from agentvm.tiers.base import Tier
from agentvm.tiers.egress import EgressPolicy
from agentvm.tiers.isolate import WORKERS_MAX, open_isolate_tier
from agentvm.tiers.launcher_host import LauncherSettings
from agentvm.tiers.layers import LayerSettings
from agentvm.tiers.process import open_process_tier
from agentvm.tiers.slots import default_slots

UID_COUNT_MAX = 16_384
"""Uids from `tools.uids` on that jobs may have."""


@dataclass(frozen=True, slots=True)
class OpenTiers:
    """The tiers of a server with the slots of each."""

    tiers: tuple[Tier, ...]
    slots: dict[TierName, int]


@asynccontextmanager
async def open_tiers(settings: ToolSettings, data_dir: str) -> AsyncIterator[OpenTiers]:
    """Yields the tiers, which keep packages in the data directory. When the context is left, no process of them is left."""
    launcher = LauncherSettings(rootfs=settings.rootfs, first_uid=settings.uids, uids=UID_COUNT_MAX)
    policy = EgressPolicy(rules=AddressRules.parse(settings.network.allow))
    async with AsyncExitStack() as stack:
        process = await stack.enter_async_context(open_process_tier(launcher, policy, _layers(settings.packages, data_dir)))
        isolate = await stack.enter_async_context(open_isolate_tier(process, launcher))
        yield OpenTiers((isolate, process), {"isolate": WORKERS_MAX, "process": settings.slots or default_slots()})


def _layers(settings: PackageSettings, data_dir: str) -> LayerSettings | None:
    if data_dir == MEMORY:
        return None
    most_bytes = settings.max_megabytes * 1024 * 1024
    return LayerSettings(folder=Path(data_dir) / "packages", index=settings.index, hosts=settings.hosts, most_bytes=most_bytes)
