"""Ports — the parts that all agents of a process share."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import anyio
import anyio.abc

from agentvm.drivers.models import Chosen, Models
from agentvm.errors.bounds import HistoryTooLarge
from agentvm.events.base import Event
from agentvm.model.ids import Clock, ContainerId, ImageId, MessageId, NewId, SessionId, TenantId, UserId
from agentvm.model.image import Image
from agentvm.model.node import TurnScope
from agentvm.model.settings import Settings
from agentvm.model.usage import Usage
from agentvm.runtime.attached import AttachmentMemory
from agentvm.runtime.billing import Meter, ToolMeter, UnmeteredTools
from agentvm.runtime.busy_agents import BusyAgents
from agentvm.runtime.context import newest
from agentvm.runtime.histories import UNBOUNDED_TOKENS, Histories, Key
from agentvm.runtime.journal import Journal
from agentvm.runtime.large import LargeMessages
from agentvm.runtime.memories import Memories
from agentvm.runtime.policy import PolicyLayer, layers_of
from agentvm.runtime.recovery.quarantine import Quarantine
from agentvm.runtime.session_log import SessionLog
from agentvm.runtime.tools import ToolSource
from agentvm.sharing.cache import Cache
from agentvm.sharing.keyed_lock import KeyedLock
from agentvm.storage.base import ReadingLimits, Recalled
from agentvm.storage.sql.log import LogStore
from agentvm.storage.sql.store import Store
from agentvm.tools.base import KnowledgeSource

if TYPE_CHECKING:
    from agentvm.runtime.sub_agents import SubAgents


class Choose(Protocol):
    """Yields the provider of a tenant for a model's name, then its fallbacks in order, for as long as the context lasts.

    `key_owner` is an image that has a key of its own.
    """

    def __call__(
        self, tenant_id: TenantId, name: str | None, key_owner: ImageId | None = None, /
    ) -> AbstractAsyncContextManager[Sequence[Chosen]]: ...


class Cost(Protocol):
    """Returns the cost of usage at a time, in nano-USD; None without a known price."""

    def __call__(self, driver: str, model: str, usage: Usage, at: int, provider: str = "", /) -> int | None: ...


UNENFORCED_MAX = 10_000
"""Remembered images whose tools a provider does not enforce."""
SMALL_HISTORY_BYTES = 512 * 1024
"""Size of most histories. Larger ones are read by a few turns at a time."""

LEAST_HISTORY_BYTES = 64 * 1024
"""Read for a prompt at first, however small the window of its model is."""

TOKEN_STORED_BYTES = 4
"""A token is estimated as three bytes of text; a message is stored with its ids and times around the text."""

HISTORY_MAX_BYTES = 8 * 1024 * 1024
"""Maximum of a history that is read for a prompt: more text than any context window holds. Attachments count by reference."""

TURN_MAX_BYTES = 32 * 1024 * 1024
"""Size of one turn's messages, the user's included; providers take no larger requests."""

LARGE_READS_MAX = 4
REWRITES_MAX = 2
TAKEN_UP_MAX = 8

SettingsOf = Callable[[TenantId | None], Settings]
"""Returns the settings of a tenant's turns, or with None those of the process. Cheap: called for each turn."""


AdmitBytes = Callable[[TenantId, UserId | None, int], Awaitable[None]]
"""Counts bytes that are about to be stored; `QuotaExceeded` if they are too many."""


async def admit_all(tenant_id: TenantId, user_id: UserId | None, size: int) -> None:
    """Admits any number of bytes: for a runtime without accounts."""


StopElsewhere = Callable[[TurnScope], Awaitable[None]]
"""Stops such turns on all other nodes; returns when none of them runs one. `NodeSilent` if some go on."""


