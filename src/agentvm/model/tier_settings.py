"""Tier settings — where code may run; declared as those in `agentvm.model.settings`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from agentvm.model.secret import Secret
from agentvm.model.setting import Group, Text, setting
from agentvm.model.tier import TierName, TierRules, Wall


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class DockerSettings(Group):
    """The container engine of the tier `container`: Docker, or another one with its API."""

    socket: Annotated[
        Text | None,
        setting("Unix socket of a container engine: `/var/run/docker.sock`.", "restart", unset="no tier `container`"),
    ] = None
    images: Mapping[
        str,
        Annotated[
            Text,
            setting(
                "Image by name: `python: python:3.13-slim`; an image named as an engine runs its code.", "restart", unset="none"
            ),
        ],
    ] = field(default_factory=dict)
    runtime: Annotated[
        Text | None, setting("Runtime of containers; `runsc` is gVisor.", "restart", unset="the engine's default")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RemoteSettings(Group):
    """Another AgentVM that runs jobs: the tier `remote`."""

    url: Annotated[
        Text | None,
        setting("Address of another AgentVM that runs jobs.", "restart", url=True, unset="no tier `remote`"),
    ] = None
    key: Annotated[
        Secret | None, setting("API key of that server, with the permission `tools:invoke`.", "restart", unset="no key")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TierSettings(Group):
    """Rules for the choice of a tier. Those of a tenant apply in addition to the operator's, so they only narrow."""

    allow: Annotated[
        tuple[TierName, ...] | None,
        setting("Tiers that code may run on.", tenant="any", unset="every tier that this server has"),
    ] = None
    walls: Annotated[
        tuple[Wall, ...],
        setting("Walls that every job must have, such as `machine`; those of operator and tenant both apply.", tenant="any"),
    ] = ()

    @property
    def rules(self) -> TierRules:
        return TierRules(allow=self.allow, walls=frozenset(self.walls))
