"""Upkeep — merges the search index, and purges deleted sessions.

An idle server does nothing here: the index is merged after turns and rewinds, and once at the start.
"""

from collections.abc import Callable

import anyio

from agentvm.errors import AgentVMError
from agentvm.events.base import Event
from agentvm.events.lifecycle import SessionRewound
from agentvm.events.turn import TurnResponse
from agentvm.log import get_logger
from agentvm.model.ids import Clock, SessionId, TenantId
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)

DELAY_SECONDS = 1.0
"""Time from a turn or a rewind to the merge of the index, for all that ended in the meantime."""
COMMIT_PAUSE_SECONDS = 0.02
"""Pause between two steps, so that turns are stored in between."""
PURGED_SESSIONS_MAX = 100
"""Sessions that one commit purges."""


class SearchUpkeep:
    """An effector; `run` is its task."""

    kinds = (TurnResponse, SessionRewound)

    def __init__(self, store: Store) -> None:
        self._store = store
        self._due = anyio.Event()
        # Messages from before the index existed wait since before the start.
        self._due.set()

    def react(self, event: Event) -> None:
        if isinstance(event.data, self.kinds):
            self._due.set()

    async def run(self) -> None:
        """Merges the index until cancelled."""
        while True:
            await self._due.wait()
            await anyio.sleep(DELAY_SECONDS)
            self._due = anyio.Event()
            try:
                await self._tend()
            except AgentVMError as error:
                logger.error("search_not_tended", code=error.code, error=str(error))

    async def _tend(self) -> None:
        more = True
        while more:
            more = await self._store.tend_search()
            await anyio.sleep(COMMIT_PAUSE_SECONDS)


async def purge(store: Store, clock: Clock, undo_seconds: float, forget: Callable[[TenantId, SessionId], None]) -> int:
    """Purges sessions that cannot be restored any more; returns their number."""
    count = 0
    while gone := await store.purge_sessions(clock() - int(undo_seconds * 1000), limit=PURGED_SESSIONS_MAX):
        for tenant_id, session_id in gone:
            forget(tenant_id, session_id)
        count += len(gone)
    return count
