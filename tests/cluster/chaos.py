"""Chaos — three real nodes, PostgreSQL and NATS, all of which die or freeze at random while people talk; then all is checked.

    python -m tests.cluster.chaos [--seeds 20] [--first 0] [--seconds 40] [--people 12]

People send messages to any node, again and again under the same key until one has acknowledged them, sometimes to two nodes at
once, and stop some of the turns. Each session is followed by two readers, who go to another node at random with the cursor that
they have. At the end everything is mended, and the whole history is checked: see `tests.cluster.chaos_checks`.
"""

import argparse
import json
import random
import shutil
import signal
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
from tests.cluster.chaos_checks import LEDGER, check_calls, check_session, read_notes
from tests.cluster.chaos_node import LEASE_SECONDS
from tests.cluster.chaos_servers import Infrastructure, is_quiet, query, read_heads
from tests.faults.invariants import Frame
from tests.faults.process import Server, open_server, read_log, read_messages, until
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

NODES = ("a", "b", "c")
PROGRAM = "tests.cluster.chaos_node"
PATIENCE_SECONDS = 180.0
"""Whatever was acknowledged has an end after so long without faults."""
OPEN_MAX = 3
"""Messages of a person that wait for their turns."""
HOP_SECONDS = 8.0
READERS = 2
LOST = (OSError, httpx2.HTTPError, WebSocketException, TimeoutError, EOFError)


@dataclass
class Sent:
    """A message, and what was acknowledged of it."""

    text: str
    turn_ids: set[str] = field(default_factory=set)
    is_stopped: bool = False


@dataclass
class Person:
    """Talks in one session."""

    name: str
    session_id: str = ""
    sent: list[Sent] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    begun: anyio.Event = field(default_factory=anyio.Event)
    changed: anyio.Event = field(default_factory=anyio.Event)
    readers: list[list[Frame]] = field(default_factory=list)

    @property
    def open(self) -> int:
        return sum(not each.turn_ids <= self.ended for each in self.sent)

    def note_end(self, turn_id: str) -> None:
        self.ended.add(turn_id)
        self.changed.set()
        self.changed = anyio.Event()


