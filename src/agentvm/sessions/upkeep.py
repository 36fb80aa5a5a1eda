"""Upkeep — what sessions need beside the turns: the search put together, and the deleted gone for good.

An idle server does nothing here: the search is tended after turns and rewinds, and once at the start.
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

PAUSE = 1.0
"""Seconds after a turn or a rewind until the search is tended, for all that ended meanwhile."""
BREATH = 0.02
"""Seconds between two steps, so that turns are stored in between."""
SOME = 100
"""Sessions that are purged at a time."""


class SearchUpkeep:
    """An effector; `run` is its task."""

    kinds = (TurnResponse, SessionRewound)

    def __init__(self, store: Store) -> None:
        self._store = store
        self._wanted = anyio.Event()
        # Messages from before there was a search wait since before the start.
        self._wanted.set()

    def react(self, event: Event) -> None:
        if isinstance(event.data, self.kinds):
            self._wanted.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await self._wanted.wait()
            await anyio.sleep(PAUSE)
            self._wanted = anyio.Event()
            try:
                await self._tend()
            except AgentVMError as error:
                logger.error("search_not_tended", code=error.code, error=str(error))

    async def _tend(self) -> None:
        more = True
        while more:
            more = await self._store.tend_search()
            await anyio.sleep(BREATH)


async def purge(store: Store, clock: Clock, undo_seconds: float, forget: Callable[[TenantId, SessionId], None]) -> int:
    """Drops what nobody can restore any more, and says how much."""
    count = 0
    while gone := await store.purge_sessions(clock() - int(undo_seconds * 1000), limit=SOME):
        for tenant_id, session_id in gone:
            forget(tenant_id, session_id)
        count += len(gone)
    return count
