"""Whatever a client does to its sockets, it hears each event of its sessions once and in order."""

import random
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest
from tests.server.browser import CLIENT, Browser, talk
from tests.server.fixtures import Socket, open_listener, open_socket

from agentvm.drivers.scripted import ScriptedDriver, reply
from agentvm.server.serving import Listener


class Wanderer:
    """Reads as much as it likes, acknowledges what it reads, and loses the rest with its socket."""

    def __init__(self, listener: Listener, sockets: AsyncExitStack, sessions: list[str]) -> None:
        self._listener = listener
        self._sockets = sockets
        self._sessions = sessions
        self._socket: Socket | None = None
        self._left: list[Socket] = []
        self.browser: Browser | None = None
        self.heard: dict[str, list[int]] = {session_id: [] for session_id in sessions}

    async def come(self) -> Browser:
        if self.browser is None:
            self._socket = await self._sockets.enter_async_context(open_socket(self._listener.app, client=CLIENT))
            self.browser = Browser(self._socket)
            for session_id in self._sessions:
                await self.browser.subscribe(session_id)
        return self.browser

    async def read(self, count: int) -> None:
        """So many of the frames that are there; which ones are is up to chance, as on any network."""
        browser = await self.come()
        await anyio.wait_all_tasks_blocked()
        for _ in range(count):
            if browser.socket.from_server.statistics().current_buffer_used:
                await browser.read()

    async def go(self, *, half_open: bool) -> None:
        if self.browser is None or self._socket is None:
            return
        # What it has acknowledged arrives; only then does the network fail.
        await anyio.wait_all_tasks_blocked()
        for event in self.browser.events:
            if "cursor" in event:
                self.heard[event["context"]["sessionId"]].append(int(event["cursor"]))
        if half_open:
            self._left.append(self._socket)
        else:
            await self._socket.leave()
            await anyio.wait_all_tasks_blocked()
        self.browser = self._socket = None

    async def end(self) -> None:
        for socket in self._left:
            await socket.leave()


async def images(browser: Browser) -> list[Any]:
    return [(await browser.ask("image_create", containerId="c1"))["record"] for _ in range(2)]


@pytest.mark.parametrize("seed", range(8))
async def test_a_client_hears_every_event_once_and_in_order_wherever_its_sockets_break(seed: int) -> None:
    chance = random.Random(seed)
    driver = ScriptedDriver(lambda prompt: reply("one ", "two ", "three "))
    with anyio.fail_after(60):
        async with open_listener(driver) as (_, listener), AsyncExitStack() as sockets:
            speaker = await sockets.enter_async_context(open_socket(listener.app))
            talker = Browser(speaker)
            made = await images(talker)
            wanderer = Wanderer(listener, sockets, [image["sessionId"] for image in made])
            # From here on it hears them: both sessions are empty.
            await (await wanderer.come()).settle()
            for _ in range(15):
                match chance.randrange(5):
                    case 0:
                        await talk(talker, chance.choice(made))
                    case 1:
                        await wanderer.go(half_open=chance.random() < 0.5)
                    case _:
                        await wanderer.read(chance.randrange(12))
            last = await wanderer.come()
            for image in made:
                await talk(talker, image)
            ends = {image["sessionId"]: ended(talker, image["sessionId"]) for image in made}
            while any(ended(last, session_id) != end for session_id, end in ends.items()):
                await last.read()
            await wanderer.go(half_open=False)
            await wanderer.end()
            await speaker.leave()
        assert wanderer.heard == {session_id: list(range(1, end + 1)) for session_id, end in ends.items()}


def ended(browser: Browser, session_id: str) -> int:
    """The last event heard of the session."""
    heard = (event for event in browser.events if event.get("context", {}).get("sessionId") == session_id)
    return max((int(event["cursor"]) for event in heard if "cursor" in event), default=0)