class Chaos:
    """One run."""

    def __init__(self, seed: int, infrastructure: Infrastructure, servers: list[Server], people: int) -> None:
        self.dice = random.Random(seed)
        self.infrastructure, self.servers = infrastructure, servers
        self.people = [Person(f"p{number}") for number in range(people)]
        self.counts: Counter[str] = Counter()
        self.violations: list[str] = []
        self.is_over = False
        """Whether nobody says anything new."""
        self.up = set(range(len(servers)))
        """The nodes that run, by their places."""
        self._suffering: set[object] = set()
        """What is under a fault already."""

    # People.

    async def talk(self, person: Person) -> None:
        while not self.is_over:
            await anyio.sleep(self.dice.uniform(0, 0.6))
            if person.open >= OPEN_MAX:
                with anyio.move_on_after(1):
                    await person.changed.wait()
                continue
            kind = self.dice.choice(("say", "say", "note"))
            said = Sent(f"{kind} {person.name} {len(person.sent)}")
            person.sent.append(said)
            twice = bool(person.session_id) and self.dice.random() < 0.15
            async with anyio.create_task_group() as tasks:
                for _ in range(2 if twice else 1):
                    tasks.start_soon(self._send, person, said)
            if self.dice.random() < 0.15:
                said.is_stopped = True
                await anyio.sleep(self.dice.uniform(0, 0.5))
                await self._retry(partial(self._stop, person, said), tries=5)

    async def _send(self, person: Person, said: Sent) -> None:
        body = {"content": said.text, "agent": "writer", "wait": False, "clientMessageId": said.text}
        body |= {"sessionId": person.session_id} if person.session_id else {"thread": person.name}
        if person.session_id:
            del body["agent"]

        async def post(server: Server) -> dict[str, Any]:
            async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{server.port}", timeout=20) as client:
                answer = await client.post("/v1/messages", json=body)
                if answer.status_code >= 500 or answer.status_code in (409, 429):
                    raise TimeoutError(answer.text)
                if answer.status_code != 200:
                    self.violations.append(f"{said.text} was answered with {answer.status_code}: {answer.text}")
                    raise TimeoutError(answer.text)
                told: dict[str, Any] = answer.json()
                return told

        told = await self._retry(post)
        if told is None:
            return
        said.turn_ids.add(told["turnId"])
        if not person.session_id:
            person.session_id = told["sessionId"]
            person.begun.set()

    async def _stop(self, person: Person, said: Sent, server: Server) -> None:
        async with connect(server.url, open_timeout=5) as socket:
            for turn_id in said.turn_ids:
                data = {"requestId": "stop", "sessionId": person.session_id, "turnId": turn_id}
                await socket.send(json.dumps({"type": "agent_interrupt_request", "data": data}))
                with anyio.fail_after(20):
                    while json.loads(await socket.recv()).get("type") != "agent_interrupt_response":
                        pass

    async def _retry(self, ask: Callable[[Server], Awaitable[Any]], tries: int = 1_000) -> Any:
        for _ in range(tries):
            try:
                return await ask(self.dice.choice(self.servers))
            except LOST as error:
                self.counts["tried again"] += 1
                self.counts[f"tried again: {type(error).__name__}"] += 1
                await anyio.sleep(self.dice.uniform(0.05, 0.5))
        return None

    async def read(self, person: Person, heard: list[Frame]) -> None:
        """Follows the session, wherever, until cancelled."""
        await person.begun.wait()
        while True:
            server = self.dice.choice(self.servers)
            try:
                with anyio.move_on_after(self.dice.uniform(0.5, HOP_SECONDS)):
                    async with connect(server.url, max_size=None, open_timeout=5) as socket:
                        after = heard[-1]["cursor"] if heard else "0"
                        asking = {"type": "subscribe", "sessionId": person.session_id, "afterCursor": after}
                        await socket.send(json.dumps(asking))
                        async for text in socket:
                            self._hear(person, heard, json.loads(text), server)
            except LOST:
                self.counts["readers lost"] += 1
                await anyio.sleep(self.dice.uniform(0.02, 0.3))

    def _hear(self, person: Person, heard: list[Frame], frame: Frame, server: Server) -> None:
        if frame.get("type") == "resync_required":
            self.violations.append(f"{person.name} was told to begin anew after {heard[-1:]}: {frame}")
        if "cursor" not in frame or frame["context"].get("sessionId") != person.session_id:
            return
        last = int(heard[-1]["cursor"]) if heard else 0
        if int(frame["cursor"]) != last + 1:
            self.violations.append(f"{person.name} heard {frame['cursor']} after {last} on {server.port}: {frame['type']}")
            return
        heard.append(frame)
        self.counts["events heard"] += 1
        if frame["type"] == "turn_response":
            person.note_end(frame["data"]["turnId"])

    # What goes wrong.

    async def go_wrong(self, seconds: float) -> None:
        """One fault after the other, some at the same time; returns when the last one is over."""
        until = anyio.current_time() + seconds
        async with anyio.create_task_group() as tasks:
            while anyio.current_time() < until:
                await anyio.sleep(self.dice.uniform(1.0, 4.0))
                tasks.start_soon(self.dice.choices([*FAULTS], [*FAULTS.values()])[0], self)

    async def keep_running(self, place: int) -> None:
        """A supervisor: starts a node again that has ended, whatever has ended it."""
        server = self.servers[place]
        while True:
            await server.died()
            self.up.discard(place)
            await anyio.sleep(self.dice.uniform(0.2, 2.0))
            while place not in self.up:
                try:
                    await server.start()
                    self.up.add(place)
                except (OSError, ValueError, anyio.EndOfStream, anyio.IncompleteRead):
                    # Without a database a node does not start.
                    await server.stop()
                    self.counts["failed starts"] += 1
                    await anyio.sleep(0.5)

    @contextmanager
    def _suffers(self, what: object, fault: str) -> Iterator[bool]:
        """Whether it suffers nothing else: then it is under this fault now."""
        is_first = what not in self._suffering
        if is_first:
            self.counts[fault] += 1
            self._suffering.add(what)
        try:
            yield is_first
        finally:
            if is_first:
                self._suffering.discard(what)

    def _signal(self, place: int, number: signal.Signals) -> None:
        if place in self.up:
            with suppress(ProcessLookupError):
                self.servers[place].send(number)

    async def _kill(self) -> None:
        place = self.dice.choice([*self.up] or [0])
        with self._suffers(place, "kill") as is_first:
            if is_first:
                self._signal(place, signal.SIGKILL)
                await anyio.sleep(0.5)

    async def _stop_node(self) -> None:
        place = self.dice.choice([*self.up] or [0])
        with self._suffers(place, "stop") as is_first:
            if is_first:
                self._signal(place, signal.SIGTERM)
                await anyio.sleep(0.5)

    async def _freeze(self) -> None:
        """For less than a lease, or for so long that it is declared dead."""
        place = self.dice.choice([*self.up] or [0])
        with self._suffers(place, "freeze") as is_first:
            if is_first:
                self._signal(place, signal.SIGSTOP)
                await anyio.sleep(self.dice.choice((0.5, 2 * LEASE_SECONDS)))
                self._signal(place, signal.SIGCONT)

    async def _lose_bus(self) -> None:
        with self._suffers("bus", "bus lost") as is_first:
            if is_first:
                await anyio.to_thread.run_sync(self.infrastructure.stop_bus)
                await anyio.sleep(self.dice.uniform(0.5, 4.0))
                await anyio.to_thread.run_sync(self.infrastructure.start_bus)

    async def _freeze_bus(self) -> None:
        with self._suffers("bus", "bus frozen") as is_first:
            if is_first:
                self.infrastructure.nats.process.send_signal(signal.SIGSTOP)
                await anyio.sleep(self.dice.uniform(0.5, 4.0))
                self.infrastructure.nats.process.send_signal(signal.SIGCONT)

    async def _crash_database(self) -> None:
        with self._suffers("database", "database crashed") as is_first:
            if is_first:
                await anyio.to_thread.run_sync(self.infrastructure.crash_database)
                await anyio.sleep(self.dice.choice((0.0, 1.0, 5.0)))
                await anyio.to_thread.run_sync(self.infrastructure.start_database)

    # The end.

    async def rest(self) -> None:
        """Returns when every node runs, every turn has ended, nothing of the dead is left, and all readers have heard."""
        with anyio.fail_after(PATIENCE_SECONDS):
            await until(self._is_over, pause=0.2)

    def _is_over(self) -> bool:
        if len(self.up) < len(self.servers) or not is_quiet(self.infrastructure.url):
            return False
        heads = read_heads(self.infrastructure.url)
        return all(
            heard and int(heard[-1]["cursor"]) >= heads[person.session_id]
            for person in self.people
            for heard in person.readers
            if person.session_id
        )

    async def run(self, seconds: float) -> None:
        """Everything, up to the moment when it can be checked."""
        async with anyio.create_task_group() as tasks:
            for place in range(len(self.servers)):
                tasks.start_soon(self.keep_running, place)
            for person in self.people:
                for _ in range(READERS):
                    person.readers.append([])
                    tasks.start_soon(self.read, person, person.readers[-1])
            async with anyio.create_task_group() as talking:
                for person in self.people:
                    talking.start_soon(self.talk, person)
                await self.go_wrong(seconds)
                self.is_over = True
            await self.rest()
            tasks.cancel_scope.cancel()


