"""The TypeScript client against real servers: one process of Node runs all cases."""

import contextlib
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream
from tests.runtime.test_parking import Hammer
from tests.support.killable import free_port, server_process
from tests.support.serving import Play, Served, provide_tools, serving

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import MEMORY, SystemSettings
from agentvm.drivers.base import Prompt, UserEntry
from agentvm.drivers.scripted import ScriptStep, last_user_text, reply, tool_calls
from agentvm.runtime.channel import GOING_AWAY

HERE = Path(__file__).parent
CLIENT = HERE.parents[2] / "clients" / "typescript" / "src" / "index.ts"
NOBODY = "ws://127.0.0.1:1/ws"
CASE_SECONDS = 120
LINE_MAX_BYTES = 1 << 20

Json = dict[str, Any]


class Program:
    """The process of Node that runs the cases."""

    def __init__(self, process: anyio.abc.Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self._lines = BufferedByteReceiveStream(process.stdout)

    async def run(self, name: str, *reactions: Callable[[], Awaitable[None]], **given: str) -> Any:
        """Runs a case; each pause of it is met by the next reaction. Returns its result."""
        await self._tell({"name": name, **given})
        for react in reactions:
            assert "mark" in (line := await self._line()), line
            await react()
            await self._tell({})
        line = await self._line()
        assert "result" in line, line.get("failed", line)
        return line["result"]

    async def _tell(self, line: Json) -> None:
        await self._stdin.send(json.dumps(line).encode() + b"\n")

    async def _line(self) -> Json:
        with anyio.fail_after(CASE_SECONDS):
            line: Json = json.loads(await self._lines.receive_until(b"\n", LINE_MAX_BYTES))
        return line


@contextlib.asynccontextmanager
async def program(node: Path) -> AsyncIterator[Program]:
    command = [str(node), str(HERE / "cases.mjs"), CLIENT.as_uri()]
    async with await anyio.open_process(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None) as process:
        yield Program(process)
        process.kill()


class Model:
    """`Play`, which also asks for a hammer."""

    def __init__(self) -> None:
        self.play = Play()

    def __call__(self, prompt: Prompt) -> Iterable[ScriptStep]:
        if last_user_text(prompt) != "hammer":
            return self.play(prompt)
        if isinstance(prompt.conversation[-1], UserEntry):
            return tool_calls(("call_1", "hammer", {"n": 1}))
        return reply("It is ", "struck.")


async def cut_and_go_on(served: Served, model: Model) -> None:
    for channel in served.running.server.vm.runtime.broadcaster.channels:
        channel.close(GOING_AWAY)
    model.play.gate.set()


async def test_turns_tools_files_errors_and_a_lost_connection(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hammer, model = Hammer(), Model()
    provide_tools(monkeypatch, hammer.tool)
    async with program(node) as cases, serving(model) as served:
        text = await cases.run("text", url=served.url)
        assert text["turn"]["text"] == "Hello there"
        assert (text["turn"]["outcome"], text["turn"]["isOnce"]) == ("completed", True)
        assert text["turn"]["types"][-1] == "turn_response"
        assert text["messages"] == [
            *("user: Hello there", "assistant: Hello there"),
            *("user: once", "assistant: once"),
            *("user: again", "assistant: again"),
        ]
        assert (text["said"], text["title"], text["states"]) == ("again", "Named", ["open", "closed"])
        assert (text["names"], text["bare"]) == (["TypeScript"], "no image")
        assert all(text[name] for name in ("heard", "isOneTurn", "isThere", "definitions", "pinned"))
        assert "ts" in text["containers"]

        tool = await cases.run("tool", url=served.url)
        assert tool["asked"] == [["hammer", "approval"]]
        assert (tool["turn"]["text"], tool["turn"]["outcome"]) == ("It is struck.", "completed")
        assert hammer.calls == [{"n": 1}]

        stopped = await cases.run("interrupt", url=served.url)
        assert (stopped["outcome"], stopped["types"][-1]) == ("interrupted", "turn_response")

        errors = await cases.run("errors", url=served.url, nobody=NOBODY)
        assert (errors["turn"]["code"], errors["isTyped"]) == ("provider_overloaded", True)
        assert errors["command"]["code"] == "image_not_found"
        assert (errors["http"]["code"], errors["http"]["status"], errors["http"]["hasId"]) == ("session_not_found", 404, True)
        assert [errors[name]["code"] for name in ("away", "awayHttp", "closed")] == ["channel_closed"] * 3

        files = await cases.run("files", url=served.url)
        assert files == {**files, "fetched": "a,b\n", "kept": "kept", "paths": ["notes/a b.txt"]}
        assert "Read it" in files["answer"]
        assert files["found"] > 0

        async def cut() -> None:
            await cut_and_go_on(served, model)

        resumed = await cases.run("cut", cut, url=served.url)
        assert resumed["turn"]["text"] == resumed["stored"] == "w0 w1 w2 "
        assert (resumed["turn"]["outcome"], resumed["turn"]["isOnce"]) == ("completed", True)
        assert resumed["states"][:1] == ["waiting"]


async def test_a_client_that_was_closed_stays_away_and_a_call_fails_with_its_connection(node: Path) -> None:
    async with program(node) as cases, serving(Model()) as served:
        closed = await cases.run("closed", url=served.url)
    first, second = closed["heard"]
    assert first == second
    assert len(first) == len(set(first)) > 5
    assert closed["turn"]["isOnce"]
    assert closed["code"] == "channel_closed"
    assert closed["states"] == ["waiting", "connecting", "open", "closed"]
    assert (closed["opened"], closed["later"]) == (2, 0)


async def test_keys_and_a_server_that_is_killed(node: Path, tmp_path: Path) -> None:
    guarded = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY, auth="on"))
    async with program(node) as cases:
        async with start_server(guarded, drivers={"scripted": ScriptedDriver()}) as server:
            assert server.first_key is not None
            keys = await cases.run("keys", url=server.ws_url, key=server.first_key.reveal())
        assert (keys["command"]["code"], keys["http"]["code"], keys["state"]) == (
            "unauthenticated",
            "unauthenticated",
            "refused",
        )
        assert keys["said"] == "Let me in"
        assert "agent:use" in keys["permissions"]

        port = free_port()
        async with contextlib.AsyncExitStack() as servers:
            first = await servers.enter_async_context(contextlib.AsyncExitStack())
            await first.enter_async_context(server_process(tmp_path, port, "wait"))

            async def kill() -> None:
                await first.aclose()
                await servers.enter_async_context(server_process(tmp_path, port, "go"))

            killed = await cases.run("killed", kill, url=f"ws://127.0.0.1:{port}/ws")
        assert killed["turn"]["text"] == killed["stored"][-1]
        assert killed["stored"][0] == "Tell me"
        assert killed["stored"][-1].startswith("before ")
        assert killed["stored"][-1].endswith("after")
        assert (killed["turn"]["outcome"], killed["turn"]["isOnce"], len(killed["stored"])) == ("completed", True, 2)
