"""F12: frames that no client should send. The server lives, spends little, and answers or closes with a code."""

import os
from collections import Counter
from pathlib import Path

import anyio
import anyio.abc
from tests.faults.frames import Fuzz, frame
from tests.faults.process import OPENED_LATE, open_files, open_server, rss, until
from tests.support.hostile import RawSocket
from tests.support.wire import client

FRAMES = int(os.environ.get("AVM_FAULT_FRAMES", "5000"))
ATTACKERS = 8
BURST = 100
MOST_MEMORY = 96 * 1024 * 1024
DONE = frame(b'{"type":"container_list_request","data":{"requestId":"done"}}')
NO_CODE = 0


class Attacker:
    """Connects, sends a burst of frames, sees how it ends, and does it again."""

    def __init__(self, port: int, fuzz: Fuzz, frames: int) -> None:
        self._port, self._fuzz, self._left = port, fuzz, frames
        self.codes: Counter[int] = Counter()
        self.wrong: list[str] = []

    async def attack(self) -> None:
        while self._left > 0:
            count = self._fuzz.between(1, BURST)
            self._left -= count
            burst = b"".join(self._fuzz.bearable() for _ in range(count))
            end = DONE if self._fuzz.chance(0.5) else None
            fatal, expected = self._fuzz.fatal()
            async with RawSocket.open(self._port) as socket, anyio.create_task_group() as tasks:
                tasks.start_soon(self._send, socket, burst + (end or fatal))
                if end is not None:
                    # It bore all of them.
                    await socket.received(b'"requestId":"done"')
                    continue
                code = await socket.closed() or NO_CODE
                self.codes[code] += 1
                if code not in expected:
                    self.wrong.append(f"{fatal[:20]!r} was answered with {code}, not {expected}")

    async def _send(self, socket: RawSocket, data: bytes) -> None:
        await socket.send_bytes(data, patient=False)


async def talk(url: str, outcomes: list[str], done: anyio.Event) -> None:
    """Somebody else, who notices nothing of it. Begins anew now and then: a long history is not what is tried here."""
    while not done.is_set():
        async with client(url) as alice:
            image_id = (await alice.image("alice"))["imageId"]
            for _ in range(10):
                outcomes.append((await alice.say(image_id, "say it"))["data"]["outcome"])


async def test_f12_malformed_frames_crash_nothing_and_are_answered_or_closed_with_a_code(tmp_path: Path) -> None:
    with anyio.fail_after(max(200, FRAMES / 500)):
        async with open_server(tmp_path) as server, client(server.url) as alice:
            # The attackers have a container of their own: what they may do there is theirs.
            theirs = await alice.image("c1")
            await alice.say(theirs["imageId"], "say it")
            pid, before, files = server.pid, rss(server.pid), open_files(server.pid)
            attackers = [
                Attacker(server.port, Fuzz(seed, theirs["sessionId"], theirs["imageId"]), FRAMES // ATTACKERS)
                for seed in range(ATTACKERS)
            ]
            outcomes, done = list[str](), anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(talk, server.url, outcomes, done)
                async with anyio.create_task_group() as attacks:
                    for attacker in attackers:
                        attacks.start_soon(attacker.attack)
                done.set()
            assert [problem for attacker in attackers for problem in attacker.wrong] == []
            assert sum((attacker.codes for attacker in attackers), Counter()).keys() >= {1000, 1002, 1007, 1009}
            assert len(outcomes) > 0
            assert set(outcomes) == {"completed"}
            assert server.pid == pid
            assert rss(pid) - before < MOST_MEMORY
            with anyio.fail_after(60):
                await until(lambda: open_files(pid) <= files + OPENED_LATE)
            await alice.settle()


async def test_f12_a_frame_nested_a_million_deep_is_refused(tmp_path: Path) -> None:
    async with open_server(tmp_path) as server, client(server.url) as alice:
        before = rss(server.pid)
        for opening, closing in (("[", "]"), ('{"a":', "}"), ('{"type":"image_get_request","data":', "}")):
            mark = alice.types.count("system_error")
            await alice.socket.send(opening * 1_000_000 + "1" + closing * 1_000_000)
            await alice.wait("system_error", mark + 1)
        await alice.settle()
        assert rss(server.pid) - before < MOST_MEMORY
