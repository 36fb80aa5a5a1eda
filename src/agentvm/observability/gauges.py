"""Gauges — how things stand now, read when somebody asks."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agentvm.drivers.health import ProviderHealth
from agentvm.model.ids import Clock
from agentvm.observability import process
from agentvm.observability.sampler import Sampler


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauges:
    """How things stand. Bytes, seconds, and numbers of things."""

    agents: int
    containers: int
    connections: int
    turns_running: int
    messages_waiting: int
    journal_waiting: int
    database_waiting: int
    quarantined: int
    evicted: int
    """Agents that left memory since the start."""
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
    """Why no new work is taken, if so."""
    providers: tuple[ProviderHealth, ...]


class Sized(Protocol):
    def __len__(self) -> int: ...


class Roster(Sized, Protocol):
    """Who is in memory."""

    def count_running(self) -> int: ...

    def count_waiting(self) -> int: ...

    def count_containers(self) -> int: ...


class Journal(Protocol):
    failing: bool

    @property
    def waiting(self) -> int: ...


class Models(Protocol):
    def health(self) -> tuple[ProviderHealth, ...]: ...


class Runtime(Protocol):
    """What is read of a runtime: this package and that one do not know each other."""

    evicted: int

    @property
    def roster(self) -> Roster: ...

    @property
    def journal(self) -> Journal: ...

    @property
    def quarantine(self) -> Sized: ...

    @property
    def models(self) -> Models: ...

    @property
    def hindrance(self) -> str | None: ...


class Store(Protocol):
    def waiting(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruments:
    """Where gauges are read from."""

    runtime: Runtime
    store: Store
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
