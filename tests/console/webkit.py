"""An installed WebKit, driven by WebDriver: the small browser that comes with WebKitGTK, on a screen that nobody sees."""

import http.client
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from anyio.abc import Process
from tests.console.firefox import DEADLINE_SECONDS, ENTER
from tests.support.killable import free_port

_UNTIL = "new Promise((done) => { const look = () => ((%s) ? done(true) : setTimeout(look, 20)); look(); })"
_READ = "const done = arguments[arguments.length - 1]; Promise.resolve(%s).then(done);"
LACKING = "WebKitGTK's MiniBrowser (AVM_TEST_WEBKIT names one), WebKitWebDriver or Xvfb is not installed"
_OPTIONS = "webkitgtk:browserOptions"


def webkit() -> str | None:
    """The browser, if the machine has it, its driver and a screen without a monitor."""
    named = os.environ.get("AVM_TEST_WEBKIT")
    found = [named] if named else sorted(map(str, Path("/usr/lib").glob("*/webkit2gtk-4.*/MiniBrowser")))
    has_tools = all(map(shutil.which, ("WebKitWebDriver", "Xvfb")))
    return found[-1] if found and has_tools else None


class Window:
    """One window of the browser. Each command waits for its answer."""

    def __init__(self, port: int) -> None:
        self.port, self._session = port, ""

    async def command(self, method: str, path: str, body: object = None) -> Any:
        """Sends a command; those of a window are below its session."""
        return await anyio.to_thread.run_sync(self._send, method, f"/session{path}", body)

    def _send(self, method: str, path: str, body: object) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_SECONDS)
        try:
            connection.request(method, path, json.dumps(body or {}), {"Content-Type": "application/json"})
            reply = connection.getresponse()
            value = json.loads(reply.read())["value"]
        finally:
            connection.close()
        assert reply.status == 200, value
        return value

    async def begin(self, program: str) -> None:
        options = {_OPTIONS: {"binary": program, "args": ["--automation"]}}
        timeouts = {"script": DEADLINE_SECONDS * 1000, "pageLoad": DEADLINE_SECONDS * 1000}
        begun = await self.command("POST", "", {"capabilities": {"alwaysMatch": {**options, "timeouts": timeouts}}})
        self._session = f"/{begun['sessionId']}"

    async def end(self) -> None:
        await self.command("DELETE", self._session)

    async def goto(self, address: str) -> None:
        await self.command("POST", f"{self._session}/url", {"url": address})

    async def read(self, expression: str) -> Any:
        """Returns the value of an expression, a text, number or truth."""
        return await self.command("POST", f"{self._session}/execute/async", {"script": _READ % expression, "args": []})

    async def until(self, condition: str) -> None:
        """Waits until a condition holds in the page."""
        assert await self.read(_UNTIL % condition)

    async def press(self, *keys: str) -> None:
        """Presses keys together, and lets them go."""
        await self._strike([*(("keyDown", key) for key in keys), *(("keyUp", key) for key in reversed(keys))])

    async def activate(self) -> None:
        """Presses what has the focus."""
        await self.press(ENTER)

    async def write(self, text: str) -> None:
        await self._strike([(kind, letter) for letter in text for kind in ("keyDown", "keyUp")])

    async def _strike(self, strokes: list[tuple[str, str]]) -> None:
        actions = [{"type": kind, "value": key} for kind, key in strokes]
        await self.command("POST", f"{self._session}/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})


@asynccontextmanager
async def open_window(program: str, home: Path) -> AsyncIterator[Window]:
    """Starts the browser with a home of its own; it is ended with the block."""
    async with _running("Xvfb", "-displayfd", "1", "-screen", "0", "1280x900x24") as screen:
        assert screen.stdout is not None
        with anyio.fail_after(DEADLINE_SECONDS):
            display = (await screen.stdout.receive()).decode().strip()
        env = {
            **os.environ,
            "DISPLAY": f":{display}",
            "HOME": str(home),
            "XDG_RUNTIME_DIR": str(home),
            "LIBGL_ALWAYS_SOFTWARE": "1",
        }
        window = Window(free_port())
        async with _running("WebKitWebDriver", f"--port={window.port}", env=env):
            with anyio.fail_after(DEADLINE_SECONDS):
                while True:
                    try:
                        await window.begin(program)
                        break
                    except ConnectionRefusedError:
                        await anyio.sleep(0.02)
            try:
                yield window
            finally:
                with anyio.CancelScope(shield=True):
                    await window.end()


@asynccontextmanager
async def _running(*command: str, env: dict[str, str] | None = None) -> AsyncIterator[Process]:
    """A program that is killed with the block, and whatever it has started with it."""
    process = await anyio.open_process(
        command, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    async with process:
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
