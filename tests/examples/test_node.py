import re
from pathlib import Path

import anyio
from tests.examples.scripts import EXAMPLES, IN_MEMORY, NOBODY, environment, talk

from agentvm import ScriptedDriver, start_server


async def run(node: Path, url: str, content: str, *options: str) -> tuple[int, str, str]:
    command = [str(node), *options, str(EXAMPLES / "node_client.mjs"), url, content]
    with anyio.fail_after(60):
        done = await anyio.run_process(command, env=environment(), check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def test_the_node_client_prints_the_reply_and_acknowledges_what_it_reads(node: Path) -> None:
    async with start_server(IN_MEMORY, drivers={"scripted": ScriptedDriver()}) as server:
        code, out, err = await run(node, server.ws_url, "Hello there")
        records = await server.agentx.images.list("user-alice")
    assert (code, out) == (0, "Hello there\n")
    assert re.fullmatch(r"completed; 2 tokens in, 2 out; \d\d frames acknowledged\n", err)
    assert [record.name for record in records] == ["My Assistant"]


async def test_the_node_client_shows_tool_calls(node: Path) -> None:
    async with start_server(IN_MEMORY, drivers={"scripted": ScriptedDriver(talk)}) as server:
        code, out, _ = await run(node, server.ws_url, "tool please")
    assert code == 0
    assert out.startswith('Let me see.\n[calculator {"expression":"(2 + 3) * 4"}]\n')
    assert out.endswith("tool please\n")


async def test_the_node_client_reports_a_failed_turn(node: Path) -> None:
    async with start_server(IN_MEMORY, drivers={"scripted": ScriptedDriver(talk)}) as server:
        code, _, err = await run(node, server.ws_url, "fail please")
    assert code == 1
    assert err.startswith("The model is overloaded; try again later (provider_overloaded)\nfailed; ")


async def test_the_node_client_reports_a_refused_command(node: Path) -> None:
    async with start_server(IN_MEMORY, drivers={"scripted": ScriptedDriver()}) as server:
        code, _, err = await run(node, server.ws_url, "")
    assert (code, err) == (1, "content must not be empty (invalid_input)\n")


async def test_the_node_client_says_that_nobody_listens(node: Path) -> None:
    code, out, err = await run(node, NOBODY, "Hello")
    assert (code, out, err) == (1, "", f"Cannot connect to {NOBODY}\n")


async def test_the_node_client_says_that_it_needs_a_newer_node(node: Path) -> None:
    # Before version 22 there was no WebSocket without a flag.
    code, out, err = await run(node, NOBODY, "Hello", "--no-experimental-websocket")
    assert (code, out) == (1, "")
    assert err.startswith("This needs Node 22 or newer; this is Node ")
