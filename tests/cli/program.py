"""Program — the real `avm` as a process: through pipes, or at a terminal of its own."""

import codecs
import os
import signal
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream
from tests.support import forks

WAIT = 60.0
"""Seconds until a wait is a failure: a process that starts on a busy machine takes a while."""

SOURCE = Path(__file__).resolve().parent.parent.parent / "src"
MODULE = "agentvm.cli.main"
COMMAND = [sys.executable, "-m", MODULE]
"""For tests of the start itself; the others have `command`, which has imported everything already."""

ASKING = "\x1b[?2004h"
"""What a chat writes when it begins to ask for a message: that pastes are to be marked."""


def environment(home: Path, **more: str) -> dict[str, str]:
    """Ours, without settings of AgentVM except those given; by default the model is the one that echoes."""
    ours = ("LLM_", "AVM_", "ANTHROPIC_", "OPENAI_", "NO_COLOR", "FORCE_COLOR", "XDG_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return {**kept, "PYTHONPATH": str(SOURCE), "HOME": str(home), "TERM": "xterm", "LLM_PROVIDER": "scripted", **more}


def command(*arguments: str, terminal: bool = False) -> list[str]:
    return forks.command(MODULE, *arguments, terminal=terminal)


def run_avm(*arguments: str, env: dict[str, str], given: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a command to its end."""
    return subprocess.run(command(*arguments), env=env, input=given, capture_output=True, text=True, timeout=WAIT, check=False)


class Program:
    """An `avm` that runs."""

    def __init__(self, process: anyio.abc.Process, errors: Path) -> None:
        assert process.stdout is not None
        self._process = process
        self._output = BufferedByteReceiveStream(process.stdout)
        self._errors = errors

    async def line(self) -> str:
        """The next line of stdout."""
        return await self.until("\n")

    async def until(self, text: str) -> str:
        """What stdout says before the text."""
        with anyio.fail_after(WAIT):
            return (await self._output.receive_until(text.encode(), 1 << 16)).decode()

    async def line_with(self, text: str) -> str:
        while text not in (line := await self.line()):
            pass
        return line

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def wait(self) -> int:
        """Its exit code; negative for the signal that ended it."""
        with anyio.fail_after(WAIT):
            return await self._process.wait()

    @property
    def errors(self) -> str:
        return self._errors.read_text()


@asynccontextmanager
async def running(
    *arguments: str, env: dict[str, str], errors: Path, given: str = "", fresh: bool = False
) -> AsyncIterator[Program]:
    """The command while it runs, with `given` as its input; what still runs at the end is killed.

    `fresh`: in a new interpreter.
    """
    with errors.open("wb") as stderr:
        line = [*COMMAND, *arguments] if fresh else command(*arguments)
        process = await anyio.open_process(line, env=env, stderr=stderr)
    async with process:
        try:
            assert process.stdin is not None
            await process.stdin.send(given.encode())
            await process.stdin.aclose()
            yield Program(process, errors)
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGKILL if fresh else forks.KILL)


class Keyboard:
    """A terminal with `avm` in it: what a person sees and presses."""

    def __init__(self, master: int, process: anyio.abc.Process) -> None:
        self._master = master
        self._process = process
        self._seen = ""
        # A letter may come in two pieces.
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    async def see(self, text: str) -> str:
        """Waits for the text; returns everything before it that was not yet asked for."""
        with anyio.fail_after(WAIT):
            while text not in self._seen:
                await anyio.wait_readable(self._master)
                try:
                    self._seen += self._decoder.decode(os.read(self._master, 65536))
                except OSError:
                    raise AssertionError(f"it ended; {text!r} is not in {self._seen!r}") from None
        before, _, self._seen = self._seen.partition(text)
        return before

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def echoes(self) -> bool:
        """Whether the terminal itself shows what is pressed."""
        return bool(termios.tcgetattr(self._master)[3] & termios.ECHO)

    async def wait(self) -> int:
        with anyio.fail_after(WAIT):
            return await self._process.wait()


@asynccontextmanager
async def at_terminal(*arguments: str, env: dict[str, str]) -> AsyncIterator[Keyboard]:
    """The command in a terminal of its own; what still runs at the end is killed."""
    master, slave = os.openpty()
    line = command(*arguments, terminal=True)
    process = await anyio.open_process(line, env=env, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    async with process:
        try:
            yield Keyboard(master, process)
        finally:
            if process.returncode is None:
                process.send_signal(forks.KILL)
            os.close(master)
