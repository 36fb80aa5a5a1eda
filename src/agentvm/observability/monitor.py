"""Monitor — the metrics, gauges and health status of one server."""

from collections.abc import Callable, Collection
from pathlib import Path

import anyio.to_thread

from agentvm.drivers.health import ProviderHealth
from agentvm.errors import NotAvailable
from agentvm.model.ids import Clock
from agentvm.observability.exposition import Samples, render, samples
from agentvm.observability.gauges import Gauges, Instruments
from agentvm.observability.metrics import IsKnownModel, Metrics
from agentvm.observability.process import free_bytes
from agentvm.observability.report import ServerMetrics, server_report
from agentvm.observability.sampler import Sampler
from agentvm.observability.series import SeriesRecorder
from agentvm.observability.status import Status, judge
from agentvm.runtime.runtime import Runtime
from agentvm.storage.sql.store import Store

NO_SPACE = "no space left on the disk"


class Monitor:
    """The counters, the sampler and the gauges. `database` is the database file; None for a server in memory.

    Created before the runtime, which is opened with `metrics` as an effector; `watch` connects the gauges to it.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        is_known: IsKnownModel,
        tools: Callable[[], tuple[str, ...]] = tuple,
        database: Path | None = None,
    ) -> None:
        path = None if database is None else database.expanduser().absolute()
        self.metrics = Metrics(clock, is_known, tools)
        self.sampler = Sampler(lambda: None if path is None else free_bytes(path.parent))
        self.series = SeriesRecorder(self.metrics, self.gauges, clock)
        self._clock = clock
        self._database = path
        self._instruments: Instruments | None = None

    def watch(self, runtime: Runtime, store: Store, connections: Callable[[], int]) -> None:
        """Connects the gauges to a runtime and its store."""
        self._instruments = Instruments(
            runtime=runtime,
            store=store,
            sampler=self.sampler,
            clock=self._clock,
            started_at=self.metrics.started_at,
            database=self._database,
            connections=connections,
        )

    @property
    def hindrance(self) -> str | None:
        """The reason why no new work is accepted, besides the runtime's own reasons; None when there is none."""
        return NO_SPACE if self.sampler.full else None

    def gauges(self) -> Gauges:
        if self._instruments is None:
            raise NotAvailable("The server is still starting; try again")
        return self._instruments.read()

    async def exposition(self, *, openmetrics: bool = False) -> tuple[bytes, str]:
        """Returns the metrics in a text format of Prometheus, and its media type."""
        samples = self.samples()
        return await anyio.to_thread.run_sync(lambda: render(samples, openmetrics=openmetrics))

    def samples(self) -> Samples:
        return samples(self.metrics, self.gauges())

    def report(self) -> ServerMetrics:
        return server_report(self.metrics, self.gauges())

    def status(self, disk_warning: int, *, addresses: bool = False) -> Status:
        """The health status; with `addresses` the base URLs of failing providers, for the operator."""
        return judge(self.gauges(), disk_warning=disk_warning, addresses=addresses)


def known_models(health: Callable[[], tuple[ProviderHealth, ...]], named: Callable[[], Collection[str]]) -> IsKnownModel:
    """Returns whether a model is configured: the default model of a provider, or `named` as `<provider>/<model>`."""

    def is_known(provider: str, model: str) -> bool:
        defaults = {provider.name: provider.default_model for provider in health()}
        if provider not in defaults:
            return False
        return not model or defaults[provider] == model or f"{provider}/{model}" in named()

    return is_known
