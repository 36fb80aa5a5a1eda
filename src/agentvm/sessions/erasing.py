"""Erasing — completes deletions in small commits in the background, also after a restart.

Theory of operation. The store has a list of pending erasures. For each, running turns are stopped first; then its rows are
deleted, a few in each commit; then, for all of them together, the traces in the files. A failed step is retried: the list has
the rest. An idle server with an empty list does nothing here.
"""

from collections.abc import Awaitable, Callable

import anyio

from agentvm.errors import AgentVMError
from agentvm.log import get_logger
from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.storage.erasing import Erasure
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)

COMMIT_PAUSE_SECONDS = 0.01
"""Pause between two commits, so that turns are stored in between."""
MERGE_MESSAGES = 5_000
"""Deleted messages after which their words are removed from the search index: more would make one commit longer."""
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.1, 30.0
"""Delays of retries: a turn may still run, or a reader may hold an older state."""
POLL_SECONDS, CLUSTER_POLL_SECONDS = 3_600.0, 2.0
"""The list is checked after this long in any case; sooner where other nodes may add to it."""


class Eraser:
    """One per server; `run` is its task.

    `stop` ends the turns in containers of a tenant, None for all of them. `forget` drops a session from memory.
    """

    def __init__(
        self,
        store: Store,
        stop: Callable[[TenantId, frozenset[ContainerId] | None], Awaitable[None]],
        forget: Callable[[TenantId, SessionId], None],
    ) -> None:
        self._store, self._stop, self._forget = store, stop, forget
        self._woken = anyio.Event()

    def wake(self) -> None:
        """Wakes the eraser after a deletion."""
        self._woken.set()

    async def run(self) -> None:
        """Erases until cancelled."""
        delay = FIRST_RETRY_SECONDS
        look = CLUSTER_POLL_SECONDS if self._store.node_id else POLL_SECONDS
        while True:
            self._woken = anyio.Event()
            try:
                finished = await self.erase()
            except AgentVMError as error:
                finished = False
                logger.error("not_erased", code=error.code, error=str(error))
            with anyio.move_on_after(look if finished else delay):
                await self._woken.wait()
            delay = FIRST_RETRY_SECONDS if finished else min(2 * delay, LAST_RETRY_SECONDS)

    async def erase(self) -> bool:
        """Erases everything pending; returns False if some of it must be retried later."""
        # The erasure of a user that a restart takes up notes those of their containers.
        while left := [erasure for erasure in await self._store.erasing.pending() if not erasure.emptied]:
            for erasure in left:
                await self._empty(erasure)
        emptied = [erasure for erasure in await self._store.erasing.pending() if erasure.emptied]
        if not emptied:
            return True
        if not await self._store.erasing.clean(emptied, _pause):
            logger.info("erasures_wait", erasures=len(emptied))
            return False
        logger.info("erased", erasures=len(emptied))
        return True

    async def _empty(self, erasure: Erasure) -> None:
        if erasure.user_id is None:
            # Also turns that a restart has resumed.
            containers = None if erasure.container_id is None else frozenset((erasure.container_id,))
            await self._stop(erasure.tenant_id, containers)
        more, messages = True, 0
        while more:
            step = await self._store.erasing.advance(erasure)
            for session_id in step.gone:
                self._forget(erasure.tenant_id, session_id)
            more, messages = step.more, messages + step.messages
            if messages >= MERGE_MESSAGES:
                await self._store.erasing.merge(_pause)
                messages = 0
            await _pause()


async def _pause() -> None:
    await anyio.sleep(COMMIT_PAUSE_SECONDS)