FAULTS: dict[Callable[[Chaos], Coroutine[Any, Any, None]], float] = {
    Chaos._kill: 3.0,
    Chaos._stop_node: 1.5,
    Chaos._freeze: 2.5,
    Chaos._lose_bus: 1.0,
    Chaos._freeze_bus: 1.0,
    Chaos._crash_database: 1.5,
}


async def read_history(chaos: Chaos, person: Person, folder: Path) -> tuple[list[list[Frame]], list[Frame]]:
    """The log of a session as each node tells it, and its messages; also as a file, for whoever looks for a fault."""
    logs = [await read_log(server.url, person.session_id) for server in chaos.servers]
    messages = await read_messages(chaos.servers[0].url, person.session_id)
    (folder / f"{person.name}.json").write_text(json.dumps([logs, messages, person.readers], indent=1))
    return logs, messages


async def check(chaos: Chaos, notes: Path) -> None:
    """Raises AssertionError with what is wrong."""
    texts: dict[str, str] = {}
    histories = [await read_history(chaos, person, notes.parent) for person in chaos.people]
    assert not chaos.violations, "\n".join(chaos.violations)
    for person, (logs, messages) in zip(chaos.people, histories, strict=True):
        check_session(person.sent, logs, messages, person.readers)
        texts |= {turn_id: each.text for each in person.sent for turn_id in each.turn_ids}
        chaos.counts["turns"] += len(person.sent)
        kinds = Counter(event["type"] for event in logs[0])
        chaos.counts["turns resumed"] += kinds["turn_resumed"]
        chaos.counts["turns stopped"] += kinds["interrupted"]
    check_calls(read_notes(notes), query(chaos.infrastructure.url, LEDGER), texts)


async def run_seed(seed: int, seconds: float, people: int) -> Counter[str]:
    """Runs one, and checks it; returns what has happened in it."""
    with ExitStack() as stack:
        infrastructure = Infrastructure(stack)
        folder = Path(tempfile.mkdtemp(prefix="avm-chaos-"))
        (folder / "notes").mkdir()
        async with AsyncExitStack() as servers:
            bus, notes = infrastructure.nats.url, str(folder / "notes")
            opened = [
                await servers.enter_async_context(open_server(folder / name, PROGRAM, infrastructure.url, name, bus, notes))
                for name in NODES
            ]
            chaos = Chaos(seed, infrastructure, opened, people)
            await chaos.run(seconds)
            try:
                await check(chaos, folder / "notes")
            except BaseException:
                sys.stdout.write(f"What the nodes have logged, and what was heard, is in {folder}\n")
                raise
        shutil.rmtree(folder)
        return chaos.counts


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.chaos", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=40.0, help="how long things go wrong")
    parser.add_argument("--people", type=int, default=12)
    chosen = parser.parse_args(arguments)
    total: Counter[str] = Counter()
    broken = 0
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        try:
            counts = anyio.run(run_seed, seed, chosen.seconds, chosen.people)
        except Exception:  # noqa: BLE001  # the other seeds are tried as well
            broken += 1
            sys.stdout.write(f"seed {seed} BROKEN\n{traceback.format_exc()}\n")
            continue
        total += counts
        sys.stdout.write(f"seed {seed}: {say(counts)}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{chosen.seeds} seeds, {broken} broken; {say(total)}\n")
    return 1 if broken else 0


def say(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
