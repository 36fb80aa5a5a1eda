"""A server in a process of its own that can be killed and started again, and a peer that reads its logs."""

import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
import anyio.abc
from anyio.streams.buffered import BufferedByteReceiveStream
from tests.faults.invariants import Frame
from tests.support import forks
from websockets.asyncio.client import ClientConnection, connect

ROOT = Path(__file__).resolve().parent.parent.parent
WAIT = 60.0


class Server:
    """Comes back on the same port with the same data."""

    def __init__(self, data_dir: Path, program: str = "tests.faults.server", *arguments: str) -> None:
        self._data_dir = data_dir
        self._program, self._arguments = program, arguments
        self._process: anyio.abc.Process | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/ws"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return forks.program_pid(self._process.pid)

    async def start(self, grace: float = 0.0) -> None:
        arguments = self._arguments or (str(grace),)
        command = forks.command(self._program, str(self.port), str(self._data_dir), *arguments)
        with anyio.fail_after(WAIT):
            self._process = await anyio.open_process(command, cwd=ROOT, stderr=None)
            assert self._process.stdout is not None
            self.port = int(await BufferedByteReceiveStream(self._process.stdout).receive_until(b"\n", 100))

    async def end(self, number: signal.Signals) -> int:
        """Its exit code."""
        process, self._process = self._process, None
        assert process is not None
        with anyio.CancelScope(shield=True), anyio.fail_after(WAIT):
            with suppress(ProcessLookupError):
                process.send_signal(forks.KILL if number == signal.SIGKILL else number)
            code = await process.wait()
            await process.aclose()
        return code

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    async def died(self) -> None:
        """Returns when it has ended by itself."""
        process = self._process
        assert process is not None
        await process.wait()
        await process.aclose()
        self._process = None

    async def stop(self) -> None:
        if self._process is not None:
            await self.end(signal.SIGKILL)


def rss(pid: int) -> int:
    """Bytes of memory the process has in use."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def peak_rss(pid: int) -> int:
    """The most bytes of memory that the process has ever had in use."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


OPENED_LATE = 4
"""Files that the database's readers open when they are first used, which may be at any time."""


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


async def until(done: Callable[[], bool], *, pause: float = 0.01) -> None:
    """For what tells nobody: tasks that end, files that are closed."""
    while not done():  # noqa: ASYNC110  # there is no event to wait for
        await anyio.sleep(pause)


@asynccontextmanager
async def open_server(data_dir: Path, program: str = "tests.faults.server", *arguments: str) -> AsyncIterator[Server]:
    """`arguments` take the place of the grace that a server of this program is started with."""
    server = Server(data_dir, program, *arguments)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(server.stop)
        await server.start()
        yield server


async def read_log(url: str, session_id: str) -> list[Frame]:
    """Every event of the session, from the first, as a new device reads it; returns when every turn has ended."""
    async with connect(url, max_size=None) as socket:
        await socket.send(json.dumps({"type": "subscribe", "sessionId": session_id, "afterCursor": "0"}))
        events: list[Frame] = []
        with anyio.fail_after(WAIT):
            last = await _last(socket, session_id, events)
            while not events or events[-1]["cursor"] != last or not _all_ended(events):
                frame = json.loads(await socket.recv())
                if "cursor" in frame and frame["context"].get("sessionId") == session_id:
                    events.append(frame)
                    last = frame["cursor"] if int(frame["cursor"]) > int(last) else last
        return events


async def _last(socket: ClientConnection, session_id: str, events: list[Frame]) -> str:
    """A cursor that is certainly in the log: that of a resync from the far future."""
    async with connect(f"ws://{socket.remote_address[0]}:{socket.remote_address[1]}/ws") as other:
        await other.send(json.dumps({"type": "subscribe", "sessionId": session_id, "afterCursor": "999999999"}))
        while True:
            frame = json.loads(await other.recv())
            if frame.get("type") == "resync_required":
                return str(frame["data"]["cursor"])


def _all_ended(events: list[Frame]) -> bool:
    kinds = [event["type"] for event in events]
    return kinds.count("turn_request") == kinds.count("turn_response")


async def read_messages(url: str, session_id: str) -> list[Frame]:
    async with connect(url, max_size=None) as socket:
        request = {"type": "session_messages_request", "data": {"sessionId": session_id, "requestId": "r"}}
        await socket.send(json.dumps(request))
        with anyio.fail_after(WAIT):
            while True:
                frame = json.loads(await socket.recv())
                if frame.get("category") == "response":
                    messages: list[Frame] = frame["data"]["messages"]
                    return messages
