"""The page that searches, and the panel that tells what an answer cost."""

import re

from playwright.async_api import expect
from tests.console.conftest import PHONE, Open
from tests.console.test_actions import begin
from tests.console.test_journeys import IN_MEMORY, driver

from agentvm import start_server
from agentvm.drivers.scripted import echo


async def test_a_search_is_narrowed_by_filters_that_are_in_the_address(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver(echo)) as server:
        page = await open_page(server.url)
        await begin(page, "apples", "more apples")
        await page.goto(f"{server.url}/search?q=apples")
        hits = page.locator(".hits .hit-role")
        await expect(hits).to_have_count(4)
        await expect(page.get_by_role("status").filter(has_text="4 messages")).to_be_visible()
        await page.get_by_label("Said by").select_option("user")
        await expect(page).to_have_url(re.compile(r"role=user"))
        await expect(hits).to_have_text(["You", "You"])
        await page.reload()
        await expect(hits).to_have_text(["You", "You"])
        await page.get_by_label("Said by").select_option("tool")
        await expect(page.get_by_label("Name of the tool")).to_be_visible()
        await expect(hits).to_have_count(0)
        await page.get_by_role("link", name="Search everywhere").click()
        await expect(hits).to_have_count(4)


async def test_a_search_within_a_conversation_begins_at_its_menu(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver(echo)) as server:
        page = await open_page(server.url)
        await begin(page, "pears")
        await page.goto(server.url)
        await begin(page, "pears again")
        await page.get_by_role("button", name="More").click()
        await page.get_by_role("link", name="Search in this conversation").click()
        await page.get_by_role("searchbox").fill("pears")
        await page.keyboard.press("Enter")
        await expect(page.locator(".hits .hit-role")).to_have_count(2)
        await page.get_by_label("Only in this conversation").click()
        await expect(page.locator(".hits .hit-role")).to_have_count(4)


async def test_the_price_of_an_answer_opens_its_turn_beside_the_conversation(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver(echo)) as server:
        page = await open_page(server.url)
        await begin(page, "one")
        await page.locator(".bill-amounts").click()
        panel = page.get_by_role("complementary", name="Turn")
        await expect(panel.locator(".panel-amounts")).to_contain_text("Tokens out")
        await expect(panel.locator(".bars")).to_contain_text("scripted")
        phone = await open_page(page.url, viewport=PHONE)
        await expect(phone.locator(".panel-amounts")).to_be_in_viewport()
        await panel.get_by_role("heading", name="Turn").press("Escape")
        await expect(panel).to_have_count(0)
        await expect(page.locator(".bill-amounts")).to_be_focused()
        await page.go_back()
        await panel.get_by_role("link", name="Timeline and replay").click()
        await expect(page).to_have_url(re.compile(r"/activity/turns/turn_"))
