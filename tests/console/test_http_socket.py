"""The console in a network that lets no WebSocket through."""

import anyio
from playwright.async_api import expect
from tests.console.conftest import Open
from tests.console.test_journeys import IN_MEMORY, driver, say

from agentvm import start_server
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import Pause, ScriptStep, reply

BLOCKED = """window.WebSocket = class {
  constructor() { setTimeout(() => this.onclose({ code: 1006 })); }
  send() {}
  close() {}
}"""


async def test_an_answer_is_streamed_without_a_websocket(open_page: Open) -> None:
    gate = anyio.Event()

    def script(prompt: Prompt) -> list[ScriptStep]:
        start, text, first, *rest = reply("It begins", " and goes on")
        return [start, text, first, Pause(gate), *rest]

    async with start_server(IN_MEMORY, drivers=driver(script)) as server:
        page = await open_page(server.url)
        await page.add_init_script(BLOCKED)
        await page.reload()
        # The agents are asked for when there is a connection.
        await expect(page.locator(".agent").first).to_be_visible()
        await say(page, "Hello")
        await expect(page.locator(".answer")).to_have_text("It begins")
        other = await open_page(page.url)
        await expect(other.locator(".answer")).to_have_text("It begins")
        gate.set()
        for window in (page, other):
            await expect(window.locator(".bill")).to_be_visible()
            await expect(window.locator(".answer")).to_have_text("It begins and goes on")
        await page.reload()
        await expect(page.locator(".answer")).to_have_text("It begins and goes on")
        await expect(page.locator(".log")).to_have_attribute("aria-busy", "false")
