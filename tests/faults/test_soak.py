"""F19, short: people come, talk, and leave, again and again. Once it is warm, the server needs no more than before."""

import asyncio
import gc
import os
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import anyio.abc
from tests.faults.process import OPENED_LATE, open_files, rss, until
from tests.support.wire import client

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import SystemSettings
from agentvm.drivers.base import ModelOutput, Prompt, UserEntry
from agentvm.drivers.scripted import ScriptStep, last_user_text, reply, tool_calls

USERS = 20
WARM = 3
ROUNDS = int(os.environ.get("AVM_FAULT_ROUNDS", "12"))
"""In each, every user connects, says something, and leaves."""
MOST_GROWTH = 16 * 1024 * 1024
"""The page caches of three connections to the database fill while the file grows, up to 2 MB each."""


class Forgetful(ScriptedDriver):
    """Does not remember its prompts: that would be a leak of the test's own."""

    async def run(self, prompt: Prompt) -> AsyncGenerator[ModelOutput, None]:
        async for output in super().run(prompt):
            yield output
        self.prompts.clear()


def script(prompt: Prompt) -> list[ScriptStep]:
    if last_user_text(prompt) == "tool" and isinstance(prompt.conversation[-1], UserEntry):
        return tool_calls(("call_1", "calculator", {"expression": "6*7"}))
    return reply(*(f"{number} " for number in range(30)))


class Visits:
    """The users, each with a session of its own."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._images: list[str] = []

    async def begin(self) -> None:
        async with client(self._url) as host:
            self._images = [(await host.image(f"u{number}"))["imageId"] for number in range(USERS)]

    async def round(self, number: int) -> None:
        async with anyio.create_task_group() as tasks:
            for user, image_id in enumerate(self._images):
                tasks.start_soon(self._visit, image_id, user + number)

    async def _visit(self, image_id: str, number: int) -> None:
        async with client(self._url) as guest:
            if number % 5 == 0:
                await guest.request("image_get_request", imageId="nope")
            sent = await guest.request("message_send_request", imageId=image_id, content="tool" if number % 3 else "say")
            if number % 4 == 0:
                # Leaves without a goodbye, in the middle of the answer.
                guest.socket.transport.abort()
                await guest.wait_closed()
                return
            await guest.end_of(sent["turnId"])


def memory() -> int:
    gc.collect()
    return rss(os.getpid())


async def test_f19_after_a_few_hundred_visits_files_tasks_and_memory_are_what_they_were(tmp_path: Path) -> None:
    config = ServerConfig(system=SystemSettings(port=0, data_dir=str(tmp_path), shutdown_seconds=0))
    with anyio.fail_after(max(200, ROUNDS * 5)):
        async with start_server(config, drivers={"scripted": Forgetful(script, window=4_000)}) as server:
            visits, at_rest = Visits(server.ws_url), len(asyncio.all_tasks())
            await visits.begin()
            for number in range(WARM):
                await visits.round(number)
            await until(lambda: len(asyncio.all_tasks()) < at_rest + USERS)
            tasks, files, before = len(asyncio.all_tasks()), open_files(os.getpid()), memory()
            for number in range(ROUNDS):
                await visits.round(number)
            with anyio.fail_after(60):
                await until(lambda: len(asyncio.all_tasks()) <= tasks and open_files(os.getpid()) <= files + OPENED_LATE)
            assert memory() - before < MOST_GROWTH
