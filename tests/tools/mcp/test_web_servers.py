"""MCP servers on the web: the SDK's own server, older servers with sessions, and hostile ones."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import msgspec
import pytest
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from tests.support.mcp_process import Launcher
from tests.support.oauth import json
from tests.support.web import Asked, Replied, Reply, Web, web

from agentvm.drivers.base import ToolSpec
from agentvm.errors import ToolFailed
from agentvm.errors.tool import EgressRefused
from agentvm.model.public_address import AddressRules
from agentvm.resources.tool_entry import parse_mcp
from agentvm.tools.base import CallContext, Caller, CallProgress, CallResult, CallTraits, Outcome
from agentvm.tools.mcp.pool import McpPool
from agentvm.tools.mcp.servers import McpServers, McpTool
from agentvm.tools.safe_http import SafeHttp

LOOPBACK = AddressRules.parse(["127.0.0.0/8"])
ALICE, BOB = Caller("acme", "alice"), Caller("acme", "bob")
TOOLS = [{"name": "echo", "inputSchema": {"type": "object"}}]
CAPABILITIES = {"tools": {"listChanged": True}}
STREAM, DOCUMENT = {"content-type": "text/event-stream"}, {"content-type": "application/json"}


class Client:
    """Calls the tool `echo` of one server."""

    def __init__(self, servers: McpServers, url: str) -> None:
        self.servers, self.url = servers, url

    async def call(self, name: str = "echo", caller: Caller = ALICE, **input: object) -> Outcome:
        tool = McpTool(
            spec=ToolSpec(name=name, description="x", input_schema={}), servers=self.servers, entry=parse_mcp(self.url),
            name=name, traits=CallTraits(),
        )  # fmt: skip
        heard: list[CallProgress] = []
        return await tool.run(input, CallContext(key="k", caller=caller, deadline=0, progress=heard.append))


@asynccontextmanager
async def client(url: str, rules: AddressRules = LOOPBACK) -> AsyncIterator[Client]:
    with anyio.fail_after(60):
        async with SafeHttp(rules) as http, McpPool() as pool:
            yield Client(McpServers(http=http, pool=pool, launch=Launcher(), settings={}), url)


@asynccontextmanager
async def against(reply: Reply) -> AsyncIterator[tuple[Web, Client]]:
    async with web(reply) as server, client(server.url("/mcp")) as made:
        yield server, made


def modern(called: Callable[[Asked], Replied]) -> Reply:
    """A stateless server that introduces itself and lists one tool; calls are up to the test."""

    def reply(asked: Asked) -> Replied:
        message = msgspec.json.decode(asked.body)
        match message["method"]:
            case "server/discover":
                result = {
                    "supportedVersions": ["2026-07-28"],
                    "capabilities": CAPABILITIES,
                    "ttlMs": 0,
                    "cacheScope": "public",
                }
            case "tools/list":
                result = {"tools": TOOLS, "ttlMs": 0, "cacheScope": "public"}
            case _:
                return called(asked)
        return json({"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete", **result}})

    return reply


def text(asked: Asked, said: str) -> Replied:
    result = {"resultType": "complete", "content": [{"type": "text", "text": said}]}
    return json({"jsonrpc": "2.0", "id": msgspec.json.decode(asked.body)["id"], "result": result})


async def test_the_servers_of_the_sdk_are_spoken_to() -> None:
    server = MCPServer("test")

    async def echo(text: str, context: Context) -> str:
        await context.report_progress(1, 2)
        return text

    server.add_tool(echo)
    app = server.streamable_http_app(stateless_http=True)
    running = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, ws="none"))
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(running.serve)
            while not running.started:
                await anyio.lowlevel.checkpoint()
            port = running.servers[0].sockets[0].getsockname()[1]
            async with client(f"http://127.0.0.1:{port}/mcp") as made:
                for number in range(3):
                    outcome = await made.call(text=str(number))
                    assert isinstance(outcome, CallResult)
                    assert outcome.value in (str(number), {"result": str(number)})
            running.should_exit = True


async def test_an_older_server_keeps_a_session_for_each_user_and_is_told_when_it_ends() -> None:
    sessions: list[str] = []
    ended: list[str] = []

    def reply(asked: Asked) -> Replied:
        if asked.method == "DELETE":
            ended.append(asked.headers["mcp-session-id"])
            return Replied(204)
        if asked.method == "GET":
            return Replied(405)
        message = msgspec.json.decode(asked.body)
        if message["method"] == "initialize":
            sessions.append(f"session-{len(sessions)}")
            server_info = {"name": "o", "version": "1"}
            about = {"protocolVersion": "2025-03-26", "capabilities": CAPABILITIES, "serverInfo": server_info}
            answer = msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], "result": about})
            return Replied(200, answer, {"content-type": "application/json", "mcp-session-id": sessions[-1]})
        if "mcp-session-id" not in asked.headers:
            return Replied(400)
        if "id" not in message:
            return Replied(202)
        if message["method"] == "tools/list":
            return json({"jsonrpc": "2.0", "id": message["id"], "result": {"tools": TOOLS}})
        return text(asked, asked.headers["mcp-session-id"])

    async with web(reply) as server:
        async with client(server.url("/mcp")) as made:
            mine = [await made.call(caller=caller) for caller in (ALICE, BOB, ALICE)]
        assert [outcome.value for outcome in mine if isinstance(outcome, CallResult)] == ["session-0", "session-1", "session-0"]
    assert sorted(ended) == ["session-0", "session-1"]


async def endless(first: bytes, more: bytes) -> AsyncIterator[bytes]:
    yield first
    while True:
        yield more


@pytest.mark.parametrize(
    ("called", "why"),
    [
        (lambda asked: Replied(500, b"oops"), "refused the call"),
        (lambda asked: Replied(200, b"<html>", {"content-type": "text/html"}), "content type"),
        (lambda asked: Replied(200, b"{", {"content-type": "application/json"}), "refused the call"),
        (lambda asked: Replied(202), "202"),
        (lambda asked: Replied(headers=DOCUMENT, pieces=endless(b"[", b" " * 65536)), "more than"),
        (lambda asked: Replied(headers=STREAM, pieces=endless(b"", b": x\n" * 9999)), "refused|more"),
        (lambda asked: Replied(302, headers={"location": "http://169.254.169.254/"}), "not followed"),
    ],
)  # fmt: skip
async def test_a_hostile_answer_fails_the_call_with_a_reason(called: Callable[[Asked], Replied], why: str) -> None:
    async with against(modern(called)) as (_, made):
        with pytest.raises(ToolFailed, match=why):
            await made.call()


async def test_a_server_that_fails_once_can_be_called_again() -> None:
    answers = [Replied(500), Replied(headers=DOCUMENT, pieces=endless(b"", b" " * 65536))]
    async with against(modern(lambda asked: answers.pop() if answers else text(asked, "fine"))) as (_, made):
        for _attempt in range(2):
            with pytest.raises(ToolFailed):
                await made.call()
        assert await made.call() == CallResult(type="text", value="fine")


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_to_another_server_is_not_followed(status: int) -> None:
    async with web(modern(lambda asked: text(asked, "stolen"))) as other:
        redirect = Replied(status, headers={"location": other.url("/mcp")})
        async with against(modern(lambda asked: redirect)) as (_, made):
            with pytest.raises(ToolFailed):
                await made.call()
        assert other.asked == []


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:{port}/mcp", "https://127.0.0.1:{port}/mcp", "https://localhost:{port}/mcp",
        "https://[::ffff:7f00:1]:{port}/mcp", "https://[64:ff9b::7f00:1]:{port}/mcp", "https://169.254.169.254/mcp",
        "https://2130706433:{port}/mcp", "https://0x7f000001:{port}/mcp",
    ],
)  # fmt: skip
async def test_no_form_of_an_inner_address_is_reached(url: str) -> None:
    async with web(modern(lambda asked: text(asked, "reached"))) as server:
        async with client(url.replace("{port}", str(server.port)), AddressRules()) as made:
            with pytest.raises(ToolFailed):
                await made.call()
        assert server.connections == 0


async def test_a_refused_address_is_not_counted_as_a_failing_server() -> None:
    async with client("https://127.0.0.1:9/mcp", AddressRules()) as made:
        for _ in range(5):
            with pytest.raises(EgressRefused):
                await made.call()


async def test_a_cancelled_call_closes_its_request() -> None:
    asked = anyio.Event()

    async def hang() -> AsyncIterator[bytes]:
        asked.set()
        while True:
            yield b": still there\n"
            await anyio.sleep(0.01)

    def called(request: Asked) -> Replied:
        return Replied(headers=STREAM, pieces=hang())

    async with against(modern(called)) as (server, made):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(made.call)
            await asked.wait()
            started = anyio.current_time()
            tasks.cancel_scope.cancel()
        assert anyio.current_time() - started < 1
        await server.closed.wait()
