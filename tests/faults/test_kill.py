"""F1 and graceful restarts: a real process, a real socket, a real file; the server dies in the middle of turns."""

import os
import random
import signal
from pathlib import Path

import anyio
import msgspec
import pytest
from tests.faults.invariants import Frame, check_events, check_messages, check_same, check_texts
from tests.faults.process import Server, open_server, read_log, read_messages
from tests.faults.server import text_of

from agentvm import AgentX, WireEvent, create_agentx, remote_runtime
from agentvm.client import remote
from agentvm.errors import ChannelClosed

SESSIONS = 15
TURNS = int(os.environ.get("AVM_FAULT_TURNS", "300")) // SESSIONS
"""Of each session."""
BETWEEN_KILLS = (100 * SESSIONS, 200 * SESSIONS)
"""Events. Most turns that were hit can end in that time: one that its server did not survive four times is given up."""


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "FIRST_DELAY_SECONDS", 0.02)
    monkeypatch.setattr(remote, "DELAY_SECONDS_MAX", 0.1)


class User:
    """Talks in one session until it was answered often enough, whatever happens to the server."""

    def __init__(self, agentx: AgentX, name: str) -> None:
        self.agentx, self.name = agentx, name
        self.session_id = self.image_id = ""
        self.acknowledged: dict[str, str] = {}
        self.heard: list[WireEvent] = []
        self._ended: dict[str, anyio.Event] = {}

    async def begin(self) -> None:
        record = await self.agentx.images.create(container_id=self.name)
        self.session_id, self.image_id = str(record.session_id), record.image_id
        self.agentx.runtime.on("*", self.listen)

    def listen(self, event: WireEvent) -> None:
        if event.context.get("sessionId") == self.session_id:
            self.heard.append(event)
            if event.type == "turn_response":
                self._ended.setdefault(str(event.context["turnId"]), anyio.Event()).set()

    async def talk(self) -> None:
        number = 0
        while len(self.acknowledged) < TURNS:
            text = f"{'tool' if number % 2 else 'say'} {self.name} {number}"
            try:
                agent = await self.agentx.images.run(self.image_id)
                sent = await agent.receive(text)
            except ChannelClosed:
                # Whether it was taken is unknown: the next try is another message.
                number += 1
                await reconnected(self.agentx)
                continue
            number += 1
            assert sent.turn_id is not None
            self.acknowledged[sent.turn_id] = text
            await self._ended.setdefault(sent.turn_id, anyio.Event()).wait()


def of_turn(events: list[Frame], turn_id: str) -> list[Frame]:
    return [event for event in events if event["context"].get("turnId") == turn_id]


async def reconnected(agentx: AgentX) -> None:
    """Returns at the next connection; soon in any case, because it may have been made already."""
    connected = anyio.Event()
    forget = agentx.runtime.on("connected", lambda _: connected.set())
    with anyio.move_on_after(0.5):
        await connected.wait()
    forget()


class Killer:
    """Kills and restarts the server after every so many events, wherever in a turn that is."""

    def __init__(self, server: Server, agentx: AgentX) -> None:
        self._server = server
        self._chance = random.Random(7)
        self._left = 0
        self._enough = anyio.Event()
        self._done = False
        self.kills = 0
        agentx.runtime.on("*", self._listen)

    async def run(self) -> None:
        while True:
            self._left, self._enough = self._chance.randint(*BETWEEN_KILLS), anyio.Event()
            await self._enough.wait()
            if self._done:
                return
            await self._server.end(signal.SIGKILL)
            await self._server.start()
            self.kills += 1

    def finish(self) -> None:
        self._done = True
        self._enough.set()

    def _listen(self, event: WireEvent) -> None:
        self._left -= 1
        if self._left <= 0:
            self._enough.set()


async def test_f1_a_server_that_is_killed_over_and_over_loses_nothing(tmp_path: Path) -> None:
    with anyio.fail_after(max(200, SESSIONS * TURNS / 10)):
        async with open_server(tmp_path) as server, create_agentx(remote_runtime(server.url, timeout=60)) as agentx:
            users = [User(agentx, f"u{number}") for number in range(SESSIONS)]
            for user in users:
                await user.begin()
            killer = Killer(server, agentx)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(killer.run)
                async with anyio.create_task_group() as talking:
                    for user in users:
                        talking.start_soon(user.talk)
                killer.finish()
            resumed = 0
            for user in users:
                events = await read_log(server.url, user.session_id)
                messages = await read_messages(server.url, user.session_id)
                check_events(events)
                check_texts(events)
                check_messages(events, messages)
                heard = [msgspec.to_builtins(event) for event in user.heard if event.cursor is not None]
                check_same(heard, events)
                # The client heard every event once, in order, though its socket broke again and again.
                cursors = [int(event["cursor"]) for event in heard]
                assert cursors == list(range(cursors[0], cursors[0] + len(cursors)))
                resumed += sum(event["type"] == "turn_resumed" for event in events)
                for turn_id, text in user.acknowledged.items():
                    own = [message for message in messages if message.get("turnId") == turn_id]
                    assert [message["content"] for message in own if message["role"] == "user"] == [text]
                    assert own[-1]["role"] == "assistant", own[-1]
                    assert own[-1]["content"][-1]["text"] == text_of(text)
                    (end,) = [event for event in of_turn(events, turn_id) if event["type"] == "turn_response"]
                    assert end["data"]["outcome"] == "completed"
            assert resumed > killer.kills > 2


@pytest.mark.parametrize("word", ["say", "tool"])
async def test_a_graceful_restart_in_the_middle_of_a_turn_is_seen_by_nobody(tmp_path: Path, word: str) -> None:
    with anyio.fail_after(200):
        async with open_server(tmp_path) as server, create_agentx(remote_runtime(server.url)) as agentx:
            record = await agentx.images.create()
            agent = await agentx.images.run(record.image_id)
            heard: list[WireEvent] = []
            restarted = False
            async for event in agent.stream(f"{word} it until restarted"):
                heard.append(event)
                if event.type == "text_delta" and not restarted:
                    restarted = True
                    assert await server.end(signal.SIGTERM) == 0
                    await server.start()
            cursors = [int(event.cursor or 0) for event in heard]
            assert cursors == list(range(cursors[0], cursors[0] + len(cursors)))
            assert (heard[-1].type, heard[-1].data["outcome"]) == ("turn_response", "completed")
            assert [event.type for event in heard].count("turn_resumed") == 1
            events = await read_log(server.url, str(record.session_id))
            check_events(events)
            check_texts(events)
            check_messages(events, await read_messages(server.url, str(record.session_id)))


async def test_a_graceful_restart_lets_turns_finish_that_can(tmp_path: Path) -> None:
    with anyio.fail_after(200):
        async with open_server(tmp_path) as server, create_agentx(remote_runtime(server.url)) as agentx:
            await server.end(signal.SIGTERM)
            await server.start(grace=10)
            record = None
            while record is None:
                try:
                    record = await agentx.images.create()
                except ChannelClosed:
                    await reconnected(agentx)
            agent = await agentx.images.run(record.image_id)
            kinds: list[str] = []
            async with anyio.create_task_group() as tasks:
                async for event in agent.stream("say it"):
                    kinds.append(event.type)
                    if kinds.count("text_delta") == 1 and event.type == "text_delta":
                        tasks.start_soon(server.end, signal.SIGTERM)
            assert kinds[-1] == "turn_response"
            assert "turn_resumed" not in kinds
