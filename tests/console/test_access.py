"""Every page of the console for everybody: what axe finds, in both themes and languages, and no page that scrolls sideways."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Browser, Page, expect
from tests.console.conftest import DEADLINE_MS, PHONE
from tests.console.pages import PAGES, Visit, filled_server

from agentvm.server.console import DIRECTORY

AXE = Path(__file__).parents[2] / "console" / "node_modules" / "axe-core" / "axe.min.js"
VIOLATIONS = (
    """async () => (await axe.run()).violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html}`))"""
)
LANGUAGES = {"zh": "zh-CN", "en": "en"}
"""Chinese first: its words are loaded with a page, those of English are part of it."""
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
SPEAK = """language => dispatchEvent(new StorageEvent("storage", { key: "avm.language", newValue: language }))"""
"""The choice of a language in another tab."""
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture
def axe() -> str:
    if not AXE.exists() or not (DIRECTORY / "index.html").exists():
        pytest.skip("axe: it is not installed, or the console is not built; python console/build.py --checkers")
    return AXE.read_text(encoding="utf-8")


async def looks(page: Page) -> AsyncIterator[str]:
    """Shows a page, which was opened in Chinese, in both languages and both themes, changed in place."""
    for language in LANGUAGES:
        await speak(page, language)
        for theme in THEMES:
            await page.emulate_media(color_scheme=theme)
            yield f"{theme}-{language}"
    # For the next page: a browser keeps its language.
    await speak(page, "zh")


async def speak(page: Page, language: str) -> None:
    await page.evaluate(SPEAK, language)
    await expect(page.locator("html")).to_have_attribute("lang", LANGUAGES[language])


async def violations(page: Page, axe: str) -> list[str]:
    # The policy of the page forbids the script; the browser's own door lets it in.
    await page.evaluate(axe)
    found: list[str] = []
    async for look in looks(page):
        faults: list[str] = await page.evaluate(VIOLATIONS)
        found += (f"{look}: {fault}" for fault in faults)
    return found


@pytest.mark.parametrize("visit", PAGES, ids=lambda visit: visit.__name__)
async def test_a_page_has_no_fault_in_either_theme_or_language_and_fits_a_phone(
    browser: Browser, axe: str, visit: Visit
) -> None:
    async with filled_server() as filled:
        async with await browser.new_context(locale="zh-CN", reduced_motion="reduce", service_workers="block") as context:
            page = await context.new_page()
            page.set_default_timeout(DEADLINE_MS)
            await visit(page, filled)
            assert await violations(page, axe) == []
        context = await browser.new_context(
            viewport=PHONE, locale="zh-CN", has_touch=True, is_mobile=True, service_workers="block"
        )
        async with context:
            page = await context.new_page()
            page.set_default_timeout(DEADLINE_MS)
            await visit(page, filled)
            assert await page.evaluate(OVERFLOW) == 0
            composer = page.locator(".composer")
            if await composer.count() > 0:
                await expect(composer).to_be_in_viewport(ratio=1)
