"""Screenshots — every page of the console in both themes, both languages and three widths, for a person to look at.

python -m tests.console.screenshots DIRECTORY [--sheets]

With `--sheets` the pictures also stand side by side on sheets, DIRECTORY/sheets, which are quicker to look through.
"""

import argparse
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path

import anyio
from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, async_playwright, expect
from playwright.async_api import Error as PlaywrightError
from tests.console.builder_pages import BUILDER_PAGES
from tests.console.conftest import DEADLINE_MS
from tests.console.operator_pages import OPERATOR_PAGES
from tests.console.pages import PAGES, Filled, Visit, filled_server, offline
from tests.console.people import ROUTES, PeopleServer, people_server
from tests.console.people import visit as visit_people
from tests.console.test_access import LOOKS, Theme, looks
from tests.provision.chromium import FLAGS, chromium

WIDTHS = (ViewportSize(width=360, height=640), ViewportSize(width=820, height=1100), ViewportSize(width=1440, height=900))

COLUMNS = {360: (4, 360), 820: (4, 390), 1440: (2, 780)}
"""Of a sheet: how many, and how wide each picture is drawn."""
ROWS = 2

Show = Callable[[Page], Awaitable[None]]
Look = tuple[str, Theme]


async def take(context: BrowserContext, name: str, show: Show, directory: Path, width: int, chosen: re.Pattern[str]) -> None:
    """Writes the chosen pictures of one page; as it is, if it does not show what it should."""
    wanted = [look for look in LOOKS if chosen.search(picture(name, look, width))]
    if not wanted:
        return
    page = await context.new_page()
    page.set_default_timeout(DEADLINE_MS)
    try:
        await show(page)
    except (AssertionError, PlaywrightError, TimeoutError) as error:
        sys.stdout.write(f"{name}: {type(error).__name__} {str(error)[:200]}\n")
    async for look in looks(page, wanted):
        await page.screenshot(path=directory / f"{name}-{look}-{width}.png")
    await page.close()


def picture(name: str, look: Look, width: int) -> str:
    language, theme = look
    return f"{name}-{theme}-{language}-{width}"


def shown_by(visit: Visit, filled: Filled) -> Show:
    return lambda page: visit(page, filled)


async def sign_in_operator(page: Page, people: PeopleServer) -> None:
    """Signs in, unless the browser already is."""
    await page.goto(people.url)
    await expect(page.locator("#key, .rail")).to_be_visible()
    if await page.locator("#key").is_visible():
        await page.locator("#key").fill(people.operator)
        await page.locator(".login .btn-ink").click()
        await expect(page.locator(".rail")).to_be_visible()


async def show_people(page: Page, people: PeopleServer, route: str) -> None:
    await sign_in_operator(page, people)
    await visit_people(page, people, route)


async def show_invitation(page: Page, people: PeopleServer) -> None:
    """Shows a link that invites somebody to the person who has got it."""
    await show_people(page, people, "/people/invitations")
    await page.locator("main .btn-ink").first.click()
    await page.locator("dialog input").first.fill("Grace")
    await page.locator("dialog .btn-ink").click()
    link = await page.locator("dialog .secret code").inner_text()
    await page.context.clear_cookies()
    await page.goto(link)
    await expect(page.locator(".alone h1")).to_be_visible()


def shows(filled: Filled, people: PeopleServer) -> Iterator[tuple[str, Show]]:
    """Yields the name of every page and the way to it. Pages that change a conversation come after those that show it."""
    for visit in (*OPERATOR_PAGES, *BUILDER_PAGES, *(visit for visit in PAGES if visit is not offline)):
        yield visit.__name__, shown_by(visit, filled)
    yield "signed_in", partial(sign_in_operator, people=people)
    for route in ROUTES:
        yield route.strip("/").replace("/", "_"), partial(show_people, people=people, route=route)
    yield "invitation", partial(show_invitation, people=people)


async def write_sheets(browser: Browser, directory: Path) -> None:
    """Writes sheets of the pictures: those of a page, in its four looks, after each other."""
    for width, (columns, drawn) in COLUMNS.items():
        found = [Path(path) async for path in anyio.Path(directory).glob(f"*-{width}.png")]
        pictures = sorted(found, key=lambda path: path.name.rsplit("-", 3))
        count = columns * ROWS
        for start in range(0, len(pictures), count):
            shown = "".join(
                f"<figure>{path.stem}<img src='{path.resolve().as_uri()}' width={drawn}></figure>"
                for path in pictures[start : start + count]
            )
            sheet = directory / "sheets" / f"{width}-{start // count:02}"
            sheet.parent.mkdir(exist_ok=True)
            style = f"body{{margin:0;display:grid;grid-template-columns:repeat({columns},{drawn}px);gap:4px}}figure{{margin:0}}"
            source = sheet.with_suffix(".html")
            source.write_text(f"<!doctype html><meta charset=utf-8><style>{style}</style>{shown}", encoding="utf-8")
            page = await browser.new_page(viewport=ViewportSize(width=columns * (drawn + 4), height=400))
            await page.goto(source.resolve().as_uri())
            await page.screenshot(path=sheet.with_suffix(".png"), full_page=True)
            await page.close()
            source.unlink()


async def run(directory: Path, chosen: re.Pattern[str], with_sheets: bool) -> None:
    program = chromium()
    async with async_playwright() as playwright:
        env: dict[str, str | float | bool] = {**os.environ, **program.env}
        browser = await playwright.chromium.launch(executable_path=program.executable, args=list(FLAGS), env=env)
        async with browser:
            for size in WIDTHS:
                width = size["width"]
                is_phone = width < 720
                new_context = partial(
                    browser.new_context,
                    viewport=size,
                    locale="zh-CN",
                    has_touch=is_phone,
                    is_mobile=is_phone,
                    service_workers="block",
                )
                async with await new_context() as context, filled_server() as filled, people_server() as people:
                    for name, show in shows(filled, people):
                        await take(context, name, show, directory, width, chosen)
                async with await new_context() as context, filled_server() as filled:
                    await take(context, "offline", shown_by(offline, filled), directory, width, chosen)
            if with_sheets:
                await write_sheets(browser, directory)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", type=re.compile, default=".", help="pictures whose name matches: people_keys, dark-zh-360")
    parser.add_argument("--sheets", action="store_true", help="write sheets of the pictures, too")
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    anyio.run(run, arguments.directory, arguments.only, arguments.sheets)
