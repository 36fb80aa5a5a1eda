"""Schedules and triggers in the console."""

from playwright.async_api import expect
from tests.console.conftest import Open
from tests.console.test_journeys import IN_MEMORY, driver

from agentvm import start_server


async def test_a_schedule_is_added_run_changed_disabled_and_deleted(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(f"{server.url}/me/schedules")
        form = page.get_by_role("region", name="Add a schedule or trigger")
        await form.get_by_label("Agent").fill("assistant")
        await form.get_by_label("Name").fill("Morning news")
        await form.get_by_label("Message").fill("What is new?")
        await form.get_by_label("Times").fill("61 * * * *")
        await form.get_by_role("button", name="Create").click()
        await expect(form.get_by_role("alert")).to_contain_text("61")
        await form.get_by_label("Times").fill("0 9 * * *")
        await form.get_by_label("Time zone").fill("Asia/Shanghai")
        await form.get_by_role("button", name="Create").click()
        row = page.get_by_role("row").filter(has_text="Morning news")
        await expect(row).to_contain_text("Asia/Shanghai")

        await row.get_by_role("button", name="Run now").click()
        await row.get_by_role("link", name="Runs").click()
        runs = page.get_by_role("region", name="Runs")
        await runs.get_by_role("link", name="Open").click()
        await expect(page.locator(".said")).to_have_text("What is new?")
        await page.go_back()

        await row.get_by_role("button", name="Edit").click()
        changed = page.get_by_role("region", name="Change “Morning news”")
        await changed.get_by_label("Times").fill("30 18 * * FRI")
        await changed.get_by_label("Name").fill("Evening news")
        await changed.get_by_role("button", name="Save").click()
        row = page.get_by_role("row").filter(has_text="Evening news")
        await expect(row).to_contain_text("30 18 * * FRI")
        await row.get_by_role("button", name="Disable").click()
        await expect(row.locator(".warn")).to_have_text("Disabled")
        await row.get_by_role("button", name="Enable").click()
        await expect(row.locator(".warn")).to_have_count(0)
        await row.get_by_role("button", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("No schedules yet.")).to_be_visible()


async def test_the_secret_of_a_trigger_is_shown_once_and_can_be_replaced(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page(f"{server.url}/me/schedules")
        await page.get_by_label("Begins").select_option("trigger")
        await page.get_by_label("Agent", exact=True).fill("assistant")
        await page.get_by_label("Message", exact=True).fill("An order came in")
        await page.get_by_role("button", name="Create").click()
        dialog = page.get_by_role("dialog")
        first = await dialog.locator("code").inner_text()
        await dialog.get_by_role("button", name="Close").click()
        await expect(page.locator("main")).not_to_contain_text(first)
        row = page.get_by_role("row").filter(has_text="An order came in")
        await row.get_by_role("button", name="Replace the secret").click()
        await expect(dialog.locator("code")).to_be_visible()
        assert await dialog.locator("code").inner_text() != first
        await dialog.get_by_role("button", name="Close").click()
        await row.get_by_role("button", name="Edit").click()
        await expect(page.get_by_label("Times")).to_have_count(0)
        await page.get_by_label("Message", exact=True).fill("An order was changed")
        await page.get_by_role("button", name="Save").click()
        await expect(page.get_by_role("group", name="Triggers")).to_contain_text("An order was changed")
