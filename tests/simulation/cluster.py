"""Cluster — one history of several nodes over one database: they die, freeze, lose the database, leave and come back."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import anyio

from agentvm.drivers.base import Prompt
from agentvm.model.ids import DEFAULT_TENANT
from tests.simulation.loop import NODE, VirtualLoop
from tests.simulation.network import Socket
from tests.simulation.node import Node
from tests.simulation.process import Process
from tests.simulation.world import PATIENCE, START, Setup, World

SKEW_MS = 900
"""How far the clock of a node is from that of the database, at most."""
UNFINISHED = """
SELECT (SELECT count(*) FROM turns WHERE outcome IS NULL AND parked_at IS NULL) + (SELECT count(*) FROM journal)
     + (SELECT count(*) FROM sessions WHERE runner IS NOT NULL OR tail_of IS NOT NULL)
"""


class ClusterWorld(World):
    """People use any node, and another one whenever they connect."""

    is_shared = True

    def __init__(self, seed: int, setup: Setup) -> None:
        super().__init__(seed, setup)
        self._lives_by_number: dict[int, Node] = {}

    @property
    def process(self) -> Process | None:
        ready = [process for process in self.processes.values() if process.runtime is not None]
        return self.dice.choice(ready) if ready else None

    def connect(self, socket: Socket) -> bool:
        process = self.process
        return process is not None and process.connect(socket)

    async def run(self) -> None:
        self.disk.connection.raw.create_scalar_function("unixepoch", self._database_time, 1)  # type: ignore[arg-type]  # of one text
        await super().run()

    def _database_time(self, _: str) -> float:
        return START / 1000 + self._loop_time()

    def _make(self, number: int) -> Process:
        node = Node(self._hardware(self.dice.randint(-SKEW_MS, SKEW_MS)), number)
        self._lives_by_number[number] = node
        return node

    async def _keep_running(self, server: int) -> None:
        await anyio.sleep(self.dice.pause(0.05) * server)
        await super()._keep_running(server)

    def _note_end(self, process: Process) -> None:
        if isinstance(process, Node) and process.is_fenced:
            # To its calls it is a crash.
            self.counts["fenced"] += 1
            self.counts["crashes"] += 1

    @property
    def _loop(self) -> VirtualLoop:
        return cast(VirtualLoop, asyncio.get_running_loop())

    def _is_zombie(self) -> bool:
        """Whether a node does something that was declared dead and cannot know it: so far it has asked, it does no harm."""
        node = self._lives_by_number.get(NODE.get())
        states = () if node is None else self.disk.query("SELECT state FROM nodes WHERE node_id = ?", (node.node_id,))
        return node is not None and list(states) != [("up",)]

    def _begins(self, said: str) -> None:
        if self._is_zombie():
            self.counts["begun by zombies"] += 1
        else:
            super()._begins(said)

    def _asked(self, said: str, prompt: Prompt) -> None:
        if not self._is_zombie():
            super()._asked(said, prompt)

    # What goes wrong.

    def _kill(self) -> None:
        """The node that is committing, or any."""
        number = NODE.get()
        process = self._lives_by_number[number] if number else self._some()
        if process is not None and process.alive:
            self.note(f"process {process.number} dies")
            self.counts["crashes"] += 1
            process.crash()
            self._loop.thaw(process.number)

    def _some(self) -> Node | None:
        alive = [process for process in self.processes.values() if process.alive]
        return cast(Node, self.dice.choice(alive)) if alive else None

    async def _restart(self) -> None:
        if (process := self._some()) is not None:
            process.restart(self.dice.choice((0.0, 0.2, 2.0)))

    async def _drop_old(self) -> None:
        if self.dice.happens(0.6):
            self._jump()
        for process in tuple(self.processes.values()):
            if isinstance(process, Node) and process.membership is not None and process.membership.is_leading():
                await process.drop_old()

    async def _freeze(self) -> None:
        if (node := self._some()) is not None:
            self.note(f"process {node.number} freezes")
            self._loop.freeze(node.number)
            self._tasks.start_soon(self._later, self.dice.pause(3.0), self._loop.thaw, node.number)

    async def _lose_database(self) -> None:
        if (node := self._some()) is not None:
            self.note(f"process {node.number} does not reach the database")
            node.lose_database(True)
            self._tasks.start_soon(self._later, self.dice.pause(3.0), node.lose_database, False)

    async def _database_down(self) -> None:
        self.disk.away = True
        await anyio.sleep(self.dice.choice((self.dice.pause(0.5), self.dice.pause(4.0))))
        self.disk.away = False

    async def _unknown_commits(self) -> None:
        self.disk.unknown = self.dice.choice((0.1, 0.5))
        await anyio.sleep(self.dice.pause(1.0))
        self.disk.unknown = 0.0

    async def _later(self, seconds: float, do: Callable[..., None], *args: object) -> None:
        await anyio.sleep(seconds)
        do(*args)

    @property
    def troubles(self) -> dict[Callable[[Any], Any], float]:
        return {
            ClusterWorld._crash: 1.5,
            ClusterWorld._crash_at_commit: 3.0,
            ClusterWorld._restart: 1.5,
            ClusterWorld._freeze: 2.0,
            ClusterWorld._lose_database: 1.5,
            ClusterWorld._database_down: 1.0,
            ClusterWorld._unknown_commits: 2.0,
            ClusterWorld._disk_full: 0.4,
            ClusterWorld._disk_slow: 0.7,
            ClusterWorld._disk_unreadable: 0.5,
            ClusterWorld._clock_jump: 0.5,
            ClusterWorld._drop_old: 0.7,
            ClusterWorld._garbage: 0.2,
        }

    # The end.

    async def _come_to_rest(self) -> None:
        self.disk.heal()
        self._doomed = None
        for node in self._lives_by_number.values():
            node.lose_database(False)
            self._loop.thaw(node.number)
        with anyio.fail_after(PATIENCE):
            await self._rest()
            for process in tuple(self.processes.values()):
                process.restart(self.dice.choice((0.0, 30.0)))
                await process.over.wait()
                await self._rest()
            for device in self.devices:
                device.disconnect()
            while not all(device.connected for device in self.devices):
                for device in self.devices:
                    device.connect()
                heard = -1
                while heard != self.counts["frames"]:
                    heard = self.counts["frames"]
                    await anyio.sleep(15.0)
                await self._rest()
            self._stopping = True
            for process in self.processes.values():
                process.restart(0.0)
                await process.over.wait()

    async def _rest(self) -> None:
        """Waits until every node is there, no turn runs, nothing is left to be taken over, and everybody has heard of it."""
        quiet = 0
        while quiet < 2:
            await anyio.sleep(2.0)
            quiet += 1
            if any(process.runtime is None for process in self.processes.values()) or await self.people.answer_some(every=True):
                quiet = 0
            elif self.disk.query(UNFINISHED) != [(0,)] or self._is_busy():
                quiet = 0

    def _is_busy(self) -> bool:
        """Whether somebody waits for a reply, or a turn is known that has ended."""
        return any(
            agent.busy
            for process in self.processes.values()
            if process.runtime is not None
            for user in self.users
            for agent in process.runtime.roster.of_container(DEFAULT_TENANT, user.container_id)  # type: ignore[arg-type]
            if hasattr(agent, "busy")
        )
