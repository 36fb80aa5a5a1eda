"""Timelines — what docs/protocol.md says a client sees is what it sees."""

import json
from collections.abc import Iterable

import anyio
import pytest
from tests.docs.documents import blocks, read
from websockets.asyncio.client import ClientConnection, connect

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import MEMORY, SessionSettings, SystemSettings
from agentvm.drivers.base import MessageStarted, Prompt, TextChunk, TextStarted, UserEntry
from agentvm.drivers.scripted import Pause, ScriptStep, echo, last_user_text, reply, tool_calls
from agentvm.errors import ProviderOverloaded

TIMELINES = {block.mark: block.text for block in blocks(read("docs/protocol.md"), "text") if block.mark}


def talk(prompt: Prompt) -> Iterable[ScriptStep]:
    begun: list[ScriptStep] = [MessageStarted("", "scripted"), TextStarted(), TextChunk("one, two")]
    match last_user_text(prompt):
        case "tool":
            if isinstance(prompt.conversation[-1], UserEntry):
                return tool_calls(("call_1", "calculator", {"expression": "6 * 7"}), text="Let me see.")
            return reply("It is 42.")
        case "interrupted":
            return [*begun, Pause(anyio.Event())]
        case "failed":
            return [*begun, ProviderOverloaded("The model is overloaded; try again later")]
        case _:
            return echo(prompt)


class Watcher:
    """A client that writes down what it sends and gets, as the page does."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.seen: list[str] = []
        self.image_id = ""

    async def send(self, kind: str, **data: object) -> None:
        self.seen.append(f"→ {kind}")
        await self.socket.send(json.dumps({"type": kind, "data": {"requestId": "r", **data}}))

    async def wait(self, kind: str) -> dict[str, object]:
        while True:
            event = json.loads(await self.socket.recv())
            if "__msgId" in event:
                continue
            self.seen.append(f"← {event['type']}")
            if event["type"] == kind:
                data: dict[str, object] = event["data"]
                return data

    async def say(self, content: str) -> None:
        await self.send("message_send_request", imageId=self.image_id, content=content)


async def create_image(watcher: Watcher, *, warm: bool) -> None:
    await watcher.send("image_create_request", containerId="user-alice")
    record = (await watcher.wait("image_create_response"))["record"]
    assert isinstance(record, dict)
    watcher.image_id = record["imageId"]
    if warm:
        await watcher.send("image_run_request", imageId=watcher.image_id)
        await watcher.wait("image_run_response")
    watcher.seen.clear()


async def play(watcher: Watcher, timeline: str) -> None:
    await watcher.say("Hello there" if timeline == "plain" else timeline)
    if timeline == "interrupted":
        await watcher.wait("conversation_responding")
        await watcher.say("Hi")
        await watcher.wait("message_send_response")
        await watcher.send("agent_interrupt_request", imageId=watcher.image_id)
        await watcher.wait("turn_response")
    await watcher.wait("turn_response")


@pytest.mark.parametrize("timeline", ["plain", "tool", "interrupted", "failed"])
async def test_a_client_sees_the_timeline_of_the_page(timeline: str) -> None:
    config = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY), sessions=SessionSettings(titles="off"))
    with anyio.fail_after(60):
        async with start_server(config, drivers={"scripted": ScriptedDriver(talk)}) as server, connect(server.ws_url) as socket:
            watcher = Watcher(socket)
            await create_image(watcher, warm=timeline != "plain")
            await play(watcher, timeline)
    assert watcher.seen == TIMELINES[f"timeline: {timeline}"].splitlines()


def test_every_timeline_is_played() -> None:
    assert set(TIMELINES) == {f"timeline: {name}" for name in ("plain", "tool", "interrupted", "failed")}
