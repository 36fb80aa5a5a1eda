from collections.abc import Iterable
from urllib.parse import quote

from playwright.async_api import Browser, Page, expect
from tests.examples.scripts import IN_MEMORY

from agentvm import ScriptedDriver, start_server
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptStep, echo, last_user_text
from agentvm.errors import ProviderRateLimited
from agentvm.runtime.channel import GOING_AWAY

DEADLINE_MS = 60_000

expect.set_options(timeout=DEADLINE_MS)


def script(prompt: Prompt) -> Iterable[ScriptStep]:
    if last_user_text(prompt) == "fail":
        raise ProviderRateLimited("too many requests")
    return echo(prompt)


async def say(page: Page, text: str) -> None:
    await page.get_by_label("Message").fill(text)
    await page.keyboard.press("Enter")


async def test_the_page_shows_answers_and_failures_and_comes_back_after_a_cut(browser: Browser, site: str) -> None:
    complaints: list[str] = []
    async with start_server(IN_MEMORY, drivers={"scripted": ScriptedDriver(script)}) as server:
        page = await browser.new_page()
        page.set_default_timeout(DEADLINE_MS)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        await page.goto(f"{site}/index.html?server={quote(server.ws_url, safe='')}")
        state = page.get_by_role("status")
        await expect(state).to_have_text("Connected")
        await say(page, "Hello <b>there</b>")
        await expect(page.locator(".assistant")).to_have_text("Hello <b>there</b>")
        await say(page, "fail")
        await expect(page.locator(".error")).to_contain_text("too many requests")
        for channel in server.server.vm.runtime.broadcaster.channels:
            channel.close(GOING_AWAY)
        await expect(state).to_have_text("Reconnecting")
        await expect(state).to_have_text("Connected")
        await say(page, "again")
        await expect(page.locator(".assistant").last).to_have_text("again")
        await page.close()
    assert complaints == []
