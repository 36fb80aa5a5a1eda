"""Node — one life of a server that shares the simulated database with others."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio.abc

from agentvm.app import _start_node
from agentvm.cluster.bus import Hearing
from agentvm.cluster.membership import Membership, open_membership
from agentvm.errors import AgentVMError, StoreFailed
from agentvm.errors.cluster import NodeFenced
from agentvm.storage.engines.sqlite.database import LaneJob
from agentvm.storage.sql.nodes import NodeStore, register
from agentvm.storage.sql.store import Store
from agentvm.version import VERSION
from agentvm.vm import AgentVM
from tests.simulation.bus import SimulatedBus, Wire
from tests.simulation.disk import Disk, SimulatedDatabase
from tests.simulation.loop import NODE
from tests.simulation.process import Hardware, Process

LEASE_SECONDS = 3.0
OUTAGE_SECONDS = 30.0
"""Time that a commit waits for a database that does not answer."""
RETRY_SECONDS = 0.1


class SharedDatabase(SimulatedDatabase):
    """What one node has of the database: a connection that can be lost, also in the middle of a commit.

    As the engine for PostgreSQL it waits for a database that does not answer, runs a commit that was rolled back again, and
    asks for the outcome of one of which it has not heard.
    """

    def __init__(self, disk: Disk, is_fenced: bool) -> None:
        super().__init__(disk)
        self._is_fenced = is_fenced
        self.away = False
        """Whether this node does not reach the database."""
        self._until: float | None = None

    def _commit(self) -> None:
        if not self._alive:
            return
        now = self._loop.time()
        if self.away or self._disk.away:
            self._until = self._until or now + OUTAGE_SECONDS
            if now < self._until:
                self._loop.call_later(RETRY_SECONDS, self._commit)
            else:
                self._fail_all(StoreFailed("The database failed and nothing was stored"))
            return
        if not self._disk.on_commit():
            return
        if self._is_fenced and not self._is_up():
            self._fail_all(NodeFenced("This node was declared dead by the others"))
            return
        lost = self._disk.dice.happens(self._disk.unknown)
        if lost and self._disk.dice.happens(0.5):
            self._loop.call_later(self._disk.dice.pause(0.5), self._commit)
            return
        self._disk.commit(self._committing)
        if not self._disk.after_commit():
            return
        if lost:
            self._loop.call_later(self._disk.dice.pause(0.5), self._finish)
        else:
            self._finish()

    def _is_up(self) -> bool:
        return self._disk.query("SELECT state FROM nodes WHERE node_id = ?", (self.node_id,)) == [("up",)]

    def _fail_all(self, error: AgentVMError) -> None:
        for job in self._committing:
            job.error = error
        self._finish()

    def _finish(self) -> None:
        self._until = None
        done, self._committing = self._committing, []
        for job in done:
            job.deliver()
        if self._waiting:
            self._begin()

    def _read(self, job: LaneJob[Any]) -> None:
        if self._alive and (self.away or self._disk.away):
            job.error = StoreFailed("The database could not be read")
            job.deliver()
        else:
            super()._read(job)


class Node(Process):
    """A process that is one of several."""

    def __init__(self, hardware: Hardware, number: int, wire: Wire | None) -> None:
        super().__init__(hardware, number)
        self.context.run(NODE.set, number)
        self._wire = wire
        self._bus: SimulatedBus | None = None
        self._database: SharedDatabase = SharedDatabase(hardware.disk, is_fenced=True)
        self._beats = SharedDatabase(hardware.disk, is_fenced=False)
        self.membership: Membership | None = None

    @property
    def node_id(self) -> int:
        return self._database.node_id

    @property
    def is_fenced(self) -> bool:
        return self.membership is not None and self.membership.fenced.is_set()

    def lose_database(self, away: bool) -> None:
        self._database.away = self._beats.away = away

    def crash(self) -> None:
        if self._alive:
            self._beats.cut_off()
            if self._bus is not None:
                self._bus.end()
        super().crash()

    @asynccontextmanager
    async def _open_store(self) -> AsyncIterator[Store]:
        node_id = await register(self._beats, f"node-{self.number}", VERSION)
        self._database.node_id = self._beats.node_id = node_id
        nodes = NodeStore(self._database, self._beats)
        async with open_membership(nodes, lease_seconds=LEASE_SECONDS, clock=self._hardware.clock) as self.membership:
            if self._wire is not None and self.alive:
                self._bus = SimulatedBus(self._wire, self.number, self.context)
            try:
                yield Store(self._database)
            finally:
                if self._bus is not None:
                    self._bus.end()

    def _start(self, vm: AgentVM, tasks: anyio.abc.TaskGroup) -> None:
        assert self.membership is not None
        vm.membership = self.membership
        if self._bus is not None:
            vm.hearing = Hearing(self._bus, self.membership)
        _start_node(vm, self.membership, tasks)