async def stop_nothing(scope: TurnScope) -> None:
    """For a server alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Handed over by the runtime that was opened with them."""

    journal: Journal
    broadcast: Callable[[Sequence[Event]], None]
    """Tells without storing: for when the store itself has failed."""
    store: Store
    quarantine: Quarantine
    models: Models
    choose: Choose
    tools: ToolSource
    clock: Clock
    new_id: NewId
    tasks: anyio.abc.TaskGroup
    settings_of: SettingsOf
    sending: KeyedLock[tuple[TenantId, SessionId, str]] = field(default_factory=KeyedLock)
    """Held while a message is sent under a client key: the same key is used by one sender at a time."""
    cost: Cost
    meter: Meter
    admit_bytes: AdmitBytes = admit_all
    tool_meter: ToolMeter = field(default_factory=UnmeteredTools)
    attachment_memory: AttachmentMemory = field(default_factory=AttachmentMemory)
    """Memory of attachments in prompts."""
    large: LargeMessages = field(default_factory=LargeMessages)
    histories: Histories = field(default_factory=Histories)
    memories: Memories
    sub_agents: "SubAgents"
    knowledge: KnowledgeSource | None = None
    busy: BusyAgents = field(default_factory=BusyAgents)
    unenforced: Cache[tuple[ImageId, str | None], bool] = field(default_factory=lambda: Cache(UNENFORCED_MAX))
    """Images with a model whose provider has refused to enforce the input of their tools."""

    taking_up: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(TAKEN_UP_MAX))
    """Held while a turn from before a restart is looked at."""
    large_reads: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(LARGE_READS_MAX))
    """Held while more of a history is in memory for a prompt than most have."""
    rewrites: anyio.Semaphore = field(default_factory=lambda: anyio.Semaphore(REWRITES_MAX))
    """Held while a history is in memory to be changed, or to begin another with."""

    def policy(self, tenant_id: TenantId, image: Image) -> tuple[PolicyLayer, ...]:
        """Returns the rules for the tool calls of a tenant's image as they are now, besides the server's own."""
        operator, tenant = (self.settings_of(scope).tools.policy for scope in (None, tenant_id))
        rendered = image.definition.rendered
        return layers_of(operator, tenant, image.definition.policy, () if rendered is None else rendered.callers)

    async def recall(
        self,
        tenant_id: TenantId,
        container_id: ContainerId,
        session_id: SessionId,
        current: MessageId | None = None,
        window: int | None = None,
    ) -> Recalled:
        """Returns the newest messages of a session for a prompt, up to a budget of bytes, and the summary unless it is off.

        `current` is the message that is answered: the messages of its turn are complete, or `HistoryTooLarge`. With `window`
        only as much as may fit into this many tokens.
        """
        log = self.store.tenant(tenant_id).container(container_id).log(session_id)
        sums_up = self.settings_of(tenant_id).compaction.by != "off"
        reader = HistoryReader(self.histories, self.large_reads)
        return await reader.recall(log, (tenant_id, session_id), current, window, summary=sums_up)

    async def recall_released(self, log: SessionLog) -> None:
        """Reads a history again that other nodes may have changed, so that a turn that begins now announces its call at once.

        To be called with a log that was looked at before: a later change by another node refuses the commit of the turn.
        """
        window = self.histories.take_released(log.tenant_id, log.session_id)
        if window is not None:
            bound = None if window == UNBOUNDED_TOKENS else window
            await self.recall(log.tenant_id, log.container_id, log.session_id, window=bound)
            if self.settings_of(log.tenant_id).memory.by != "off":
                await self.memories.read_ahead((log.tenant_id, log.container_id))


@dataclass(frozen=True, slots=True)
class HistoryReader:
    """Reads as much of a history as a prompt needs, and keeps it for the next one."""

    histories: Histories
    large_reads: anyio.Semaphore

    async def recall(
        self, log: LogStore, key: Key, current: MessageId | None, window: int | None, *, summary: bool
    ) -> Recalled:
        """See `Ports.recall`."""
        if current is not None:
            cached = self.histories.find(*key, current, summary=summary, window=window or UNBOUNDED_TOKENS)
            if cached is not None:
                return cached
        reading = ReadingLimits(max_bytes=_bytes_of(window), current=current, summary=summary)
        with self.histories.reading(*key, summary=summary) as keep:
            recalled = await log.recall(reading)
            while reading.max_bytes < HISTORY_MAX_BYTES and _lacks(recalled, current, window):
                more = min(4 * reading.max_bytes, HISTORY_MAX_BYTES)
                whole = TURN_MAX_BYTES if more == HISTORY_MAX_BYTES else 0
                reading = replace(reading, max_bytes=more, current_bytes=whole)
                async with self.large_reads:
                    recalled = await log.recall(reading)
                    if window is not None and more > SMALL_HISTORY_BYTES:
                        recalled = replace(recalled, messages=newest(recalled.messages, window)[0])
            if recalled.truncated and not _has(recalled, current):
                raise HistoryTooLarge(
                    f"This message, with its tool calls and answers, has more than {TURN_MAX_BYTES // 2**20} MiB, "
                    "which is more than a model accepts in one prompt; send less, or upload it as an attachment"
                )
            keep(recalled, window or 0)
        return recalled


def _lacks(recalled: Recalled, current: MessageId | None, window: int | None) -> bool:
    """Whether a model may be told more than was read."""
    if not recalled.truncated:
        return False
    return window is None or not _has(recalled, current) or not newest(recalled.messages, window)[1]


def _has(recalled: Recalled, current: MessageId | None) -> bool:
    return current is None or any(message.id == current for message in reversed(recalled.messages))


def _bytes_of(window: int | None) -> int:
    """Estimated size in the store of a history that fills the window."""
    if window is None:
        return SMALL_HISTORY_BYTES
    return min(max(LEAST_HISTORY_BYTES, TOKEN_STORED_BYTES * window), SMALL_HISTORY_BYTES)
