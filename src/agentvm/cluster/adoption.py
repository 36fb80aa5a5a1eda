"""Adoption — takes over the sessions of nodes that have ended, some at a time, and lets their turns continue here."""

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


POLL_SECONDS = 0.15
"""Time between two looks for sessions that a node has handed over because it is stopped."""


class Adopter:
    """Looks for sessions without a node after every beat, and hands over its own when it is stopped."""

    def __init__(self, membership: Membership, runtime: Runtime) -> None:
        self._membership = membership
        self._nodes = membership.nodes
        self._runtime = runtime
        self.adopted = 0
        """Sessions that this node has taken over."""
        self._unknown: frozenset[int] = frozenset()
        runtime.hand_over = self.hand_over

    async def run(self) -> None:
        """Takes over, until cancelled."""
        await self._runtime.recovered.wait()
        async with open_tasks() as tasks:
            while True:
                beaten = False
                with anyio.move_on_after(POLL_SECONDS):
                    await self._membership.wait_beat()
                    beaten = True
                if not self._runtime.accepting:
                    continue
                try:
                    if beaten or await self._nodes.has_handed_over():
                        await self._poll(tasks)
                except AgentVMError as error:
                    logger.error("sessions_not_adopted", code=error.code, error=str(error))

    async def hand_over(self) -> None:
        """Lets the sessions go whose turns were suspended: others continue with them at once, and nothing is written here."""
        logs = self._runtime.journal.claimed()
        try:
            await self._nodes.hand_over()
        except AgentVMError as error:
            # They continue once this node has left.
            logger.warning("sessions_not_handed_over", code=error.code, error=str(error))
            return
        for log in logs:
            self._runtime.journal.release(log)
        if logs:
            logger.info("sessions_handed_over", sessions=len(logs))

    async def _poll(self, tasks: anyio.abc.TaskGroup) -> None:
        if await self._nodes.has_orphans():
            while orphans := await self._nodes.adopt(ORPHANS_MAX):
                await self._adopt(orphans, tasks)
        await self._sweep(tasks)
        if self._membership.is_leading():
            assert self._runtime.settle_ended is not None
            await self._runtime.settle_ended()
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
            if not (log.open_turns or journal.is_writing(log.tenant_id, log.session_id))
            and runtime.is_resting(log.tenant_id, log.container_id, log.session_id)
        }
        # First here: a message that is accepted meanwhile has to take its session anew. One that is not let go, because it has
        # an open turn after all, is found below.
        for log in idle.values():
            journal.release(log)
        if idle:
            await self._nodes.release([*idle])
        running = next((row.sessions for row in self._membership.rows if row.node_id == self._membership.node_id), 0)
        if running <= len(journal.claimed()) and not self._unknown:
            return
        own = await self._nodes.list_own()
        claimed = {(log.tenant_id, log.session_id) for log in journal.claimed()}
        unknown = [session for session in own if session.key not in claimed and not journal.is_writing(*session.key)]
        # Seen twice: one that was taken just now may not be known yet.
        lost = tuple(session for session in unknown if session.session_key in self._unknown)
        self._unknown = frozenset(session.session_key for session in unknown if session not in lost)
        if lost:
            await self._adopt(lost, tasks)
