"""A client of a node, within its process: sends commands and reads frames."""

import json
from typing import Any

import anyio

from agentvm.model.image import ImageConfig
from agentvm.operations.context import context_of
from agentvm.operations.dispatch import execute
from agentvm.operations.image_build import ImageCreate
from agentvm.operations.message import MessageSend, MessageSendReply
from agentvm.protocol.requests import R_co, Request
from agentvm.vm import AgentVM

WAIT = 60.0


class Talker:
    """One peer of a node."""

    def __init__(self, vm: AgentVM) -> None:
        self.vm = vm
        self.peer = vm.attach()
        self._outbox = self.peer.outbox()
        self.heard: list[dict[str, Any]] = []

    async def ask(self, request: Request[R_co]) -> R_co:
        with anyio.fail_after(WAIT), context_of(self.peer) as context:
            reply = await execute(context, request)
            context.finish()
            return reply

    async def create(self, *tools: str) -> tuple[str, str]:
        """The image and the session of a new conversation with these tools."""
        record = (await self.ask(ImageCreate(container_id="home", config=ImageConfig(tools=tools or None)))).record
        return str(record.image_id), str(record.session_id)

    async def send(self, image_id: str, text: str, **more: Any) -> MessageSendReply:
        return await self.ask(MessageSend(image_id=image_id, content=text, **more))  # type: ignore[arg-type]

    def listen(self, session_id: str, after: int | None = None) -> None:
        self.peer.listen("home", session_id, after)  # type: ignore[arg-type]

    async def until(self, kind: str, times: int = 1) -> list[dict[str, Any]]:
        """Every event with a cursor up to the last of so many of that kind."""
        with anyio.fail_after(WAIT):
            while sum(event["type"] == kind for event in self.heard) < times:
                for frame in await self._outbox.take():
                    event = json.loads(frame.bare)
                    if "cursor" in event:
                        self.heard.append(event)
                    assert event["type"] != "resync_required"
        return self.heard

    async def until_aside(self, kind: str) -> dict[str, Any]:
        """The next event of that kind, without a cursor."""
        with anyio.fail_after(WAIT):
            while True:
                for frame in await self._outbox.take():
                    event: dict[str, Any] = json.loads(frame.bare)
                    if event["type"] == kind and "cursor" not in event:
                        return event

    def cursors(self) -> list[int]:
        return [int(event["cursor"]) for event in self.heard]
