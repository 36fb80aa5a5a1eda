"""Tier settings — where code may run; declared as those in `agentvm.model.settings`."""

from dataclasses import dataclass
from typing import Annotated

from agentvm.model.setting import Group, setting
from agentvm.model.tier import TierName, TierRules, Wall


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TierSettings(Group):
    """Rules for the choice of a tier. Those of a tenant hold beside the operator's, so they only narrow."""

    allow: Annotated[
        tuple[TierName, ...] | None,
        setting("Tiers that code may run on.", tenant="any", unset="every tier that this server has"),
    ] = None
    walls: Annotated[
        tuple[Wall, ...],
        setting("Walls that every job must have, such as `machine`; a tenant's add to the operator's.", tenant="any"),
    ] = ()

    @property
    def rules(self) -> TierRules:
        return TierRules(allow=self.allow, walls=frozenset(self.walls))
