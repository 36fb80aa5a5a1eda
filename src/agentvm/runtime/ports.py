"""Ports — what every agent of a process shares."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

import anyio
import anyio.abc

from agentvm.drivers.models import Chosen, Models
from agentvm.events.base import Event
from agentvm.model.ids import Clock, ContainerId, NewId, SessionId, TenantId
from agentvm.model.limits import Limits
from agentvm.model.usage import Usage
from agentvm.runtime.attached import Carried
from agentvm.runtime.billing import Meter
from agentvm.runtime.journal import Journal
from agentvm.runtime.large import LargeMessages
from agentvm.runtime.quarantine import Quarantine
from agentvm.runtime.tools import Toolbox
from agentvm.storage.base import Recalled, Store

Choose = Callable[[TenantId, str | None], AbstractAsyncContextManager[Sequence[Chosen]]]
"""Who answers for a tenant under a model's name, then who may stand in, in order; for as long as the context lasts."""


class Cost(Protocol):
    """What usage of a driver's model costs at a moment, in nano-USD; None when it has no price."""

    def __call__(self, driver: str, model: str, usage: Usage, at: int, provider: str = "", /) -> int | None: ...


LimitsOf = Callable[[TenantId | None], Limits]
"""What one turn of a tenant may use now; None for what concerns the whole process. Cheap: it is asked for each turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Handed over by the runtime that was opened with them."""

    journal: Journal
    tell: Callable[[Sequence[Event]], None]
    """Tells without storing: for when the store itself has failed."""
    store: Store
    quarantine: Quarantine
    models: Models
    choose: Choose
    toolbox: Toolbox
    clock: Clock
    new_id: NewId
    tasks: anyio.abc.TaskGroup
    limits_of: LimitsOf
    sending: dict[tuple[TenantId, SessionId, str], anyio.Event]
    """Who is sending something under a key of their own: one at a time."""
    cost: Cost
    meter: Meter
    carried: Carried = field(default_factory=Carried)
    """What prompts hold of files."""
    large: LargeMessages = field(default_factory=LargeMessages)

    async def recall(self, tenant_id: TenantId, container_id: ContainerId, session_id: SessionId) -> Recalled:
        """What a model is told of a session; without any summary where the tenant wants none."""
        container = self.store.tenant(tenant_id).container(container_id)
        if self.limits_of(tenant_id).compaction.by == "off":
            return Recalled(messages=await container.list_messages(session_id))
        return await container.log(session_id).recall()
