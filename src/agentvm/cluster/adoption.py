"""Adoption — takes over the sessions of nodes that have ended, some at a time, and lets their turns go on here."""

import anyio
import anyio.abc

from agentvm.cluster.membership import Membership
from agentvm.errors import AgentVMError
from agentvm.log import get_logger
from agentvm.runtime.runtime import Runtime
from agentvm.runtime.tasks import open_tasks
from agentvm.storage.sql.nodes import Orphan

logger = get_logger(__name__)

ORPHANS_MAX = 50
"""Sessions that are taken over in one commit: the nodes that are left share them."""


class Adopter:
    """Looks for sessions without a node after every beat."""

    def __init__(self, membership: Membership, runtime: Runtime) -> None:
        self._membership = membership
        self._nodes = membership.nodes
        self._runtime = runtime
        self.adopted = 0
        """Sessions that this node has taken over."""
        self._unknown: frozenset[int] = frozenset()

    async def run(self) -> None:
        """Takes over, until cancelled."""
        await self._runtime.recovered.wait()
        async with open_tasks() as tasks:
            while True:
                await self._membership.wait_beat()
                if not self._runtime.accepting:
                    continue
                try:
                    await self._look(tasks)
                except AgentVMError as error:
                    logger.error("sessions_not_adopted", code=error.code, error=str(error))

    async def _look(self, tasks: anyio.abc.TaskGroup) -> None:
        if await self._nodes.has_orphans():
            while orphans := await self._nodes.adopt(ORPHANS_MAX):
                await self._adopt(orphans, tasks)
        await self._sweep(tasks)
        if self._membership.is_leading():
            await self._nodes.drop_ended()

    async def _adopt(self, orphans: tuple[Orphan, ...], tasks: anyio.abc.TaskGroup) -> None:
        assert self._runtime.adopt is not None
        go_on = await self._runtime.adopt(orphans, self._nodes)
        self.adopted += len(orphans)
        logger.info("sessions_adopted", sessions=len(orphans), nodes=sorted({orphan.tail_of for orphan in orphans}))
        tasks.start_soon(go_on)

    async def _sweep(self, tasks: anyio.abc.TaskGroup) -> None:
        """Lets sessions go in which nothing is done, and takes up those that this node runs without knowing it."""
        runtime, journal = self._runtime, self._runtime.journal
        idle = {
            (log.tenant_id, log.session_id): log
            for log in journal.claimed()
            if not log.open_turns and runtime.is_resting(log.tenant_id, log.container_id, log.session_id)
        }
        if idle:
            for key in await self._nodes.release([*idle]):
                journal.release(idle[key])
        running = next((row.sessions for row in self._membership.rows if row.node_id == self._membership.node_id), 0)
        if running <= len(journal.claimed()) and not self._unknown:
            return
        own = await self._nodes.list_own()
        known = {(log.tenant_id, log.session_id) for log in journal.claimed()}
        unknown = [one for one in own if one.key not in known and not journal.is_writing(*one.key)]
        # Seen twice: one that was taken just now may not be known yet.
        lost = tuple(one for one in unknown if one.session_key in self._unknown)
        self._unknown = frozenset(one.session_key for one in unknown if one not in lost)
        if lost:
            await self._adopt(lost, tasks)
