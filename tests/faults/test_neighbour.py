"""F15, the fair part: one user who does a hundred times as much as another does not keep the other waiting.

Counted, not timed: how much of the noisy one's work is done while the quiet one waits. A fair server does about as much for
each of those who wait.
"""

import statistics
from pathlib import Path

import anyio
import anyio.abc
import pytest
from tests.faults.process import open_server
from tests.support.wire import Client19, client

pytestmark = pytest.mark.anyio

NOISY = 100
QUIET_TURNS = 5
REQUESTS = 4_000


class Noise:
    """One user whose sessions all talk without a pause."""

    def __init__(self, user: Client19) -> None:
        self._user = user
        self._images: list[str] = []
        self._news = anyio.Event()
        self._seen = 0
        self.turns = 0

    async def begin(self) -> None:
        for _ in range(NOISY):
            self._images.append((await self._user.image("noisy"))["imageId"])

    async def run(self) -> None:
        """Answers every end of a turn with the next message."""
        for image_id in self._images:
            await self._user.ask("message_send_request", imageId=image_id, content="say much")
        while True:
            await self._user.until(lambda: len(self._user.events) > self._seen)
            new, self._seen = self._user.events[self._seen :], len(self._user.events)
            for event in new:
                if event["type"] == "turn_response":
                    self.turns += 1
                    image_id = event["context"]["imageId"]
                    await self._user.ask("message_send_request", imageId=image_id, content="say much")
            self._news.set()
            self._news = anyio.Event()

    async def until(self, turns: int) -> None:
        while self.turns < turns:
            await self._news.wait()


async def test_f15_a_user_with_a_hundred_busy_sessions_does_not_keep_another_waiting(tmp_path: Path) -> None:
    with anyio.fail_after(55):
        async with open_server(tmp_path) as server, client(server.url) as loud, client(server.url) as quiet:
            image_id = (await quiet.image("quiet"))["imageId"]
            noise = Noise(loud)
            await noise.begin()
            meanwhile: list[int] = []
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(noise.run)
                await noise.until(NOISY)
                for _ in range(QUIET_TURNS):
                    before = noise.turns
                    assert (await quiet.say(image_id, "say little"))["data"]["outcome"] == "completed"
                    meanwhile.append(noise.turns - before)
                tasks.cancel_scope.cancel()
            # Each session of the noisy one was served at most once while the quiet one was.
            assert statistics.median(meanwhile) <= NOISY, meanwhile


async def test_f15_a_user_who_asks_without_waiting_for_answers_does_not_keep_another_waiting(tmp_path: Path) -> None:
    with anyio.fail_after(55):
        async with open_server(tmp_path) as server, client(server.url) as loud, client(server.url) as quiet:
            image_id = (await quiet.image("quiet"))["imageId"]
            noisy = (await loud.image("noisy"))["imageId"]
            for _ in range(REQUESTS):
                await loud.ask("image_get_request", imageId=noisy)
            assert (await quiet.request("image_get_request", imageId=image_id))["record"]
            # The quiet one asked after all that the noisy one did, and is answered before the last of it.
            assert loud.types.count("image_get_response") < REQUESTS
            await loud.until(lambda: len(loud.events) > REQUESTS)
