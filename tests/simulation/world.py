"""World — one history: people, their devices, the server's lives, and everything that goes wrong meanwhile."""

import asyncio
import gc
import hashlib
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.abc

from agentvm.drivers.base import Prompt
from agentvm.model.ids import DEFAULT_TENANT, ContainerId, SessionId, id_factory
from agentvm.model.retention import FOREVER_DAYS, Retention
from agentvm.runtime.agent import Agent
from agentvm.storage.sql.store import Store
from tests.simulation.bounds import smaller_bounds
from tests.simulation.device import Device, User
from tests.simulation.disk import Disk
from tests.simulation.frames import Frame
from tests.simulation.loop import Dice
from tests.simulation.network import Socket
from tests.simulation.people import People
from tests.simulation.process import Hardware, Process
from tests.simulation.programs import Programs
from tests.simulation.provider import REPEATABLE, Provider, numbers_in, told_in
from tests.simulation.tap import Tap

START = 1_700_000_000_000
"""The wall clock when every history begins, in milliseconds."""
HOUR = 3_600_000
PATIENCE = 20_000.0
"""Virtual seconds in which everything must have come to rest."""

RETENTIONS = (
    Retention(rewound_days=FOREVER_DAYS),
    Retention(rewound_days=1),
    Retention(rewound_days=1, message_days=1),
    Retention(rewound_days=2, message_days=2),
)
"""What a history keeps, of which some is dropped at random moments."""
RUNNING = """
SELECT turns.session_key, all_messages.position, turn_id FROM turns JOIN all_messages USING (session_key, message_id)
WHERE outcome IS NULL AND CAST(body AS TEXT) LIKE ?
"""
SAID = """
SELECT CAST(body AS TEXT) FROM messages
WHERE session_key = ? AND position <= ? AND json_extract(CAST(body AS TEXT), '$.role') = 'user'
"""


@dataclass(slots=True, kw_only=True)
class Setup:
    """What a test may want different from an ordinary history."""

    trace: Callable[[str], None] | None = None
    lying_disk: bool = False
    wrap: Callable[[Store], Store] = lambda store: store
    repeatable: tuple[str, ...] = (REPEATABLE,)
    programs: bool = True
    """Whether models write programs."""
    nodes: int = 1
    """Servers that share the database; see `tests.simulation.cluster`."""
    length: float = 1.0
    """How much happens, as a part of what happens in an ordinary history."""
    bus: bool = False
    """Whether these nodes also have a bus, which may lose anything."""


