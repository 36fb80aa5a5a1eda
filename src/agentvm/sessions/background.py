"""Background work — titles, memories, summaries and the search index, outside of turns."""

from collections.abc import Callable

import anyio

from agentvm.ecosystem import Effector
from agentvm.model.ids import Clock, NewId, TenantId
from agentvm.runtime.billing import Meter
from agentvm.runtime.memories import Memories
from agentvm.runtime.ports import Choose, SettingsOf
from agentvm.sessions.background_call import BackgroundCalls, Billed, PublishEvent
from agentvm.sessions.compaction import Compactor
from agentvm.sessions.import_queue import ImportQueue
from agentvm.sessions.memory_extraction import MemoryExtractor
from agentvm.sessions.relays import Relays
from agentvm.sessions.titles import Titles, TitlesBy
from agentvm.sessions.upkeep import SearchUpkeep
from agentvm.storage.sql.store import Store


class BackgroundWork:
    """The background work of one server. Its effectors receive events of turns; `run` does the work."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        new_id: NewId,
        *,
        by: Callable[[TenantId], TitlesBy],
        settings: SettingsOf,
        choose: Choose,
        meter: Meter,
    ) -> None:
        self._calls = calls = BackgroundCalls(store, clock, choose=choose, meter=meter)
        self.relays = Relays(calls, new_id)
        self._titles = Titles(store, clock, calls, by=by)
        self._memories = MemoryExtractor(store, clock, calls, settings=settings)
        self._search = SearchUpkeep(store)
        self.compactor = Compactor(store, clock, new_id, calls, settings=settings)
        self.imports = ImportQueue()
        self.effectors: tuple[Effector, ...] = (self._titles, self._memories, self._search, self.compactor, self.imports)

    def count(self, billed: Billed) -> None:
        """Sets the callback for each billed call."""
        self._calls.billed = billed

    async def run(self, tell: PublishEvent, memories: Memories) -> None:
        """Works until cancelled. `memories` are those that turns are told."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._titles.run, tell)
            tasks.start_soon(self._memories.run, tell, memories)
            tasks.start_soon(self._search.run)
            tasks.start_soon(self.compactor.run, tell)
