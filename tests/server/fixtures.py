"""The server without a socket: one HTTP request, or one WebSocket peer, through the ASGI interface."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.abc
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from uvicorn.protocols.utils import ClientDisconnected

from agentvm.app import open_agentvm
from agentvm.config import MEMORY, ServerConfig, SessionSettings, SystemSettings
from agentvm.drivers.base import Driver
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.server.serving import Listener
from agentvm.server.wire import WIRE, PlainWire
from agentvm.vm import AgentVM

Message = dict[str, Any]


@asynccontextmanager
async def open_listener(driver: Driver | None = None) -> AsyncIterator[tuple[AgentVM, Listener]]:
    """An AgentVM in memory, and the listener that would serve it."""
    config = ServerConfig(system=SystemSettings(data_dir=MEMORY), sessions=SessionSettings(titles="off"))
    async with open_agentvm(config, drivers={"scripted": driver or ScriptedDriver()}) as vm:
        yield vm, Listener(vm)


async def http(app: Any, method: str, path: str, *, host: str = "test") -> tuple[int, dict[str, str], Any]:
    """Status, headers and JSON body of one request."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": [(b"host", host.encode())],
        "client": ("test", 1),
        "server": ("test", 80),
        "extensions": {},
    }
    with anyio.fail_after(60):
        await app(scope, receive, send)
    headers = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], headers, json.loads(body) if body else None


@dataclass(slots=True, kw_only=True)
class Socket:
    """A peer's end of a WebSocket. `stalled` makes it read nothing more."""

    to_server: MemoryObjectSendStream[Message]
    from_server: MemoryObjectReceiveStream[Message]
    stalled: anyio.Event = field(default_factory=anyio.Event)
    gone: bool = False
    aborted: bool = False
    received: list[Message] = field(default_factory=list)

    async def send(self, frame: object) -> None:
        await self.to_server.send({"type": "websocket.receive", "text": frame if isinstance(frame, str) else json.dumps(frame)})

    async def ask(self, command: str, /, **data: object) -> Any:
        await self.send({"type": f"{command}_request", "data": {**data, "requestId": "req_1"}})
        return (await self.read(f"{command}_response"))["data"]

    async def read(self, kind: str) -> Any:
        """The next event of that type."""
        with anyio.fail_after(60):
            while True:
                message = await self.from_server.receive()
                self.received.append(message)
                if message["type"] == "websocket.send":
                    event = json.loads(message["text"])
                    event = json.loads(event["__payload"]) if "__payload" in event else event
                    if event["type"] == kind:
                        return event

    async def read_close(self) -> Message:
        with anyio.fail_after(60):
            while (message := await self.from_server.receive())["type"] == "websocket.send":
                self.received.append(message)
        return message

    async def leave(self) -> None:
        await self.to_server.send({"type": "websocket.disconnect", "code": 1001})


@asynccontextmanager
async def open_socket(
    app: Any, path: str = "/ws", *, client: str | None = None, abortable: bool = True, key: str | None = None
) -> AsyncIterator[Socket]:
    """A peer that has asked to be connected; leaving waits until the server is done with it.

    Not `abortable` is as another ASGI server than ours has it: without extensions.
    """
    to_server, inbox = anyio.create_memory_object_stream[Message](1_000)
    outbox, from_server = anyio.create_memory_object_stream[Message](100_000)
    socket = Socket(to_server=to_server, from_server=from_server)

    async def send(message: Message) -> None:
        if socket.gone:
            raise OSError("the peer is gone")
        if socket.stalled.is_set():
            await anyio.sleep_forever()
        await outbox.send(message)
        if message["type"] == "websocket.close":
            await to_server.send({"type": "websocket.disconnect", "code": message["code"]})

    def abort() -> None:
        socket.aborted = True

    async def serve() -> None:
        # As uvicorn does: it is how a handler says that there was no handshake.
        with suppress(ClientDisconnected):
            await app(scope, inbox.receive, send)

    headers = [(b"host", b"127.0.0.1:8080"), *([] if key is None else [(b"authorization", f"Bearer {key}".encode())])]
    scope: Message = {"type": "websocket", "path": path, "headers": headers}
    if client is not None:
        scope["query_string"] = f"client={client}".encode()
    if abortable:
        scope["extensions"] = {WIRE: PlainWire(send, abort)}
    to_server.send_nowait({"type": "websocket.connect"})
    with to_server, inbox, outbox, from_server, anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve)
            yield socket
