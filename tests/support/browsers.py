"""Browsers — one headless Chromium for many tests, which get a context each."""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, Error, async_playwright
from tests.provision.chromium import FLAGS, Chromium

Launch = Callable[[], Awaitable[Browser]]


@asynccontextmanager
async def browser_launcher(chromium: Chromium) -> AsyncIterator[Launch]:
    """Returns the same browser each time, unless it has crashed."""
    launched: list[Browser] = []

    async def launch() -> Browser:
        if not launched or not launched[-1].is_connected():
            try:
                started = await playwright.chromium.launch(
                    executable_path=chromium.executable, args=list(FLAGS), env={**os.environ, **chromium.env}
                )
            except Error as error:
                pytest.skip(f"chromium: {chromium.executable} does not launch: {error.message.splitlines()[0]}")
            launched.append(started)
        return launched[-1]

    async with async_playwright() as playwright:
        yield launch
        for browser in launched:
            await browser.close()
