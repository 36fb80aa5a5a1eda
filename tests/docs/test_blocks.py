import ast
import inspect
import io
import json
import re
import types
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stdout
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.docs.documents import PAGES, Block, blocks, name, read
from tests.examples.scripts import EXAMPLES, environment

from agentvm import AgentX, ScriptedDriver, ServerConfig, create_agentx, local_runtime, remote_runtime, start_server
from agentvm.config import MEMORY, SystemSettings
from agentvm.drivers.base import MessageStarted, Prompt
from agentvm.drivers.scripted import Script, ScriptStep, echo
from agentvm.errors import ProviderOverloaded

URL = "ws://localhost:8080/ws"
HTTP_URL = "http://localhost:8080"

READMES = ("README.md", "README.zh-CN.md")

with_readmes = pytest.mark.parametrize("page", READMES)
with_python = pytest.mark.parametrize("page", [page for page in PAGES if blocks(read(page), "python")], ids=name)


def fail(prompt: Prompt) -> list[ScriptStep]:
    return [MessageStarted("", "scripted"), ProviderOverloaded("The model is overloaded")]


@asynccontextmanager
async def fresh_runtime(where: str, script: Script = echo) -> AsyncIterator[tuple[AgentX, str]]:
    """An empty runtime that echoes, in memory; reached within the process or over its socket."""
    source = local_runtime(ServerConfig(system=SystemSettings(data_dir=MEMORY)), drivers={"scripted": ScriptedDriver(script)})
    async with create_agentx(source) as here:
        assert here.server is not None
        url = f"ws://127.0.0.1:{await here.server.listen(port=0)}/ws"
        if where == "local":
            yield here, url
        else:
            async with create_agentx(remote_runtime(url)) as there:
                yield there, url


async def run(block: Block, names: dict[str, object], url: str) -> str:
    """Runs a whole script as such, and anything else as the body of an asynchronous function."""
    text = block.text.replace(URL, url).replace(HTTP_URL, url.replace("ws", "http", 1).removesuffix("/ws"))
    source = "\n" * (block.line - 1) + text
    code = compile(source, "documentation", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    with redirect_stdout(io.StringIO()) as out:
        if "anyio.run(" in block.text:
            await anyio.to_thread.run_sync(exec, code, names)
        elif code.co_flags & inspect.CO_COROUTINE:
            await types.FunctionType(code, names)()
        else:
            exec(code, names)
    return out.getvalue()


@with_python
@pytest.mark.parametrize("where", ["local", "remote"])
async def test_python_blocks_run_in_order_and_print_what_is_written_below_them(
    page: Path, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As the reader of such a page has it; the server of this test asks for none.
    monkeypatch.setenv("AVM_KEY", "avm_of_the_reader")
    monkeypatch.setenv("no_proxy", "*")
    with anyio.fail_after(60):
        async with fresh_runtime(where) as (agentx, url):
            names: dict[str, object] = {"__name__": "__main__", "agentx": agentx}
            for block in blocks(read(page), "python"):
                printed = await run(block, names, url)
                if block.output is not None:
                    assert printed == block.output, f"{name(page)}:{block.line}"


@with_readmes
async def test_the_python_block_of_the_readme_says_what_failed_and_ends(page: str) -> None:
    (block,) = blocks(read(page), "python")
    with anyio.fail_after(60):
        async with fresh_runtime("local", fail) as (_, url):
            assert await run(block, {"__name__": "__main__"}, url) == "The model is overloaded\n"


async def run_js(node: Path, folder: Path, text: str) -> tuple[int, str, str]:
    """agentxjs itself is not needed: examples/node_client.mjs offers the same calls and sends the same frames."""
    package = folder / "node_modules" / "agentxjs"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "agentxjs", "type": "module", "main": "index.js"}')
    (package / "index.js").write_text(f'export {{ createAgentX }} from "{(EXAMPLES / "node_client.mjs").as_uri()}";')
    (folder / "main.mjs").write_text(text)
    with anyio.fail_after(60):
        done = await anyio.run_process([str(node), "main.mjs"], cwd=folder, env=environment(), check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@with_readmes
async def test_the_agentxjs_block_works_with_a_client_of_the_same_surface(page: str, node: Path, tmp_path: Path) -> None:
    (block,) = blocks(read(page), "js")
    async with fresh_runtime("local") as (agentx, url):
        assert await run_js(node, tmp_path, block.text.replace(URL, url)) == (0, "Hello!", "")
        records = await agentx.images.list("user-alice")
    assert [record.name for record in records] == ["My Assistant"]


@with_readmes
async def test_the_agentxjs_block_says_what_failed_and_ends(page: str, node: Path, tmp_path: Path) -> None:
    (block,) = blocks(read(page), "js")
    async with fresh_runtime("local", fail) as (_, url):
        text = block.text.replace(URL, url)
        assert await run_js(node, tmp_path / "failed", text) == (1, "", "The model is overloaded\n")
        refused = text.replace('"Hello!"', '""')
        assert await run_js(node, tmp_path / "refused", refused) == (1, "", "content must not be empty\n")


@with_readmes
async def test_the_agentxjs_block_says_that_a_key_is_needed(page: str, node: Path, tmp_path: Path) -> None:
    (block,) = blocks(read(page), "js")
    config = ServerConfig(system=SystemSettings(port=0, shutdown_seconds=0, data_dir=MEMORY, auth="on"))
    async with start_server(config, drivers={"scripted": ScriptedDriver()}) as server:
        code, out, err = await run_js(node, tmp_path, block.text.replace(URL, server.ws_url))
    assert (code, out) == (1, "")
    assert err.startswith("Authentication is needed before anything else")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_json_blocks_are_json(page: Path) -> None:
    for block in blocks(read(page), "json"):
        json.loads(block.text)


def without_comments(text: str) -> str:
    """What is to be read and not run may be translated: comments, and what the reader fills in."""
    return re.sub(r"(?m)(^|\s)(#|//) .*$|<[^>]*>", "", text)


def test_both_readmes_show_the_same_code() -> None:
    for language in ("text", "sh", "js", "python"):
        english, chinese = ([without_comments(block.text) for block in blocks(read(page), language)] for page in READMES)
        assert english == chinese != []


async def test_a_block_that_prints_something_else_is_seen() -> None:
    (block,) = blocks("# A\n\n```python\nprint(await agentx())\n```\n\n```text\n1\n```\n", "python")

    async def two() -> int:
        return 2

    assert (await run(block, {"agentx": two}, ""), block.output) == ("2\n", "1\n")
