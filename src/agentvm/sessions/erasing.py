"""Erasing — carries out what deletions have begun, in small commits beside the turns, and goes on with it after a restart.

Theory of operation. The store has a list of what is being erased. For each, what runs there is stopped first; then its rows go,
a few in each commit; then, for all of them together, the traces in the files. What fails is tried again: the list says what is
left. An idle server with an empty list does nothing here.
"""

from collections.abc import Awaitable, Callable

import anyio

from agentvm.errors import AgentVMError
from agentvm.log import get_logger
from agentvm.model.ids import ContainerId, SessionId, TenantId
from agentvm.storage.erasing import Erasure
from agentvm.storage.sql.store import Store

logger = get_logger(__name__)

PAUSE_SECONDS = 0.01
"""Between two commits, so that turns are stored in between."""
MERGE_MESSAGES = 5_000
"""Messages that go until their words leave the search: the more there are, the longer one commit of that takes."""
FIRST_RETRY_SECONDS, LAST_RETRY_SECONDS = 0.1, 30.0
"""After which what could not be finished is tried again: a turn still runs, or somebody reads an older state."""
LOOK_SECONDS = 3_600.0
"""After which the list is looked at in any case."""


class Eraser:
    """One per server; `run` is its task.

    `stop` ends the turns in containers of a tenant, None for all of them. `forget` drops what is in memory of a session.
    """

    def __init__(
        self,
        store: Store,
        stop: Callable[[TenantId, frozenset[ContainerId] | None], Awaitable[None]],
        forget: Callable[[TenantId, SessionId], None],
    ) -> None:
        self._store, self._stop, self._forget = store, stop, forget
        self._wanted = anyio.Event()

    def wake(self) -> None:
        """Something was deleted."""
        self._wanted.set()

    async def run(self) -> None:
        """Until cancelled."""
        delay = FIRST_RETRY_SECONDS
        while True:
            self._wanted = anyio.Event()
            try:
                finished = await self.erase()
            except AgentVMError as error:
                finished = False
                logger.error("not_erased", code=error.code, error=str(error))
            with anyio.move_on_after(LOOK_SECONDS if finished else delay):
                await self._wanted.wait()
            delay = FIRST_RETRY_SECONDS if finished else min(2 * delay, LAST_RETRY_SECONDS)

    async def erase(self) -> bool:
        """All that is pending; False if some of it must be tried again later."""
        # The erasure of a user that a restart takes up notes those of their containers.
        while left := [erasure for erasure in await self._store.erasing.pending() if not erasure.emptied]:
            for erasure in left:
                await self._empty(erasure)
        emptied = [erasure for erasure in await self._store.erasing.pending() if erasure.emptied]
        if not emptied:
            return True
        if not await self._store.erasing.clean(emptied, _breathe):
            logger.info("erasures_wait", erasures=len(emptied))
            return False
        logger.info("erased", erasures=len(emptied))
        return True

    async def _empty(self, erasure: Erasure) -> None:
        if erasure.user_id is None:
            # Also what a restart has taken up again.
            containers = None if erasure.container_id is None else frozenset((erasure.container_id,))
            await self._stop(erasure.tenant_id, containers)
        more, messages = True, 0
        while more:
            step = await self._store.erasing.advance(erasure)
            for session_id in step.gone:
                self._forget(erasure.tenant_id, session_id)
            more, messages = step.more, messages + step.messages
            if messages >= MERGE_MESSAGES:
                await self._store.erasing.merge(_breathe)
                messages = 0
            await _breathe()


async def _breathe() -> None:
    await anyio.sleep(PAUSE_SECONDS)
