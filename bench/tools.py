"""Tools — what a call costs beside its floor: a built-in call, an HTTP tool, an MCP server, a program that is run again.

    python -m bench.tools [--calls 500] [--rounds 5]

The floors are measured in the same process and in turn with the calls: a bare coroutine, a raw POST with the same HTTP client
over a kept connection, a line echoed by a program over its pipes, and a program in a sandbox that calls nothing. Trust the
ratios; times depend on the machine and on what else it does. The least of the rounds counts, since anything else is somebody
else's work.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import anyio
import anyio.lowlevel
import httpx2
import msgspec
import uvicorn
from anyio.abc import Process

from agentvm.drivers.base import ToolSpec
from agentvm.model.ids import TurnId
from agentvm.model.message import ToolCall
from agentvm.model.program import ProgramCall
from agentvm.model.public_address import AddressRules
from agentvm.model.tier import Job
from agentvm.model.wait import fingerprint_of
from agentvm.resources.tool import HttpRequestParts
from agentvm.resources.tool_entry import parse_mcp
from agentvm.runtime.programs import Program
from agentvm.tiers.process import ProcessTier, open_process_tier
from agentvm.tools.base import CallableTool, CallContext, Caller, CallResult, CallTraits, text_result
from agentvm.tools.http import HttpTool
from agentvm.tools.mcp.pool import McpPool
from agentvm.tools.mcp.servers import McpServers, McpTool
from agentvm.tools.mcp.settings import McpServerSettings
from agentvm.tools.safe_http import SafeHttp
from bench.measure import table

SPEC = ToolSpec(name="echo", description="Echoes.", input_schema={"type": "object"})
CONTEXT = CallContext(key="turn/call", caller=Caller("bench", "bench"), deadline=0)
INPUT = {"text": "x" * 100}
ECHO = "import sys\nfor line in sys.stdin.buffer:\n    sys.stdout.buffer.write(line)\n    sys.stdout.buffer.flush()\n"
SERVER = """
import json, sys
def result(message):
    if message["method"] == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "public"}
    if message["method"] == "tools/list":
        tool = {"name": "echo", "inputSchema": {"type": "object"}}
        return {"tools": [tool], "ttlMs": 3600000, "cacheScope": "public"}
    return {"content": [{"type": "text", "text": message["params"]["arguments"]["text"]}]}
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        reply = {"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete", **result(message)}}
        sys.stdout.write(json.dumps(reply) + "\\n")
        sys.stdout.flush()
