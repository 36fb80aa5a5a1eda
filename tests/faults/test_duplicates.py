"""F4: a message that is sent again, because its sender cannot know whether it arrived, is still one turn."""

import json
import random
import signal
from pathlib import Path
from typing import Any

import anyio
from tests.faults.invariants import check_events, check_messages
from tests.faults.process import Server, open_server, read_log, read_messages
from tests.support.wire import client
from websockets.asyncio.client import connect

MESSAGES = 60


class Sender:
    """Sends one message as often as chance says, in every way a client may come to send it again."""

    def __init__(self, server: Server, image_id: str, key: str, chance: random.Random) -> None:
        self._server, self._chance = server, chance
        self._ask = {"imageId": image_id, "content": f"say {key}", "clientMessageId": key, "requestId": key}
        self.turns: set[str] = set()
        """The turns that the server said the message began."""

    async def send_some(self) -> None:
        for _ in range(self._chance.randint(0, 3)):
            await self._chance.choice((self.send, self._send_twice_at_once, self._send_and_leave))()

    async def send(self) -> None:
        async with connect(self._server.url) as socket:
            await socket.send(self._frame())
            await self._hear(socket, 1)

    async def _send_twice_at_once(self) -> None:
        async with connect(self._server.url) as socket, connect(self._server.url) as other:
            await socket.send(self._frame())
            await other.send(self._frame())
            await self._hear(socket, 1)
            await self._hear(other, 1)

    async def _send_and_leave(self) -> None:
        """The network breaks before the answer arrives."""
        async with connect(self._server.url) as socket:
            await socket.send(self._frame())
            await anyio.sleep(self._chance.uniform(0, 0.01))
            socket.transport.abort()
            await socket.wait_closed()

    def _frame(self) -> str:
        return json.dumps({"type": "message_send_request", "data": self._ask})

    async def _hear(self, socket: Any, answers: int) -> None:
        with anyio.fail_after(60):
            while answers:
                frame = json.loads(await socket.recv())
                if frame.get("category") == "response":
                    answers -= 1
                    self.turns.add(frame["data"]["turnId"])


async def test_f4_a_message_sent_many_times_over_broken_connections_and_a_crash_is_one_turn_per_key(tmp_path: Path) -> None:
    chance = random.Random(4)
    with anyio.fail_after(200):
        async with open_server(tmp_path) as server:
            async with client(server.url) as alice:
                records = [await alice.image(f"u{number}") for number in range(4)]
            senders = [
                Sender(server, records[number % 4]["imageId"], f"key {number}", random.Random(chance.random()))
                for number in range(MESSAGES)
            ]
            # Round by round, so that more turns run at a time than one, and no inbox is full.
            for start in range(0, MESSAGES, 20):
                async with anyio.create_task_group() as tasks:
                    for sender in senders[start : start + 20]:
                        tasks.start_soon(sender.send_some)
            await server.end(signal.SIGKILL)
            await server.start()
            # What was never answered is sent again, as a client must; so is what was.
            for sender in senders:
                await sender.send()
                assert len(sender.turns) == 1
            for number, record in enumerate(records):
                events = await read_log(server.url, record["sessionId"])
                check_events(events)
                messages = await read_messages(server.url, record["sessionId"])
                check_messages(events, messages)
                asked = [message["content"] for message in messages if message["role"] == "user"]
                assert sorted(asked) == sorted(f"say key {key}" for key in range(number, MESSAGES, 4))
                begun = {event["data"]["turnId"] for event in events if event["type"] == "turn_request"}
                assert begun == set[str]().union(*(sender.turns for sender in senders[number::4]))
