"""The pages of the wings for everybody: what axe finds, and no page that scrolls sideways."""

import pytest
from playwright.async_api import Browser
from tests.console.builder_pages import BUILDER_PAGES
from tests.console.conftest import DEADLINE_MS, MAGNIFIED, PHONE
from tests.console.operator_pages import OPERATOR_PAGES
from tests.console.pages import Visit, filled_server
from tests.console.test_access import OVERFLOW, axe, violations

from agentvm.server.console import DIRECTORY

__all__ = ["axe"]


WINGS = pytest.mark.parametrize("pages", [BUILDER_PAGES, OPERATOR_PAGES], ids=["builder", "operator"])


@WINGS
async def test_no_page_of_a_wing_has_a_fault_in_either_theme_or_language(
    browser: Browser, axe: str, pages: tuple[Visit, ...]
) -> None:
    faults: dict[str, list[str]] = {}
    async with filled_server() as filled:
        async with await browser.new_context(locale="zh-CN", reduced_motion="reduce", service_workers="block") as context:
            page = await context.new_page()
            page.set_default_timeout(DEADLINE_MS)
            for visit in pages:
                await visit(page, filled)
                faults[visit.__name__] = await violations(page, axe)
    assert {key: found for key, found in faults.items() if found} == {}


@WINGS
async def test_no_page_of_a_wing_scrolls_sideways_on_a_phone_or_magnified(browser: Browser, pages: tuple[Visit, ...]) -> None:
    if not (DIRECTORY / "index.html").exists():
        pytest.skip("console: it is not built; make console")
    async with filled_server() as filled:
        context = await browser.new_context(
            viewport=PHONE, locale="zh-CN", has_touch=True, is_mobile=True, service_workers="block"
        )
        async with context:
            page = await context.new_page()
            page.set_default_timeout(DEADLINE_MS)
            for visit in pages:
                await visit(page, filled)
                for size in (PHONE, MAGNIFIED):
                    await page.set_viewport_size(size)
                    assert await page.evaluate(OVERFLOW) == 0, (visit.__name__, size)
                await page.set_viewport_size(PHONE)
