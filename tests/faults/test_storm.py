"""F5: everybody's connection drops at once, and everybody comes back at once."""

import json
import os
import random
from pathlib import Path

import anyio
import anyio.abc
from tests.faults.invariants import Frame, check_events
from tests.faults.process import Server, open_server, read_log, rss
from tests.support.wire import client
from websockets.asyncio.client import ClientConnection, connect

CLIENTS = int(os.environ.get("AVM_FAULT_CLIENTS", "100"))
SESSIONS, TURNS = 15, 3
MOST_MEMORY = 64 * 1024 * 1024
"""What a storm may cost the server, in bytes: its clients' outboxes are bounded."""


class Listener:
    """Follows one session from a cursor on, connection after connection."""

    def __init__(self, server: Server, session_id: str, cursor: int) -> None:
        self._server, self.session_id = server, session_id
        self.first = self.cursor = cursor
        self.heard: list[Frame] = []

    async def listen(self, until: int, opened: anyio.Semaphore | None = None, drop: anyio.Event | None = None) -> None:
        """Connects and listens up to that cursor; then waits to be cut off, if it is to be."""
        async with connect(self._server.url, compression=None, open_timeout=60) as socket:
            subscribe = {"type": "subscribe", "sessionId": self.session_id, "afterCursor": str(self.cursor)}
            await socket.send(json.dumps(subscribe))
            while self.cursor < until:
                await self._hear(socket)
            if drop is not None and opened is not None:
                opened.release()
                await drop.wait()
                socket.transport.abort()
                await socket.wait_closed()

    async def _hear(self, socket: ClientConnection) -> None:
        frame = json.loads(await socket.recv())
        if "cursor" in frame:
            self.heard.append(frame)
            self.cursor = int(frame["cursor"])


async def talk(server: Server, container: str) -> str:
    """A session with a few turns; its id."""
    async with client(server.url) as alice:
        record = await alice.image(container)
        for number in range(TURNS):
            await alice.say(record["imageId"], f"say {number}")
        return str(record["sessionId"])


async def test_f5_in_a_reconnect_storm_everybody_gets_exactly_what_was_missed(tmp_path: Path) -> None:
    chance = random.Random(5)
    with anyio.fail_after(200):
        async with open_server(tmp_path) as server:
            logs: dict[str, list[Frame]] = {}
            for number in range(SESSIONS):
                session_id = await talk(server, f"u{number}")
                logs[session_id] = await read_log(server.url, session_id)
                check_events(logs[session_id])
            listeners: list[Listener] = []
            for number in range(CLIENTS):
                session_id = list(logs)[number % SESSIONS]
                listeners.append(Listener(server, session_id, chance.randrange(len(logs[session_id]))))
            before, most = rss(server.pid), 0
            async with anyio.create_task_group() as tasks:
                opened, drop = anyio.Semaphore(0), anyio.Event()
                for one in listeners:
                    # Each has heard a part of what it missed when its connection breaks.
                    head = len(logs[one.session_id])
                    tasks.start_soon(one.listen, chance.randint(one.cursor, head), opened, drop)
                for _ in listeners:
                    await opened.acquire()
                most = rss(server.pid)
                drop.set()
            async with anyio.create_task_group() as tasks:
                for one in listeners:
                    tasks.start_soon(one.listen, len(logs[one.session_id]))
            most = max(most, rss(server.pid))
            for one in listeners:
                told = [(frame["cursor"], frame["type"], frame["data"]) for frame in one.heard]
                missed = logs[one.session_id][one.first :]
                assert told == [(frame["cursor"], frame["type"], frame["data"]) for frame in missed]
            assert most - before < MOST_MEMORY