class World:
    """Made for one history. After `run` everything in it can be examined."""

    is_shared = False
    """Whether several nodes share the database."""

    def __init__(self, seed: int, setup: Setup) -> None:
        self.dice = Dice(seed)
        self.complaints: list[str] = []
        self.counts: Counter[str] = Counter()
        self.told: dict[tuple[str, str], Frame] = {}
        """What anybody heard, by session and cursor."""
        self.users = [User(f"user-{number}") for number in range(self.dice.randint(1, 3))]
        self.devices = [
            Device(self, self.dice.choice(self.users), f"device-{n}") for n in range(self.dice.choice((1, 1, 2, 2, 3, 4)))
        ]
        self.disk = Disk(self.dice)
        self.disk.lies = setup.lying_disk
        if self.dice.happens(0.3):
            self.disk.pay_in(self.dice.randint(10**8, 10**10))
        self.provider = Provider(self.dice, begins=self._begins, balance=self._balance, asked=self._asked)
        if setup.programs:
            self.provider.programs = Programs()
        self.retention = self.dice.choice(RETENTIONS)
        self.thinned: set[str] = set()
        self.processes: dict[int, Process] = {}
        """The process of each server, or its last one."""
        self._setup = setup
        self._digest = hashlib.blake2b()
        self._number = self._lives = 0
        self._jumped = 0
        self.tap = Tap(thinned=self.thinned)
        self.people = People(self)
        self._doomed: int | None = None
        """Commits until the process dies."""
        self._survives_commit = False
        self._tasks: anyio.abc.TaskGroup
        self._stopping = False

    @property
    def process(self) -> Process | None:
        """A server, as somebody finds it who needs any."""
        return self.processes.get(0)

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()

    # What devices find.

    def connect(self, socket: Socket) -> bool:
        return self.process is not None and self.process.connect(socket)

    def hear(self, device: Device, text: str, frame: Frame) -> None:
        self.counts["frames"] += 1
        self.note(f"{device.name} < {text}")
        context = frame.context
        if context.container_id not in (None, device.user.container_id):
            self.object(f"{device.name} heard of {context.container_id}: {frame.type}")
        if frame.cursor is not None and context.session_id is not None:
            before = self.told.setdefault((context.session_id, frame.cursor), frame)
            if not before.same(frame):
                self.object(f"{context.session_id} has two events {frame.cursor}: {before.type} and {frame.type}")

    def object(self, complaint: str) -> None:
        self.note(f"!! {complaint}")
        self.complaints.append(complaint)

    def next_number(self) -> int:
        self._number += 1
        return self._number

    def clock(self) -> int:
        return START + self._jumped + int(self._loop_time() * 1000)

    @staticmethod
    def _loop_time() -> float:
        # Also in callbacks, where there is no task.
        return asyncio.get_running_loop().time()

    def note(self, line: str) -> None:
        """Part of the history: two runs of one seed note the same."""
        self._digest.update(line.encode())
        if self._setup.trace is not None:
            self._setup.trace(f"{self._loop_time():.6f} {line}")

    # The history.

    async def run(self) -> None:
        self._started = anyio.Event()
        self.disk.on_commit = lambda: self._lives_on(after=False)
        self.disk.after_commit = lambda: self._lives_on(after=True)
        with smaller_bounds(self.dice):
            async with anyio.create_task_group() as self._tasks:
                for server in range(self._setup.nodes):
                    self._tasks.start_soon(self._keep_running, server)
                async with anyio.create_task_group() as chaos:
                    for device in self.devices:
                        chaos.start_soon(device.live, self._some(10, 60))
                    chaos.start_soon(self._go_wrong)
                    chaos.start_soon(self.people.live, self._some(0, 40))
                await self._come_to_rest()

    def _some(self, least: int, most: int) -> int:
        """So many, or less in a short history."""
        return math.ceil(self.dice.randint(least, most) * self._setup.length)

    async def _keep_running(self, server: int) -> None:
        """The operator's init system."""
        while not self._stopping:
            self._lives += 1
            number = self._lives
            self.note(f"process {number} starts")
            self.processes[server] = process = self._make(number)
            self._started.set()
            process.context.run(self._tasks.start_soon, process.run)
            await process.over.wait()
            self.note(f"process {number} is over")
            self._note_end(process)
            await anyio.sleep(self.dice.pause(0.2))

    def _note_end(self, process: Process) -> None:
        """The process has ended, of itself or not."""

    def _make(self, number: int) -> Process:
        return Process(self._hardware(), number)

    def _hardware(self, skew: int = 0) -> Hardware:
        def clock() -> int:
            return self.clock() + skew

        return Hardware(
            disk=self.disk,
            provider=self.provider,
            clock=clock,
            new_id=id_factory(clock, self.dice.getrandbits),
            tap=self.tap,
            thins=self._thins,
            retention=self.retention,
            wrap=self._setup.wrap,
            repeatable=self._setup.repeatable,
        )

    async def _go_wrong(self) -> None:
        troubles, weights = tuple(self.troubles), tuple(self.troubles.values())
        for _ in range(self._some(2, 16)):
            await anyio.sleep(self.dice.pause(1.0))
            trouble = self.dice.choices(troubles, weights)[0]
            self.counts[trouble.__name__.removeprefix("_")] += 1
            self.note(f"** {trouble.__name__}")
            await trouble(self)

    async def _come_to_rest(self) -> None:
        """Nothing goes wrong any more; everything accepted ends, survives one more restart, and everybody hears of it."""
        self.disk.heal()
        self._doomed = None
        with anyio.fail_after(PATIENCE):
            await self._rest()
            assert self.process is not None
            process = self.process
            self._started = anyio.Event()
            process.restart(self.dice.choice((0.0, 30.0)))
            await process.over.wait()
            await self._started.wait()
            await self._rest()
            for device in self.devices:
                device.disconnect()
            # Again and again: one that cannot take its replies as fast as the past is cut off, and comes back.
            while not all(device.connected for device in self.devices):
                for device in self.devices:
                    device.connect()
                await anyio.sleep(100.0)
                await self._rest()
            self._stopping = True
            self.process.restart(0.0)
            await self.process.over.wait()

    async def _rest(self) -> None:
        """Waits until no turn runs and nothing is on its way."""
        quiet = 0
        while quiet < 2:
            await anyio.sleep(2.0)
            assert self.process is not None
            await self.process.up.wait()
            runtime = self.process.runtime
            quiet += 1
            if runtime is None:
                quiet = 0
                continue
            if await self.people.answer_some(every=True):
                quiet = 0
            for user in self.users:
                for agent in runtime.roster.of_container(DEFAULT_TENANT, ContainerId(user.container_id)):
                    if isinstance(agent, Agent) and agent.busy:
                        quiet = 0
                        await agent.rest()

    def _balance(self) -> int | None:
        for credited, spent in self.disk.query("SELECT credited, spent FROM wallets WHERE prepaid"):
            return int(credited - spent)
        return None

    def _begins(self, said: str) -> None:
        if said in self.tap.ended and not self._was_accepted_again(said):
            self.object(f"something was begun for {said!r} after its turn had ended")

    def _was_accepted_again(self, said: str) -> bool:
        """Whether it is said again, its key being gone, and the process died between the commit and the event of that."""
        turns = self.disk.query(RUNNING, (f'%"content":"{said}"%',))
        return bool(self.tap.thinned) and any(turn_id not in self.tap.said for _, _, turn_id in turns)

    def _asked(self, said: str, prompt: Prompt) -> None:
        """A model is told of everything that stands and was said before, word for word or summed up, and of nothing else."""
        for session_key, position, _ in self.disk.query(RUNNING, (f'%"content":"{said}"%',)):
            expected = {number for (body,) in self.disk.query(SAID, (session_key, position)) for number in numbers_in(body)}
            told = told_in(prompt)
            if told != expected and not (told > expected and self._was_just_thinned(session_key)):
                self.object(f"{said!r} was asked with {sorted(told)}, and {sorted(expected)} stand")

    def _was_just_thinned(self, session_key: int) -> bool:
        """Whether something of the session was dropped while a node that knew it was accepting a message."""
        return False

    def _thins(self, session_id: SessionId) -> None:
        self.thinned.add(session_id)

    def _lives_on(self, *, after: bool) -> bool:
        if self._doomed is None or after != self._survives_commit:
            return True
        self._doomed -= 1
        if self._doomed >= 0:
            return True
        self._doomed = None
        self._kill()
        return False

    def _kill(self) -> None:
        if self.process is not None and self.process.alive:
            self.note("the process dies")
            self.counts["crashes"] += 1
            self.process.crash()

    # What goes wrong.

    @property
    def troubles(self) -> dict[Callable[[Any], Any], float]:
        return TROUBLES

    async def _crash(self) -> None:
        self._kill()

    async def _crash_at_commit(self) -> None:
        """Right before or right after one of the next commits."""
        self._survives_commit = self.dice.happens(0.5)
        self._doomed = self.dice.randint(0, 12)

    async def _restart(self) -> None:
        if self.process is not None:
            self.process.restart(self.dice.choice((0.0, 0.2, 2.0)))

    async def _disk_full(self) -> None:
        await self._fail_for("full")

    async def _disk_broken(self) -> None:
        await self._fail_for("broken")

    async def _fail_for(self, kind: str) -> None:
        self.disk.failing = kind
        await anyio.sleep(self.dice.pause(0.3))
        self.disk.failing = None

    async def _disk_slow(self) -> None:
        self.disk.slow = True
        await anyio.sleep(self.dice.pause(1.0))
        self.disk.slow = False

    async def _disk_unreadable(self) -> None:
        self.disk.unreadable = self.dice.choice((0.1, 0.5))
        await anyio.sleep(self.dice.pause(0.3))
        self.disk.unreadable = 0.0

    async def _clock_jump(self) -> None:
        self._jumped += self.dice.choice((-24 * HOUR, -HOUR, HOUR, 24 * HOUR))

    async def _drop_old(self) -> None:
        if self.dice.happens(0.6):
            self._jump()
        if self.process is not None:
            await self.process.drop_old()

    def _jump(self) -> None:
        """To the next day, or the one after it."""
        self._jumped += self.dice.choice((25 * HOUR, 49 * HOUR))

    async def _garbage(self) -> None:
        gc.collect()


TROUBLES: dict[Callable[[Any], Any], float] = {
    World._crash: 1.0,
    World._crash_at_commit: 3.0,
    World._restart: 1.0,
    World._disk_full: 0.7,
    World._disk_broken: 0.7,
    World._disk_slow: 0.7,
    World._disk_unreadable: 0.5,
    World._clock_jump: 1.0,
    World._drop_old: 1.0,
    World._garbage: 0.2,
}
"""What goes wrong, and how often in comparison."""
