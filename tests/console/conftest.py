from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from playwright.async_api import Browser, Page, ViewportSize, expect
from tests.provision.chromium import Chromium
from tests.support.browsers import Launch, browser_launcher

from agentvm.server.console import DIRECTORY

DEADLINE_MS = 60_000
DESK, PHONE = ViewportSize(width=1180, height=760), ViewportSize(width=360, height=640)
LARGE_PHONE = ViewportSize(width=390, height=844)
MAGNIFIED = ViewportSize(width=320, height=256)
"""A window of 1280 by 1024 at 400 %."""

UNFETCHED = "Failed to fetch dynamically imported module"
"""The error of a page whose server ended with the test while it was loading more; one that lacks a part does not show it."""

expect.set_options(timeout=DEADLINE_MS)

Open = Callable[..., Awaitable[Page]]


@pytest.fixture(scope="package")
async def launcher(chromium: Chromium) -> AsyncIterator[Launch]:
    """One browser for all modules of this package: most of them have a test or two."""
    async with browser_launcher(chromium) as launch:
        yield launch


@pytest.fixture
async def open_page(browser: Browser) -> AsyncIterator[Open]:
    """Opens pages of the console. A page that raises an error, or breaks its own security policy, fails the test."""
    if not (DIRECTORY / "index.html").exists():
        pytest.skip("console: it is not built; make console")
    complaints: list[str] = []

    async def open_(address: str, *, viewport: ViewportSize = DESK, language: str = "en") -> Page:
        context = await browser.new_context(viewport=viewport, locale=language, service_workers="block")
        context.set_default_timeout(DEADLINE_MS)
        page = await context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)) if UNFETCHED not in str(error) else None)
        page.on("console", lambda line: complaints.append(line.text) if "Content Security Policy" in line.text else None)
        await page.goto(address)
        return page

    yield open_
    assert complaints == []
