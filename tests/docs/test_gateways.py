"""Every gateway has a page with the few lines that its user types, which work, and the index and README lead to it."""

import ast
import json
import re
import types
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from tests.docs.documents import DOCS, ROOT
from tests.gateways.anthropic.test_messages import whole
from tests.gateways.relays import relay_scene
from tests.provision.clients import Clients

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import MEMORY, SystemSettings
from agentvm.gateways.routes import Gateway
from agentvm.server.http.gateways import GATEWAYS

PAGES = {
    "openai": "openai.md",
    "anthropic": "anthropic.md",
    "mcp": "mcp.md",
    "langgraph": "langgraph.md",
    "agui": "ag-ui.md",
    "ai_sdk": "ai-sdk.md",
    "a2a": "a2a.md",
}
OTHERS = ("plain-http.md", "protocol-2x.md", "channels.md", "webhooks.md")
LINES_MAX = 4
"""Besides imports."""


def test_every_gateway_has_a_page() -> None:
    assert PAGES.keys() == {gateway.name for gateway in GATEWAYS}


@pytest.mark.parametrize("gateway", GATEWAYS, ids=lambda gateway: gateway.name)
def test_a_page_begins_with_the_lines_that_a_user_types(gateway: Gateway) -> None:
    page = (DOCS / PAGES[gateway.name]).read_text(encoding="utf-8")
    title, block = re.match(r"# .+\n\n```\w+\n(.*?)```", page, re.DOTALL), re.findall(r"```\w+\n(.*?)```", page, re.DOTALL)
    assert title is not None
    lines = [line for line in title[1].splitlines() if line.strip() and not line.startswith(("from ", "import "))]
    assert len(lines) <= LINES_MAX
    assert any(prefix in "".join(block) for prefix in gateway.prefixes)


def first_block(page: str, url: str, key: str, language: str = r"\w+") -> str:
    """The first lines of a page in a language, for the server of a test."""
    block = re.search(rf"```{language}\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    return block[1].replace("http://localhost:8080", url).replace("avm_…", key)


@asynccontextmanager
async def guarded() -> AsyncIterator[tuple[str, str]]:
    """The address of a server that wants a key, and the key."""
    config = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY, auth="on", shutdown_seconds=0))
    async with start_server(config, drivers={"scripted": ScriptedDriver()}) as server:
        assert server.first_key is not None
        yield server.url, server.first_key.reveal()


async def run_python(lines: str) -> dict[str, Any]:
    """Runs lines that may await, beside the server; returns their variables."""
    names: dict[str, Any] = {}
    code = compile(lines, "page", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    if code.co_flags & 0x80:
        await types.FunctionType(code, names)()
    else:
        await anyio.to_thread.run_sync(types.FunctionType(code, names))
    return names


async def test_the_lines_of_the_pages_in_python_are_answered() -> None:
    with anyio.fail_after(60):
        async with guarded() as (url, key):
            chat = await run_python(first_block("openai.md", url, key))
            assert chat["answer"].choices[0].message.content == "Hello!"
            chat["client"].close()
            run = await run_python(first_block("langgraph.md", url, key))
            assert run["values"]["messages"][-1]["content"] == "Hello!"
            await run["client"].aclose()
            asked = await run_python(first_block("a2a.md", url, key))
            assert "Hello!" in "".join(asked["texts"])
            await asked["client"].close()
            await asked["http"].aclose()
            called = await run_python(first_block("mcp.md", url, key, "py"))
            assert called["result"].structured_content["answer"] == "Hello!"
            await called["http"].aclose()


async def test_the_lines_about_models_themselves_are_answered() -> None:
    async with relay_scene() as scene:
        scene.provider.play(whole())
        lines = first_block("anthropic.md", scene.url, "any", "py")
        message = (await run_python(lines))["message"]
        assert message.content[0].text == "Hi."


AGENT = "console.log(JSON.stringify(agent.messages.at(-1).content));"
TRANSPORT = """
const messages = [{ id: "1", role: "user", parts: [{ type: "text", text: "Hello!" }] }];
const chunks = await chat.sendMessages({ chatId: "c", messages, trigger: "submit-message" });
let text = "";
for await (const chunk of chunks) text += chunk.delta ?? "";
console.log(JSON.stringify(text));
"""


async def test_the_lines_of_the_pages_in_javascript_are_answered(clients: Clients) -> None:
    async with guarded() as (url, key):
        given = f"const key = {json.dumps(key)};\n"
        run = f"{given}{first_block('ag-ui.md', url, key)}{AGENT}"
        assert json.loads(await clients.run(run)) == "Hello!"
        # The hook belongs into a page; what the page says is what it sends through.
        lines = first_block("ai-sdk.md", url, key).replace('import { useChat } from "@ai-sdk/react";', "")
        chat = f"const useChat = ({{ transport }}) => transport;\n{given}{lines}{TRANSPORT}"
        assert json.loads(await clients.run(chat)) == "Hello!"


@pytest.mark.parametrize("page", [*PAGES.values(), *OTHERS])
def test_the_index_leads_to_every_page(page: str) -> None:
    assert f"({page})" in (DOCS / "gateways.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("readme", ["README.md", "README.zh-CN.md"])
def test_the_readme_has_a_table_of_what_connects(readme: str) -> None:
    text = (ROOT / readme).read_text(encoding="utf-8")
    assert "docs/gateways.md" in text
    for address in ("/v1", "/anthropic", "/mcp", "/langgraph", "/a2a/", "/ag-ui/", "/ai-sdk/", "/ws"):
        assert re.search(rf"(localhost:8080|…){address}", text), address
