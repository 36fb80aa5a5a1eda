"""Gauges — the current levels of a server: agents, connections, queues, memory, disk. Read on request."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from agentvm.drivers.health import ProviderHealth
from agentvm.model.ids import Clock
from agentvm.observability import process
from agentvm.observability.sampler import Sampler

if TYPE_CHECKING:
    from agentvm.runtime.runtime import Runtime
    from agentvm.storage.sql.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """The levels at one moment, in bytes, seconds and counts."""

    agents: int
    containers: int
    connections: int
    turns_running: int
    messages_waiting: int
    journal_waiting: int
    database_waiting: int
    quarantined: int
    evicted: int
    """Agents that were unloaded since the start."""
    loop_lag: float
    rss: int
    open_files: int | None
    database_bytes: int
    wal_bytes: int
    disk_free: int | None
    uptime: float
    failing: bool
    """Whether the store refuses writes."""
    hindrance: str | None
    """The reason why no new work is accepted, if there is one."""
    providers: tuple[ProviderHealth, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruments:
    """The sources that gauges are read from."""

    runtime: "Runtime"
    store: "Store"
    sampler: Sampler
    clock: Clock
    started_at: int
    database: Path | None
    connections: Callable[[], int]

    def read(self) -> Gauges:
        runtime = self.runtime
        return Gauges(
            agents=len(runtime.roster),
            containers=runtime.roster.count_containers(),
            connections=self.connections(),
            turns_running=runtime.roster.count_running(),
            messages_waiting=runtime.roster.count_waiting(),
            journal_waiting=runtime.journal.waiting,
            database_waiting=self.store.waiting(),
            quarantined=len(runtime.quarantine),
            evicted=runtime.evicted,
            loop_lag=self.sampler.lag,
            rss=process.rss_bytes(),
            open_files=process.open_files(),
            database_bytes=process.size_of(self.database),
            wal_bytes=process.size_of(None if self.database is None else self.database.with_name(self.database.name + "-wal")),
            disk_free=self.sampler.disk_free,
            uptime=max(0, self.clock() - self.started_at) / 1000,
            failing=runtime.journal.failing,
            hindrance=runtime.hindrance,
            providers=runtime.models.health(),
        )
