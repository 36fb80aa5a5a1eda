"""A 1.9 client without a network, and what the model tells it."""

import json
from typing import Any

import anyio
from tests.server.fixtures import Socket

from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import Pause, ScriptedDriver, ScriptStep, reply

CLIENT = "client-0001"


class Browser:
    """One socket of a 1.9 client: acknowledges what it reads, unless it is `deaf`."""

    def __init__(self, socket: Socket) -> None:
        self.socket = socket
        self.wrapped: list[bool] = []
        self.events: list[Any] = []

    async def read(self, *, deaf: bool = False) -> Any:
        """The next event; the frame that accepts the socket is none."""
        with anyio.fail_after(60):
            message = await self.socket.from_server.receive()
            while message["type"] == "websocket.accept":
                message = await self.socket.from_server.receive()
        if message["type"] != "websocket.send":
            return message
        event = json.loads(message["text"])
        self.wrapped.append("__payload" in event)
        if "__payload" in event:
            if not deaf:
                await self.socket.send({"__ack": event["__msgId"]})
            event = json.loads(event["__payload"])
        self.events.append(event)
        return event

    async def until(self, kind: str) -> Any:
        while (event := await self.read())["type"] != kind:
            pass
        return event

    async def ask(self, command: str, /, **data: object) -> Any:
        await self.socket.send({"type": f"{command}_request", "data": {**data, "requestId": "req_1"}})
        return (await self.until(f"{command}_response"))["data"]

    async def settle(self) -> None:
        """Everything it has sent was read and done; what is replayed may follow the first reply, but not the second."""
        await self.ask("container_list")
        await self.ask("container_list")

    async def subscribe(self, session_id: str, **more: str) -> None:
        await self.socket.send({"type": "subscribe", "sessionId": session_id, **more})

    @property
    def seqs(self) -> list[int]:
        return [int(event["cursor"]) for event in self.events if "cursor" in event]


def words(prompt: Prompt) -> list[ScriptStep]:
    return reply("one ", "two ", "three ")


def paused_at(gate: anyio.Event) -> ScriptedDriver:
    return ScriptedDriver(lambda prompt: [*reply("one ")[:3], Pause(gate), *reply("two ")[2:]])


async def talk(browser: Browser, image: Any) -> None:
    await browser.ask("message_send", imageId=image["imageId"], content="Hi")
    await browser.until("turn_response")
