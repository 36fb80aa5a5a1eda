"""The three apps of the examples, in both languages, with a model that does what it is told to."""

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import anyio
import pytest
from playwright.async_api import Browser, expect
from tests.examples.scripts import CLIENT, EXAMPLES, IN_MEMORY, NOBODY, environment
from tests.examples.test_browser import DEADLINE_MS
from tests.support.web import Asked, Replied, web

from agentvm import ScriptedDriver, start_server
from agentvm.drivers.base import Prompt, ToolResultsEntry, UserEntry
from agentvm.drivers.scripted import ScriptStep, last_user_text, reply, tool_calls
from agentvm.model.tool_settings import ToolSearchSettings, ToolSettings


async def run(command: list[str], url: str, given: str = "") -> tuple[int, str, str]:
    with anyio.fail_after(60):
        done = await anyio.run_process(command, env=environment(AVM_WS=url), input=given.encode(), check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


async def push(url: str) -> None:
    avm = "from agentvm.cli.main import main; main()"
    command = [sys.executable, "-c", avm, "resource", "push", str(EXAMPLES / "sales" / "resources"), "--url", url]
    with anyio.fail_after(60):
        done = await anyio.run_process(command, env=environment(), check=False)
    assert done.returncode == 0, done.stderr.decode()


def sell(prompt: Prompt) -> Iterable[ScriptStep]:
    """Looks the price up, searches the web, calculates, and tells what it has found."""
    if isinstance(prompt.conversation[-1], UserEntry):
        words: dict[str, object] = {"query": last_user_text(prompt)}
        total: dict[str, object] = {"code": "print(2 * 640 * 0.92)"}
        return tool_calls(
            ("c1", "search_knowledge", words), ("c2", "web_search", words), ("c3", "run_python", total), text="Let me see. "
        )
    entry = prompt.conversation[-1]
    assert isinstance(entry, ToolResultsEntry)
    assert prompt.system is not None
    return reply(f"{prompt.system.splitlines()[0]} " + " | ".join(result.output.text for result in entry.results))


@pytest.mark.parametrize(
    ("options", "question", "role", "passage"),
    [
        ([], "What does a Fjord cost?", "You are the sales assistant", "Fjord city bike | $640"),
        (["--zh"], "峡湾多少钱？", "你是北风自行车的销售助理", "峡湾 城市车 | 4,600 元"),
    ],
)
async def test_the_sales_assistant_knows_the_documents_the_web_and_python(
    options: list[str], question: str, role: str, passage: str
) -> None:
    def search(asked: Asked) -> Replied:
        hits = [{"title": "Bikes", "url": "https://a.example/", "content": "rain tomorrow"}]
        return Replied(body=json.dumps({"results": hits}).encode())

    async with web(search) as engine:
        settings = ToolSettings(search=ToolSearchSettings(engine="searxng", url=engine.url("/")))
        async with start_server(replace(IN_MEMORY, tools=settings), drivers={"scripted": ScriptedDriver(sell)}) as server:
            await push(server.url)
            command = [sys.executable, str(EXAMPLES / "sales" / "sales.py"), *options, question]
            await run(command, server.ws_url)
            code, out, err = await run(command, server.ws_url)
            assert len(await server.agentx.images.list("customer-1")) == 1
    assert (code, err) == (0, "")
    assert role in out
    assert passage in out
    assert "rain tomorrow" in out
    assert "1177.6" in out


def translate(prompt: Prompt) -> Iterable[ScriptStep]:
    assert prompt.system is not None
    return reply(f"[{prompt.system.splitlines()[0]}] {last_user_text(prompt)}")


@pytest.mark.parametrize(("options", "instruction"), [(["German"], "into German"), (["--zh", "简体中文"], "译成简体中文")])
async def test_the_translator_translates_each_paragraph(node: Path, options: list[str], instruction: str) -> None:
    if not CLIENT.exists():
        pytest.skip("client: it is not built; make console")
    async with start_server(IN_MEMORY, drivers={"scripted": ScriptedDriver(translate)}) as server:
        command = [str(node), str(EXAMPLES / "translator.mjs"), *options]
        await run(command, server.ws_url, "Zero.")
        code, out, err = await run(command, server.ws_url, "One.\n\nTwo,\nstill two.\n")
        assert len(await server.agentx.images.list("translations")) == 1
    assert (code, err) == (0, "")
    first, second = out.strip().split("\n\n")
    assert instruction in first
    assert first.endswith("One.")
    assert second.endswith("Two,\nstill two.")


async def test_the_translator_says_that_nobody_listens(node: Path) -> None:
    if not CLIENT.exists():
        pytest.skip("client: it is not built; make console")
    code, out, err = await run([str(node), str(EXAMPLES / "translator.mjs")], NOBODY, "One.")
    assert (code, out) == (1, "")
    assert err.strip()


def code(prompt: Prompt) -> Iterable[ScriptStep]:
    if isinstance(prompt.conversation[-1], UserEntry):
        return tool_calls(("c1", "run_python", {"code": "print(6 * 7)"}))
    return reply("Done.")


@pytest.mark.parametrize(("query", "title", "label"), [("", "A coding helper", "Task"), ("zh&", "编程助手", "任务")])
async def test_the_coding_helper_runs_code_and_shows_it(
    browser: Browser, site: str, query: str, title: str, label: str
) -> None:
    async with start_server(IN_MEMORY, drivers={"scripted": ScriptedDriver(code)}) as server:
        page = await browser.new_page()
        page.set_default_timeout(DEADLINE_MS)
        await page.goto(f"{site}/coding.html?{query}server={quote(server.ws_url, safe='')}")
        await expect(page.get_by_role("heading")).to_have_text(title)
        await page.get_by_label(label).fill("What is 6 * 7?")
        await page.get_by_role("button").click()
        await expect(page.locator(".tool")).to_contain_text("42")
        await expect(page.locator(".assistant")).to_have_text("Done.")
        await page.close()
