"""Cluster — one history of several nodes over one database: they die, freeze, lose the database, leave and come back."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

import anyio

from agentvm.drivers.base import Prompt
from agentvm.model.ids import DEFAULT_TENANT, SessionId
from tests.simulation.bus import SPLIT_SECONDS, Wire
from tests.simulation.loop import NODE, VirtualLoop
from tests.simulation.network import Socket
from tests.simulation.node import Node
from tests.simulation.process import Process
from tests.simulation.world import PATIENCE, START, Setup, World

SKEW_MS = 900
"""How far the clock of a node is from that of the database, at most."""
JUST_SECONDS = 5.0
"""Between the history that a node reads for a message and the commit that accepts it, another may drop what is old in it."""
HEARD_SECONDS = 3.0
"""Whoever has heard nothing for so long in peace has heard everything."""
REST_SECONDS = 0.5
"""Everybody has been at rest for twice as long when nothing more happens."""
HEADS = (
    "SELECT session_id, max(last_seq) FROM log JOIN sessions USING (session_key) WHERE deleted_at IS NULL GROUP BY session_id"
)
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
        self._thinned_at: dict[SessionId, float] = {}
        self.wire = Wire(self.dice) if setup.bus else None
        self._is_mixed = self.dice.happens(0.2)
        """Whether some nodes have no bus."""

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
        wire = self.wire if not self._is_mixed or self.dice.happens(0.7) else None
        node = Node(self._hardware(self.dice.randint(-SKEW_MS, SKEW_MS)), number, wire)
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

    def _thins(self, session_id: SessionId) -> None:
        super()._thins(session_id)
        self._thinned_at[session_id] = self._loop_time()

    def _was_just_thinned(self, session_key: int) -> bool:
        ((session_id,),) = self.disk.query("SELECT session_id FROM sessions WHERE session_key = ?", (session_key,))
        return self._thinned_at.get(session_id, -JUST_SECONDS) > self._loop_time() - JUST_SECONDS

    # What goes wrong.

    def _kill(self) -> None:
        """The node that is committing, or any."""
        number = NODE.get()
        process = self._lives_by_number[number] if number else self._some_node()
        if process is not None and process.alive:
            self.note(f"process {process.number} dies")
            self.counts["crashes"] += 1
            process.crash()
            self._loop.thaw(process.number)

    def _some_node(self) -> Node | None:
        alive = [process for process in self.processes.values() if process.alive]
        return cast(Node, self.dice.choice(alive)) if alive else None

    async def _restart(self) -> None:
        if (process := self._some_node()) is not None:
            process.restart(self.dice.choice((0.0, 0.2, 2.0)))

    async def _drop_old(self) -> None:
        if self.dice.happens(0.6):
            self._jump()
        for process in tuple(self.processes.values()):
            if isinstance(process, Node) and process.membership is not None and process.membership.is_leading():
                await process.drop_old()

    async def _freeze(self) -> None:
        if (node := self._some_node()) is not None:
            self.note(f"process {node.number} freezes")
            self._loop.freeze(node.number)
            self._tasks.start_soon(self._later, self.dice.pause(3.0), self._loop.thaw, node.number)

    async def _lose_database(self) -> None:
        if (node := self._some_node()) is not None:
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

    async def _bus_cut(self) -> None:
        if self.wire is not None and self.wire.buses:
            for bus in self.dice.choice(([self.dice.choice(self.wire.buses)], [*self.wire.buses])):
                bus.cut()

    async def _bus_split(self) -> None:
        if self.wire is not None:
            self.wire.sides = {bus.number: self.dice.happens(0.5) for bus in self.wire.buses}
            self._tasks.start_soon(self._later, SPLIT_SECONDS + self.dice.pause(2.0), self.wire.sides.clear)

    async def _bus_drops(self) -> None:
        if self.wire is not None:
            self.wire.dropping = self.dice.choice((0.1, 0.5, 1.0))
            await anyio.sleep(self.dice.pause(1.0))
            self.wire.dropping = 0.0

    async def _bus_slow(self) -> None:
        if self.wire is not None:
            self.wire.slow = True
            await anyio.sleep(self.dice.pause(2.0))
            self.wire.slow = False

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
            **(BUS_TROUBLES if self.wire is not None else {}),
        }

    # The end.

    async def _say_last_words(self) -> None:
        """Everybody says something more while the bus loses it: no later event will show what was lost."""
        trouble = self.dice.choice(tuple(BUS_TROUBLES))
        self.note(f"** {trouble.__name__}")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(trouble, self)
            for device in self.devices:
                await anyio.sleep(self.dice.pause(0.3))
                if device.connected:
                    device.act_say()
        await anyio.sleep(self.dice.pause(1.0))

    async def _come_to_rest(self) -> None:
        if self.wire is not None:
            await self._say_last_words()
        self.disk.heal()
        if self.wire is not None:
            self.wire.heal()
        self._doomed = None
        for node in self._lives_by_number.values():
            node.lose_database(False)
            self._loop.thaw(node.number)
        with anyio.fail_after(PATIENCE):
            await self._rest()
            await self._check_followers()
            for process in tuple(self.processes.values()):
                process.restart(self.dice.choice((0.0, 30.0)))
                await process.over.wait()
                await self._rest()
            for device in self.devices:
                device.disconnect()
            while not all(device.connected for device in self.devices):
                for device in self.devices:
                    device.connect()
                await self._hear_all(HEARD_SECONDS)
                await self._rest()
            self._stopping = True
            for process in self.processes.values():
                process.restart(0.0)
                await process.over.wait()
        if self.wire is not None:
            self.counts["heard on the bus"] += self.wire.carried
            self.counts["lost on the bus"] += self.wire.lost

    async def _hear_all(self, seconds: float) -> None:
        """Returns when nobody has heard anything for so long: slow ones need a while."""
        heard = -1
        while heard != self.counts["frames"]:
            heard = self.counts["frames"]
            await anyio.sleep(seconds)

    async def _check_followers(self) -> None:
        """Whoever is connected hears the end of everything, though nothing more happens that would show what was lost."""
        for device in self.devices:
            device.read_on()
        await self._hear_all(HEARD_SECONDS)
        heads = dict(self.disk.query(HEADS))
        for device in self.devices:
            for session_id in device.subscribed & device.cursors.keys() - self.thinned if device.connected else ():
                if (last := device.cursors[session_id]) < heads.get(session_id, 0) and (device.follows or last > 0):
                    self.object(f"{device.name} has heard {session_id} up to {last}, and not up to {heads[session_id]}")

    async def _rest(self) -> None:
        """Waits until every node is there, no turn runs, nothing is left to be taken over, and everybody has heard of it."""
        quiet = 0
        while quiet < 2:
            await anyio.sleep(REST_SECONDS)
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


BUS_TROUBLES: dict[Callable[[Any], Any], float] = {
    ClusterWorld._bus_cut: 2.0,
    ClusterWorld._bus_split: 1.5,
    ClusterWorld._bus_drops: 1.5,
    ClusterWorld._bus_slow: 1.0,
}
