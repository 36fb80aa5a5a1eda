"""Agents to begin with, the command palette and the keys."""

import contextlib

import anyio
from playwright.async_api import Page, expect
from tests.console.conftest import PHONE, Open
from tests.console.test_actions import begin
from tests.console.test_journeys import IN_MEMORY, driver, say

from agentvm import start_server


async def test_a_conversation_begins_with_an_agent_whose_name_is_over_its_answers(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(server.url)
        await expect(page.locator(".agent strong")).to_have_text(["Assistant", "Coding helper", "Summariser", "Translator"])
        await page.get_by_role("button", name="Summariser").click()
        await expect(page.locator(".agent[aria-pressed=true]")).to_contain_text("Summariser")
        await expect(page.get_by_label("Message", exact=True)).to_be_focused()
        await say(page, "Hello")
        await expect(page.locator(".item-answer .who")).to_contain_text("Summariser")
        await page.reload()
        await expect(page.locator(".item-answer .who")).to_contain_text("Summariser")
        await page.get_by_role("button", name="中文").click()
        await expect(page.locator(".item-answer .who")).to_contain_text("摘要")
        await page.get_by_role("button", name="新对话", exact=True).click()
        await expect(page.locator(".agent strong")).to_have_text(["助手", "编程助手", "摘要", "翻译"])


async def test_the_palette_opens_conversations_and_runs_commands(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(server.url)
        await begin(page, "Apples and pears")
        apples = page.url
        await page.keyboard.press("Control+Shift+O")
        await begin(page, "上海三日行程")
        field = page.get_by_role("combobox", name="Commands")
        await page.keyboard.press("Control+k")
        await expect(field).to_be_focused()
        await field.fill("apples")
        # The list of conversations is read again after an answer; until then only the search is offered.
        await expect(page.get_by_role("option").first).to_have_text("Apples and pears")
        await page.keyboard.press("Enter")
        await expect(page.locator(".said")).to_have_text(["Apples and pears"])
        await expect(page).to_have_url(apples)
        await expect(field).to_have_count(0)
        await page.keyboard.press("Control+k")
        # At once, without a look at the palette.
        await page.keyboard.insert_text("行程")
        await expect(field).to_have_value("行程")
        await expect(page.get_by_role("option")).to_have_count(2)
        await page.keyboard.press("ArrowDown")
        await page.keyboard.press("Enter")
        await expect(page.locator(".hits mark").first).to_have_text("行程")
        opener = page.get_by_role("button", name="Commands")
        await opener.click()
        await expect(field).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(field).to_have_count(0)
        await expect(opener).to_be_focused()
        await opener.click()
        await field.fill("dark")
        await page.keyboard.press("Enter")
        await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        await expect(field).to_have_count(0)
        await page.keyboard.press("Control+k")
        await expect(field).to_be_focused()
        await field.fill("中文")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="搜索消息")).to_be_visible()


async def test_the_keys_are_listed_walk_the_conversations_and_can_be_switched_off(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(server.url)
        await begin(page, "first")
        await page.keyboard.press("Control+Shift+O")
        await begin(page, "second")
        await expect(page.locator(".row")).to_have_count(2)
        await page.keyboard.press("Alt+ArrowDown")
        await expect(page.locator(".said")).to_have_text(["first"])
        await page.keyboard.press("Alt+ArrowUp")
        await expect(page.locator(".said")).to_have_text(["second"])
        await page.keyboard.press("?")
        await expect(page.get_by_label("Message", exact=True)).to_have_value("?")
        await page.locator(".log").focus()
        await page.keyboard.press("?")
        keys = page.get_by_role("dialog", name="Keyboard shortcuts")
        await expect(keys).to_contain_text("List the keys")
        await keys.get_by_role("checkbox").uncheck()
        await keys.get_by_role("button", name="Close").click()
        await expect(page.locator(".log")).to_be_focused()
        await page.keyboard.press("?")
        await expect(keys).to_have_count(0)


async def go_to(page: Page, letter: str, name: str) -> None:
    """Presses `g` and a letter, and does so again on a machine that needs longer than two seconds for both."""
    heading = page.get_by_role("heading", name=name, exact=True)
    with anyio.fail_after(120):
        while True:
            await page.keyboard.press("g")
            await page.keyboard.press(letter)
            with contextlib.suppress(AssertionError):
                return await expect(heading).to_be_focused(timeout=20_000)


async def test_areas_are_reached_by_two_keys_and_on_a_phone_by_a_sheet(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(server.url)
        field = page.get_by_label("Message", exact=True)
        await expect(field).to_be_focused()
        await page.keyboard.type("ga")
        await expect(field).to_have_value("ga")
        await page.locator(".skip").focus()
        for letter, name in (("a", "Agents"), ("y", "Activity"), ("m", "My account"), ("s", "Settings")):
            await go_to(page, letter, name)
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog").locator("kbd").get_by_text("g", exact=True)).to_have_count(8)
        phone = await open_page(server.url, viewport=PHONE)
        bar = phone.get_by_role("navigation", name="AgentVM")
        await expect(bar.get_by_role("link").or_(bar.get_by_role("button"))).to_have_count(4)
        await bar.get_by_role("button", name="All areas").click()
        sheet = phone.get_by_role("dialog", name="All areas")
        await expect(sheet.get_by_role("link")).to_contain_text(
            ["Agents", "Resources", "Activity", "Settings", "Usage", "People"]
        )
        await sheet.get_by_role("link", name="Settings").click()
        await expect(phone.get_by_role("heading", name="Settings", exact=True)).to_be_visible()
        await expect(sheet).to_have_count(0)
        await bar.get_by_role("button", name="All areas").click()
        await expect(sheet.get_by_role("link", name="Settings")).to_have_attribute("aria-current", "page")
        await sheet.get_by_role("button", name="中文").click()
        await expect(phone.get_by_role("heading", name="设置", exact=True)).to_be_visible()
