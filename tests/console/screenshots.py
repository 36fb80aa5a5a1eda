"""Screenshots — every page of the console in both themes, both languages and three widths, for a person to look at.

python -m tests.console.screenshots DIRECTORY
"""

import argparse
import os
from itertools import product
from pathlib import Path
from typing import Literal

import anyio
from playwright.async_api import Browser, ViewportSize, async_playwright
from tests.console.builder_pages import BUILDER_PAGES
from tests.console.operator_pages import OPERATOR_PAGES
from tests.console.pages import PAGES, Filled, Visit, filled_server
from tests.provision.chromium import FLAGS, chromium

WIDTHS = (ViewportSize(width=360, height=640), ViewportSize(width=820, height=1100), ViewportSize(width=1440, height=900))
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
LANGUAGES = ("en", "zh-CN")


async def take(browser: Browser, filled: Filled, visit: Visit, directory: Path) -> None:
    for theme, language, size in product(THEMES, LANGUAGES, WIDTHS):
        is_phone = size["width"] < 720
        context = await browser.new_context(
            viewport=size, locale=language, color_scheme=theme, has_touch=is_phone, is_mobile=is_phone, service_workers="block"
        )
        async with context:
            page = await context.new_page()
            await visit(page, filled)
            await page.screenshot(path=directory / f"{visit.__name__}-{theme}-{language[:2]}-{size['width']}.png")


async def run(directory: Path) -> None:
    program = chromium()
    async with async_playwright() as playwright, filled_server() as filled:
        env: dict[str, str | float | bool] = {**os.environ, **program.env}
        browser = await playwright.chromium.launch(executable_path=program.executable, args=list(FLAGS), env=env)
        async with browser:
            for visit in (*PAGES, *OPERATOR_PAGES, *BUILDER_PAGES):
                await take(browser, filled, visit, directory)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    target = parser.parse_args().directory
    target.mkdir(parents=True, exist_ok=True)
    anyio.run(run, target)
