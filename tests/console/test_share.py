"""A conversation that is shared with colleagues."""

from playwright.async_api import expect
from tests.console.conftest import Open
from tests.console.test_actions import begin, menu
from tests.console.test_journeys import IN_MEMORY, driver, say

from agentvm import start_server
from agentvm.drivers.scripted import echo


async def test_a_link_shows_the_conversation_as_it_was_until_it_is_ended(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver(echo)) as server:
        page = await open_page(server.url)
        await begin(page, "one")
        await menu(page, "Share this conversation")
        await page.get_by_role("button", name="Make a link").click()
        address = await page.locator(".share-links code").inner_text()
        await page.get_by_role("button", name="Close").click()
        reader = await open_page(address)
        await expect(reader.locator(".said")).to_have_text(["one"])
        await expect(reader.locator(".answer")).to_have_text(["one"])
        await say(page, "two")
        await expect(page.locator(".bill")).to_have_count(2)
        await reader.reload()
        await expect(reader.locator(".said")).to_have_text(["one"])
        await expect(reader.locator(".answer")).to_have_text(["one"])
        await menu(page, "Share this conversation")
        await page.get_by_role("button", name="End the link").click()
        await expect(page.locator(".share-links li")).to_have_count(0)
        await reader.reload()
        await expect(reader.get_by_role("alert")).to_contain_text("Not there, or not yours.")
