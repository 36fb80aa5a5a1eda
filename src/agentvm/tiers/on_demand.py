"""Tiers on demand — opens the tiers of a server when the first job needs them: a server without code tools never pays.

Nothing of the tiers is imported before that; the module itself is light.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import anyio

from agentvm.errors import ShuttingDown
from agentvm.model.ids import Clock
from agentvm.model.money import to_nano
from agentvm.model.settings import Settings

if TYPE_CHECKING:
    from agentvm.tiers.opening import Connect
    from agentvm.tiers.scheduler import Scheduler


class TiersOnDemand:
    """The tiers of a server that is running."""

    def __init__(self, settings: Callable[[], Settings], clock: Clock, connect: "Connect | None" = None) -> None:
        """`connect` opens the connection to the server of `tools.remote`."""
        self._settings = settings
        self._connect = connect
        self._clock = clock
        self._wanted = anyio.Event()
        self._ready = anyio.Event()
        self._scheduler: Scheduler | None = None

    async def scheduler(self) -> "Scheduler":
        """The scheduler; the first call opens the tiers. `ShuttingDown` when the server stops in the meantime."""
        self._wanted.set()
        await self._ready.wait()
        if self._scheduler is None:
            raise ShuttingDown("The server is stopping")
        return self._scheduler

    async def run(self) -> None:
        """Waits for the first need, then keeps the tiers open until cancelled."""
        try:
            if self._settings().tools.docker.socket is not None:
                # What a crashed server has left in the engine is deleted without waiting for the first job.
                self._wanted.set()
            await self._wanted.wait()
            await self._serve()
        finally:
            self._scheduler = None
            self._ready.set()

    async def _serve(self) -> None:
        opening, scheduler = _module("agentvm.tiers.opening"), _module("agentvm.tiers.scheduler")
        async with opening.open_tiers(self._settings(), self._clock, self._connect) as opened:
            self._scheduler = scheduler.Scheduler(
                opened.tiers,
                slots=opened.slots,
                clock=self._clock,
                rules=lambda: self._settings().tools.tiers.rules,
                prices=lambda: {name: to_nano(price) for name, price in self._settings().billing.tiers.items()},
            )
            self._ready.set()
            await anyio.sleep_forever()


def _module(name: str) -> Any:
    return import_module(name)
