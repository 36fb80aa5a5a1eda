"""Membership — this node among those that share the database: renews its lease, and declares others dead whose lease is over.

Rules:
- Time is the database's. A node judges others only after it has renewed its own lease without a gap for a whole lease period:
  after an outage of the database the first node to return does not declare others dead.
- A node that was declared dead ends. The database refuses its commits from that moment on, so nothing that it does counts.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio

from agentvm.errors import AgentVMError, MigrationUnknown
from agentvm.errors.cluster import FENCED, NodeFenced
from agentvm.log import get_logger
from agentvm.model.ids import Clock
from agentvm.model.node import NodeReport
from agentvm.runtime.tasks import open_tasks
from agentvm.storage.sql.nodes import NodeRow, NodeStore

logger = get_logger(__name__)

BEAT_FACTOR = 0.25
"""Part of the lease after which it is renewed."""
CONFIRM_SECONDS = 30.0
"""How long a node waits for its own renewal before it answers a question about which another node may know better."""
SKEW_MAX_MS = 30_000
SKEW_WARNING_MS = 2_000
"""How far the clock of this machine may be from the database's: order never depends on it, but times of events do."""


class Membership:
    """The nodes as this one knows them, and its own place among them."""

    def __init__(self, nodes: NodeStore, *, lease_seconds: float, clock: Clock) -> None:
        self.nodes = nodes
        self.node_id = nodes.node_id
        self.lease_seconds = lease_seconds
        self._clock = clock
        self._steady_since: float | None = None
        self._renewed_at = self._renewal_began_at = 0.0
        self._beats = 0
        self.rows: tuple[NodeRow, ...] = ()
        """The nodes at the last beat."""
        self.fenced = anyio.Event()
        """Set when this node was declared dead."""
        self.skew_ms = 0
        self.lags_behind: str | None = None
        """The changes of others that this node could not follow for long."""
        self.report: Callable[[], NodeReport] = NodeReport
        """The report that goes with each beat."""
        self._beaten = anyio.Event()

    def is_leading(self) -> bool:
        """Whether this node does the work that one node does for all: it is the oldest node that is up."""
        return bool(self.rows) and self.node_id == min(row.node_id for row in self.rows if row.state == "up")

    @property
    def up(self) -> frozenset[int]:
        """The nodes that are up."""
        return frozenset(row.node_id for row in self.rows if row.state == "up")

    def has_ended(self, node_id: int) -> bool:
        """Whether a node has ended, according to the last lease renewal."""
        return bool(self.rows) and node_id not in self.up

    @property
    def hindrance(self) -> str | None:
        """Why this node can take no new work; None when it can."""
        if self.fenced.is_set():
            return "declared dead by the other nodes"
        if abs(self.skew_ms) > SKEW_MAX_MS:
            return f"the clock of this machine is {abs(self.skew_ms) / 1000:.0f} s from that of the database"
        silent_seconds = anyio.current_time() - self._renewed_at
        if self._beats and silent_seconds > self.lease_seconds:
            return f"the database has taken nothing from this node for {silent_seconds:.0f} s"
        return self.lags_behind

    async def confirm(self) -> None:
        """Returns after a renewal that has begun since, or when there is none for long. `NodeFenced` if this node is dead.

        A process that was frozen does not know at first that others have gone on with its sessions.
        """
        asked_at = anyio.current_time()
        with anyio.move_on_after(CONFIRM_SECONDS):
            while not self.fenced.is_set() and self._renewal_began_at < asked_at:
                await self.wait_beat()
        if self.fenced.is_set():
            raise NodeFenced(FENCED)

    async def wait_beat(self) -> None:
        """Returns after the next beat."""
        await self._beaten.wait()

    def note_beat(self) -> None:
        """Lets those continue who wait for a beat."""
        self._beaten.set()
        self._beaten = anyio.Event()

    async def run(self) -> None:
        """Renews the lease, until this node is declared dead or cancelled."""
        while not self.fenced.is_set():
            try:
                await self._beat()
            except MigrationUnknown as error:
                # A newer release has changed the database while this node was cut off.
                self._end(str(error))
            except AgentVMError as error:
                self._steady_since = None
                logger.warning("node_not_renewed", node_id=self.node_id, code=error.code, error=str(error))
            self.note_beat()
            await anyio.sleep(self.lease_seconds * BEAT_FACTOR)

    async def _beat(self) -> None:
        began = anyio.current_time()
        beat = await self.nodes.renew(int(self.lease_seconds * 1000), self.report())
        if beat is None:
            self._end("declared dead by another node")
            return
        if beat.beats <= self._beats:
            # What it had acknowledged is gone: a standby that was behind has taken over, or a backup was restored.
            self._end("the database went back in time")
            return
        self._beats = beat.beats
        now = anyio.current_time()
        if self._steady_since is None or now - self._renewed_at > self.lease_seconds:
            self._steady_since = began
        self._renewed_at, self._renewal_began_at = now, began
        self._note_skew(beat.now)
        self.rows = await self.nodes.list_all()
        if now - self._steady_since >= self.lease_seconds:
            for row in self.rows:
                if row.state == "up" and row.late_ms > 0 and await self.nodes.judge(row.node_id):
                    logger.warning("node_declared_dead", node_id=row.node_id, node=row.name, late_ms=row.late_ms)

    def _end(self, why: str) -> None:
        logger.error("node_fenced", node_id=self.node_id, reason=why)
        self.fenced.set()

    def _note_skew(self, database_now: int) -> None:
        skew = self._clock() - database_now
        if abs(skew) > SKEW_WARNING_MS >= abs(self.skew_ms):
            logger.warning("clock_skew", skew_ms=skew)
        self.skew_ms = skew

    async def watch(self) -> None:
        """Raises `NodeFenced` when this node was declared dead: the process is to end."""
        await self.fenced.wait()
        raise NodeFenced(FENCED)


@asynccontextmanager
async def open_membership(nodes: NodeStore, *, lease_seconds: float, clock: Clock) -> AsyncGenerator[Membership]:
    """A membership that renews itself; leaving says that the node is gone, so that others take over at once."""
    membership = Membership(nodes, lease_seconds=lease_seconds, clock=clock)
    async with open_tasks() as tasks:
        tasks.start_soon(membership.run)
        try:
            yield membership
        finally:
            with anyio.CancelScope(shield=True):
                try:
                    await nodes.leave()
                except AgentVMError as error:
                    # The others notice when the lease is over.
                    logger.warning("node_not_left", node_id=nodes.node_id, code=error.code, error=str(error))
            tasks.cancel_scope.cancel()


async def while_leading(membership: Membership | None, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a task on one node only: here as long as this node leads, until cancelled. Without a cluster, just runs it."""
    if membership is None:
        await task()
        return
    while True:
        while not membership.is_leading():
            await membership.wait_beat()
        async with open_tasks() as tasks:
            tasks.start_soon(task)
            while membership.is_leading():
                await membership.wait_beat()
            tasks.cancel_scope.cancel()


async def after_each_end(membership: Membership, task: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Runs a task now, and again whenever another node has ended, until cancelled."""
    while True:
        await task()
        up = membership.up
        while up <= membership.up:
            up = membership.up
            await membership.wait_beat()
