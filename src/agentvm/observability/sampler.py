"""Sampler — looks once a second at what can only be known by looking: how late the event loop is, and how full the disk."""

from collections import deque
from collections.abc import Callable

import anyio

INTERVAL = 1.0
RECENT = 15
"""Looks back that count as now: as long as a scraper usually stays away."""

FULL = 16 * 1024 * 1024
"""Bytes left below which a disk counts as full: less than one large batch may need."""


class Sampler:
    """What was seen last. `run` keeps it current."""

    def __init__(self, free: Callable[[], int | None]) -> None:
        self._free = free
        self._lags: deque[float] = deque(maxlen=RECENT)
        self.disk_free = free()
        """Bytes; None when nothing is kept on a disk."""

    @property
    def lag(self) -> float:
        """Seconds that the event loop was late at worst, of late: for so long nobody was served."""
        return max(self._lags, default=0.0)

    @property
    def full(self) -> bool:
        """Whether the disk takes no more. A disk that has become free again is seen with the next look."""
        return self.disk_free is not None and self.disk_free < FULL

    def look(self, late: float) -> None:
        self._lags.append(max(0.0, late))
        self.disk_free = self._free()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            due = anyio.current_time() + INTERVAL
            await anyio.sleep(INTERVAL)
            self.look(anyio.current_time() - due)
