"""An installed Firefox, driven by WebDriver BiDi, which it speaks by itself."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from websockets.asyncio.client import ClientConnection, connect

DEADLINE_SECONDS = 60
LINE_MAX_BYTES = 65_536
_LISTENING = re.compile(rb"WebDriver BiDi listening on (ws://\S+)")
_UNTIL = "new Promise((done) => { const look = () => ((%s) ? done(true) : requestAnimationFrame(look)); look(); })"
ENTER, ESCAPE, CONTROL, TAB = "\ue007", "\ue00c", "\ue009", "\ue004"


def firefox() -> str | None:
    """The program, if the machine has one."""
    named = os.environ.get("AVM_TEST_FIREFOX")
    return named or shutil.which("firefox") or shutil.which("firefox-esr")


class Window:
    """One window of the browser. Each command waits for its answer."""

    def __init__(self, socket: ClientConnection, context: str = "") -> None:
        self._socket, self._context, self._count = socket, context, 0

    async def command(self, method: str, **fields: Any) -> Any:
        self._count += 1
        with anyio.fail_after(DEADLINE_SECONDS):
            await self._socket.send(json.dumps({"id": self._count, "method": method, "params": fields}))
            while True:
                reply = json.loads(await self._socket.recv())
                if reply.get("id") == self._count:
                    assert reply["type"] == "success", reply
                    return reply["result"]

    async def begin(self) -> None:
        await self.command("session.new", capabilities={})
        self._context = (await self.command("browsingContext.getTree"))["contexts"][0]["context"]

    async def goto(self, address: str) -> None:
        await self.command("browsingContext.navigate", context=self._context, url=address, wait="complete")

    async def read(self, expression: str) -> Any:
        """Returns the value of an expression, a text, number or truth."""
        target = {"context": self._context}
        found = await self.command("script.evaluate", expression=expression, target=target, awaitPromise=True)
        assert found["type"] == "success", found
        return found["result"].get("value")

    async def until(self, condition: str) -> None:
        """Waits until a condition holds in the page."""
        assert await self.read(_UNTIL % condition)

    async def press(self, *keys: str) -> None:
        """Presses keys together, and lets them go."""
        down = [{"type": "keyDown", "value": key} for key in keys]
        up = [{"type": "keyUp", "value": key} for key in reversed(keys)]
        actions = [{"type": "key", "id": "keyboard", "actions": [*down, *up]}]
        await self.command("input.performActions", context=self._context, actions=actions)

    async def activate(self) -> None:
        """Presses what has the focus. The keys of the protocol reach a page of Firefox 140, but press no button on any."""
        await self.read("document.activeElement.click()")

    async def write(self, text: str) -> None:
        strokes = [{"type": kind, "value": letter} for letter in text for kind in ("keyDown", "keyUp")]
        actions = [{"type": "key", "id": "keyboard", "actions": strokes}]
        await self.command("input.performActions", context=self._context, actions=actions)


@asynccontextmanager
async def open_window(program: str, profile: Path) -> AsyncIterator[Window]:
    """Starts the browser with a profile of its own; it is ended with the block."""
    command = [program, "--headless", "--remote-debugging-port", "0", "--no-remote", "--profile", str(profile)]
    env = {**os.environ, "HOME": str(profile), "MOZ_CRASHREPORTER_DISABLE": "1"}
    async with (
        await anyio.open_process(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env
        ) as process,
        anyio.create_task_group() as tasks,
    ):
        try:
            with anyio.fail_after(DEADLINE_SECONDS):
                address, rest = await _address(process)
            tasks.start_soon(_drain, rest)
            async with connect(f"{address}/session", max_size=None) as socket:
                window = Window(socket)
                await window.begin()
                yield window
        finally:
            process.kill()
            tasks.cancel_scope.cancel()


async def _address(process: Process) -> tuple[str, BufferedByteReceiveStream]:
    assert process.stderr is not None
    lines = BufferedByteReceiveStream(process.stderr)
    while True:
        if found := _LISTENING.search(await lines.receive_until(b"\n", LINE_MAX_BYTES)):
            return found[1].decode(), lines


async def _drain(stream: BufferedByteReceiveStream) -> None:
    """Reads what the browser says, which would wait for a reader otherwise."""
    async for _ in stream:
        pass
