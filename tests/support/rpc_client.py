"""A client of AgentX 2.x: requests of JSON-RPC over a socket of the server, and the events it is told."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from tests.server.fixtures import Socket, open_listener, open_socket

from agentvm.drivers.base import Driver
from agentvm.vm import AgentVM

DEADLINE_SECONDS = 60


@dataclass(slots=True)
class RpcClient:
    """One connection. `events` are those it has been told, in order."""

    socket: Socket
    events: list[Any] = field(default_factory=list)
    answers: dict[object, Any] = field(default_factory=dict)
    number: int = 0
    marks: dict[object, int] = field(default_factory=dict)
    """How many events came before each request."""

    @property
    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    async def send(self, method: str, **params: object) -> int:
        """Sends a request and does not wait for the answer; returns its id."""
        self.number += 1
        await self.socket.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        return self.number

    async def answer(self, request_id: object) -> Any:
        """Returns the response to a request."""
        while request_id not in self.answers:
            await self.read()
        return self.answers[request_id]

    async def ask(self, method: str, **params: object) -> Any:
        """Returns the result of a request."""
        answer = await self.answer(await self.send(method, **params))
        assert "result" in answer, answer
        return answer["result"]

    async def refused(self, method: str, **params: object) -> tuple[int, str]:
        """Returns the code and the text of the error of a request."""
        error = (await self.answer(await self.send(method, **params)))["error"]
        return error["code"], error["message"]

    async def hear(self, kind: str) -> Any:
        """Returns the next event of a type."""
        seen = len(self.events)
        while True:
            for event in self.events[seen:]:
                if event["type"] == kind:
                    return event
            seen = len(self.events)
            await self.read()

    async def until(self, kind: str) -> None:
        """Returns when an event of the type was told after the last request, or every request is answered."""
        start = max(self.marks.values(), default=0)
        while kind not in self.types[start:] and (not self.marks or self.marks.keys() - self.answers.keys()):
            await self.read()

    async def read(self) -> Any:
        """Reads one frame."""
        with anyio.fail_after(DEADLINE_SECONDS):
            message = await self.socket.from_server.receive()
        if message["type"] != "websocket.send":
            return None
        frame = json.loads(message["text"])
        if frame.get("method") == "stream.event":
            self.events.append(frame["params"]["event"])
        elif "jsonrpc" in frame:
            self.answers[frame["id"]] = frame
        return frame


@asynccontextmanager
async def open_rpc_client(driver: Driver | None = None) -> AsyncIterator[tuple[AgentVM, RpcClient]]:
    """A server in memory, and one client of 2.x."""
    async with open_listener(driver) as (vm, listener), open_socket(listener.app) as socket:
        yield vm, RpcClient(socket)
        await socket.leave()