"""

PROGRAM_CALLS = 10
PROGRAM = f"total = 0\nfor n in range({PROGRAM_CALLS}):\n    total += {{}}\nprint(total)"

Call = Callable[[], Awaitable[object]]


@dataclass
class Pair:
    """A call and its floor: wall and CPU time of this process in ms a call, the least of the rounds."""

    name: str
    call: Call
    floor: Call
    goal: str
    times: list[tuple[float, float]] = field(default_factory=list)
    floors: list[tuple[float, float]] = field(default_factory=list)
    share: int = 1
    """One call of so many is made: it takes long."""

    async def measure(self, calls: int) -> None:
        calls = max(calls // self.share, 1)
        self.floors.append(await timed(self.floor, calls))
        self.times.append(await timed(self.call, calls))

    @property
    def row(self) -> tuple[str, ...]:
        wall, floor = min(self.times)[0], min(self.floors)[0]
        cpu, cpu_floor = (min(cpu for _, cpu in times) for times in (self.times, self.floors))
        ratios = (f"{wall / floor:.2f}", f"{cpu / cpu_floor:.2f}")
        return (self.name, f"{wall * 1e3:.0f} us", f"{floor * 1e3:.0f} us", *ratios, self.goal)


async def timed(call: Call, calls: int) -> tuple[float, float]:
    started, cpu = time.perf_counter(), time.process_time()
    for _ in range(calls):
        await call()
    return (time.perf_counter() - started) / calls * 1e3, (time.process_time() - cpu) / calls * 1e3


class Inline:
    """A tool of this process that does nothing."""

    spec = SPEC
    effect, world, repeat, timeout_seconds = "read", "closed", "safe", 60.0

    async def run(self, input: Mapping[str, object], context: CallContext) -> CallResult:
        return text_result(str(input["text"]))


class Pipes:
    """A program, talked to by its pipes; as a jail gives one."""

    stderr_tail = ""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        await self._process.stdin.send(data)

    async def receive(self) -> bytes:
        assert self._process.stdout is not None
        with suppress(anyio.EndOfStream):
            return await self._process.stdout.receive(65536)
        return b""


def journal() -> list[ProgramCall]:
    """The results of a program that has made all its calls."""
    turn_id = TurnId("turn_1")
    digests = [fingerprint_of("echo", "", {"n": n}) for n in range(PROGRAM_CALLS)]
    calls = [
        ProgramCall(turn_id=turn_id, program="p1", number=n + 1, tool="echo", digest=digest, result=n)
        for n, digest in enumerate(digests)
    ]
    return [ProgramCall(turn_id=turn_id, program="p1", number=0, tool="", digest="", result=[]), *calls]


def replaying(tier: ProcessTier) -> tuple[Call, Call]:
    """Runs a program with a whole journal; and, as its floor, the same one without calls."""
    again = Job(engine="python", code=PROGRAM.format("tools.echo(n)"), script=True, functions={"echo": ("n",)})
    alone = Job(engine="python", code=PROGRAM.format("n"), script=True)
    rows, nobody, turn = journal(), cast(Any, None), cast(Any, SimpleNamespace(nested=set(), waits={}))

    async def replay() -> object:
        run = Program(nobody, turn, ToolCall(id="p1", name="run_python", input={}), (SPEC,), rows)
        result = await tier.run(msgspec.structs.replace(again, known=run.known_answers), run.call)
        assert result.stdout == b"45\n", result.stderr
        return result

    return replay, lambda: tier.run(alone)


@asynccontextmanager
async def program(source: str) -> AsyncIterator[Pipes]:
    command = (sys.executable, "-I", "-c", source)
    async with await anyio.open_process(command, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            yield Pipes(process)
        finally:
            os.killpg(process.pid, signal.SIGKILL)


@asynccontextmanager
async def launch(server_id: str, settings: McpServerSettings, caller: Caller) -> AsyncIterator[Pipes]:
    async with program(SERVER) as pipes:
        yield pipes


async def web(scope: dict[str, Any], receive: Callable[[], Awaitable[dict[str, Any]]], send: Any) -> None:
    """Answers a POST: with its own body, or below /mcp as an MCP server."""
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        event = await receive()
        body, more = body + event.get("body", b""), bool(event.get("more_body"))
    if scope["path"] == "/mcp":
        message = msgspec.json.decode(body)
        result = {"resultType": "complete", **mcp_result(message)}
        body = msgspec.json.encode({"jsonrpc": "2.0", "id": message.get("id"), "result": result})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def mcp_result(message: dict[str, object]) -> dict[str, object]:
    if message["method"] == "server/discover":
        return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "public"}
    if message["method"] == "tools/list":
        return {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}], "ttlMs": 3_600_000, "cacheScope": "public"}
    return {"content": [{"type": "text", "text": "x" * 100}]}


@asynccontextmanager
async def served() -> AsyncIterator[int]:
    """The web server, in a process of its own."""
    command = (sys.executable, "-m", "bench.tools", "--serve")
    async with await anyio.open_process(command, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            yield int(await process.stdout.receive())
        finally:
            os.killpg(process.pid, signal.SIGKILL)


async def main(calls: int, rounds: int) -> None:
    async with (
        served() as port,
        program(ECHO) as echo,
        httpx2.AsyncClient(trust_env=False) as raw,
        SafeHttp(AddressRules.parse([f"127.0.0.1:{port}"])) as http,
        McpPool() as pool,
        open_process_tier() as tier,
    ):
        url = f"http://127.0.0.1:{port}"
        servers = McpServers(http=http, pool=pool, launch=launch, settings={"echo": McpServerSettings(argv=("/echo",))})
        post = HttpTool(spec=SPEC, entry=f"POST {url}/echo", parts=HttpRequestParts(), traits=CallTraits(), http=http)
        stdio = McpTool(spec=SPEC, servers=servers, entry=parse_mcp("stdio:echo"), name="echo", traits=CallTraits())
        remote = McpTool(spec=SPEC, servers=servers, entry=parse_mcp(f"{url}/mcp"), name="echo", traits=CallTraits())
        body = msgspec.json.encode(INPUT)

        async def direct() -> object:
            return INPUT["text"]

        async def raw_post() -> object:
            return await raw.post(f"{url}/echo", content=body, headers={"content-type": "application/json"})

        async def raw_echo() -> object:
            await echo.send(body + b"\n")
            return await echo.receive()

        def calling(tool: CallableTool) -> Call:
            return lambda: tool.run(INPUT, CONTEXT)

        pairs = [
            Pair("inline call", calling(Inline()), direct, "<= 150 us"),  # type: ignore[arg-type]
            Pair("HTTP tool / raw POST", calling(post), raw_post, "<= 2x"),
            Pair("MCP, HTTP / raw POST", calling(remote), raw_post, "<= 2x"),
            Pair("MCP, stdio / pipe echo", calling(stdio), raw_echo, "<= 2 ms"),
            Pair("program of 10 calls, run again / without calls", *replaying(tier), "<= 1.2x", share=10),
        ]
        for pair in pairs:
            await pair.measure(max(calls // 10, 1))
            pair.times.clear()
            pair.floors.clear()
        for _ in range(rounds):
            for pair in pairs:
                await pair.measure(calls)
    print(table([("call", "time", "floor", "ratio", "CPU ratio", "goal"), *(pair.row for pair in pairs)]))
    print(f"journal of the program: {sum(len(msgspec.json.encode(row)) for row in journal())} bytes")


def serve() -> None:
    config = uvicorn.Config(web, port=0, log_level="critical", lifespan="off", ws="none")
    server = uvicorn.Server(config)

    async def announce() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve)
            while not server.started:
                await anyio.lowlevel.checkpoint()
            print(server.servers[0].sockets[0].getsockname()[1], flush=True)

    anyio.run(announce, backend_options={"use_uvloop": True})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--serve", action="store_true")
    options = parser.parse_args()
    if options.serve:
        serve()
    else:
        anyio.run(main, options.calls, options.rounds, backend_options={"use_uvloop": True})
