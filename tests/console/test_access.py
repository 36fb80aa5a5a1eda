"""Every page of the console for everybody: what axe finds, in both themes and languages, and no page that scrolls sideways."""

from collections.abc import AsyncIterator, Iterable
from itertools import product
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Page, ViewportSize, expect
from tests.console.builder_pages import BUILDER_PAGES
from tests.console.conftest import DEADLINE_MS, DESK, LARGE_PHONE, MAGNIFIED, PHONE
from tests.console.operator_pages import OPERATOR_PAGES
from tests.console.pages import PAGES, Filled, Visit, attached, filled_server, login, missing, offline
from tests.console.route_table import read_routes
from tests.support.browsers import Launch

from agentvm.server.console import DIRECTORY

HERE = Path(__file__).parent
AXE = HERE.parents[1] / "console" / "node_modules" / "axe-core" / "axe.min.js"
VIOLATIONS = """async () => {
  const found = await axe.run({ resultTypes: ["violations"], preload: false });
  return found.violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html}`));
}"""
LANGUAGES = {"zh": "zh-CN", "en": "en"}
"""Chinese first: its words are loaded with a page, those of English are part of it."""
Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
LOOKS = tuple(product(LANGUAGES, THEMES))
EACH_ONCE: tuple[tuple[str, Theme], ...] = (("zh", "light"), ("en", "dark"))
"""Names do not depend on the theme, nor colours on the words: both languages and both themes are in two looks."""
SPEAK = """language => dispatchEvent(new StorageEvent("storage", { key: "avm.language", newValue: language }))"""
"""The choice of a language in another tab."""
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"
LENGTHEN = """() => {
  const parts = "h1, h2, h3, label, button, th, dt, legend, .tabs a, .btn, .hint, .empty, .menu-item";
  for (const part of document.querySelectorAll(parts)) {
    for (const node of part.childNodes) {
      if (node.nodeType !== Node.TEXT_NODE || node.data.trim() === "") continue;
      node.data += "\u00e4".repeat(Math.ceil(node.data.length * 0.4));
    }
  }
}"""
"""Makes the words of a page longer by two fifths, as another language would. Nothing is read off the page afterwards."""
SHOWN_ON = "([width, touched]) => innerWidth === width && matchMedia('(pointer: coarse)').matches === touched"


@pytest.fixture
def axe() -> str:
    if not AXE.exists() or not (DIRECTORY / "index.html").exists():
        pytest.skip("axe: it is not installed, or the console is not built; python console/build.py --checkers")
    return AXE.read_text(encoding="utf-8")


async def looks(page: Page, chosen: Iterable[tuple[str, Theme]] = LOOKS) -> AsyncIterator[str]:
    """Shows a page, which was opened in Chinese, in both languages and both themes, changed in place."""
    spoken = "zh"
    for language, theme in chosen:
        if language != spoken:
            await speak(page, language)
            spoken = language
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
    async for look in looks(page, EACH_ONCE):
        faults: list[str] = await page.evaluate(VIOLATIONS)
        found += (f"{look}: {fault}" for fault in faults)
    return found


async def small_screens(page: Page, *sizes: ViewportSize) -> AsyncIterator[ViewportSize]:
    """Shows a page on touch screens, in place, as only styles of the console know the width; on a desk again afterwards."""
    device = await page.context.new_cdp_session(page)
    await device.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    for size in sizes:
        await device.send("Emulation.setDeviceMetricsOverride", {**size, "deviceScaleFactor": 1, "mobile": True})
        await page.wait_for_function(SHOWN_ON, arg=[size["width"], True])
        yield size
    await device.send("Emulation.setTouchEmulationEnabled", {"enabled": False})
    await device.send("Emulation.clearDeviceMetricsOverride")
    await device.detach()
    await page.set_viewport_size(DESK)
    await page.wait_for_function(SHOWN_ON, arg=[DESK["width"], False])


async def faults_of(page: Page, axe: str) -> list[str]:
    """What axe finds on a page of a desk, and the screens on which it scrolls sideways with the words of a longer language."""
    found = await violations(page, axe)
    await page.evaluate(LENGTHEN)
    if await page.evaluate(OVERFLOW) != 0:
        found.append("wider than a desk with longer words")
    async for size in small_screens(page, MAGNIFIED, LARGE_PHONE, PHONE):
        if await page.evaluate(OVERFLOW) != 0:
            found.append(f"wider than a screen of {size['width']} pixels")
    return found


@pytest.fixture(scope="module")
async def filled() -> AsyncIterator[Filled]:
    async with filled_server() as server:
        yield server


def test_every_route_is_among_the_pages_that_are_looked_at() -> None:
    visits = "".join((HERE / name).read_text("utf-8") for name in ("builder_pages.py", "operator_pages.py"))
    # Those of people and money are taken from the table of routes.
    routes = [route.path.partition(":")[0] for route in read_routes() if route.source != "people"]
    assert len(routes) > 20
    assert [path for path in routes if f"server.url}}{path}" not in visits] == []


LEAVING_TRACES = {attached, login, missing, offline}
"""Visits after which the page is not as it was: requests are answered by the test, or a message waits in the browser."""


@pytest.fixture(scope="module")
async def pages(launcher: Launch) -> AsyncIterator[list[Page]]:
    """The page of the tests before, if it can be used again: a new one takes a third of what a test costs."""
    kept: list[Page] = []
    yield kept
    for page in kept:
        await page.context.close()


async def open_page(launcher: Launch) -> Page:
    browser = await launcher()
    context = await browser.new_context(viewport=DESK, locale="zh-CN", reduced_motion="reduce", service_workers="block")
    page = await context.new_page()
    page.set_default_timeout(DEADLINE_MS)
    return page


@pytest.mark.parametrize("visit", [*OPERATOR_PAGES, *BUILDER_PAGES, *PAGES], ids=lambda visit: visit.__name__)
async def test_a_page_has_no_fault_in_either_theme_or_language_and_fits_a_phone(
    launcher: Launch, pages: list[Page], axe: str, visit: Visit, filled: Filled
) -> None:
    page = pages.pop() if pages and visit not in LEAVING_TRACES else await open_page(launcher)
    await visit(page, filled)
    assert await faults_of(page, axe) == []
    composer = page.locator(".composer")
    if visit in PAGES and await composer.count() > 0:
        async for _ in small_screens(page, PHONE):
            await expect(composer).to_be_in_viewport(ratio=1)
    if visit in LEAVING_TRACES:
        await page.context.close()
    else:
        pages.append(page)
