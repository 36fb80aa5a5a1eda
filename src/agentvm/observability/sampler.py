"""Sampler — measures the delay of the event loop and the free disk space once a second."""

from collections import deque
from collections.abc import Callable

import anyio

INTERVAL_SECONDS = 1.0
RECENT_SAMPLES_MAX = 15
"""Samples that the current delay is the maximum of: as many seconds as scrapers usually wait."""

DISK_FULL_BYTES = 16 * 1024 * 1024
"""Free space below which a disk counts as full: one large batch may need more."""


class Sampler:
    """The latest samples. `run` keeps them current."""

    def __init__(self, free: Callable[[], int | None]) -> None:
        self._free = free
        self._lags: deque[float] = deque(maxlen=RECENT_SAMPLES_MAX)
        self.disk_free = free()
        """The free bytes; None for a server in memory."""

    @property
    def lag(self) -> float:
        """The maximum delay of the event loop in recent seconds, during which no client was served."""
        return max(self._lags, default=0.0)

    @property
    def full(self) -> bool:
        """Whether the disk is full, as of the latest sample."""
        return self.disk_free is not None and self.disk_free < DISK_FULL_BYTES

    def sample(self, late: float) -> None:
        """Takes a sample; `late` is the delay of the event loop in seconds."""
        self._lags.append(max(0.0, late))
        self.disk_free = self._free()

    async def run(self) -> None:
        """Takes samples until cancelled."""
        while True:
            due = anyio.current_time() + INTERVAL_SECONDS
            await anyio.sleep(INTERVAL_SECONDS)
            self.sample(anyio.current_time() - due)
