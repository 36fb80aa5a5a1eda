"""Beside — everything that goes on about sessions beside the turns, as one thing to be opened."""

from collections.abc import Callable

import anyio

from agentvm.ecosystem import Effector
from agentvm.model.ids import Clock, TenantId
from agentvm.sessions.titles import Billed, Choose, Meter, Tell, Titles, TitlesBy
from agentvm.sessions.upkeep import SearchUpkeep
from agentvm.storage.base import Store


class Beside:
    """Its effectors hear of turns; what they lead to is done by `run`."""

    def __init__(self, store: Store, clock: Clock, *, by: Callable[[TenantId], TitlesBy], choose: Choose, meter: Meter) -> None:
        self._titles = Titles(store, clock, by=by, choose=choose, meter=meter)
        self._search = SearchUpkeep(store)
        self.effectors: tuple[Effector, ...] = (self._titles, self._search)

    def count(self, billed: Billed) -> None:
        """From now on this hears of what is billed."""
        self._titles.billed = billed

    async def run(self, tell: Tell) -> None:
        """Until cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._titles.run, tell)
            tasks.start_soon(self._search.run)
