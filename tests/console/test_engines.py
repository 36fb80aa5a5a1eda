"""The journeys that differ between browsers, in Firefox and WebKit, where the machine has those that Playwright drives."""

from collections.abc import AsyncIterator

import pytest
from anyio import Path as AsyncPath
from playwright.async_api import Browser, async_playwright, expect
from tests.console.conftest import DEADLINE_MS, DESK
from tests.console.test_journeys import IN_MEMORY, driver, say

from agentvm import start_server
from agentvm.drivers.scripted import echo
from agentvm.server.console import DIRECTORY

HOSTILE = '<img src=x onerror="document.title=1"> **bold** [a](javascript:alert(1))'
COMPOSE = """(field) => {
  const enter = { key: "Enter", bubbles: true, cancelable: true };
  field.dispatchEvent(new KeyboardEvent("keydown", { ...enter, isComposing: true }));
  field.dispatchEvent(new KeyboardEvent("keydown", { ...enter, keyCode: 229 }));
}"""


@pytest.fixture(params=["firefox", "webkit"])
async def engine(request: pytest.FixtureRequest) -> AsyncIterator[Browser]:
    if not (DIRECTORY / "index.html").exists():
        pytest.skip("console: it is not built; make console")
    async with async_playwright() as playwright:
        kind = getattr(playwright, request.param)
        if not await AsyncPath(kind.executable_path).exists():
            pytest.skip(f"{request.param}: it is not installed; python -m playwright install {request.param}")
        browser = await kind.launch()
        async with browser:
            yield browser


async def test_another_engine_answers_keeps_and_shows_texts_as_texts(engine: Browser) -> None:
    async with start_server(IN_MEMORY, drivers=driver(echo)) as server:
        context = await engine.new_context(viewport=DESK, locale="en", service_workers="block")
        context.set_default_timeout(DEADLINE_MS)
        page = await context.new_page()
        await page.goto(server.url)
        await say(page, HOSTILE)
        await expect(page.locator(".bill")).to_be_visible()
        await expect(page.locator(".said")).to_have_text(HOSTILE)
        await expect(page.locator(".answer strong")).to_have_text("bold")
        await expect(page.locator(".log img, .log a[href^='javascript']")).to_have_count(0)
        live = await page.locator(".log-inner").text_content() or ""
        await page.reload()
        await expect(page.locator(".log")).to_have_attribute("aria-busy", "false")
        await expect(page.locator(".log-inner")).to_have_text(live)
        field = page.get_by_label("Message", exact=True)
        await field.fill("zhongwen")
        await field.evaluate(COMPOSE)
        await expect(field).to_have_value("zhongwen")
        await page.keyboard.press("Control+k")
        await expect(page.locator(".palette input")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(field).to_be_focused()
