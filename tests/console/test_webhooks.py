"""Webhooks in the console."""

from playwright.async_api import expect
from tests.console.conftest import Open
from tests.console.test_channels import LOOPBACK
from tests.console.test_journeys import driver
from tests.support.web import web
from tests.webhooks.fixtures import Receiver

from agentvm import start_server
from agentvm.model.ids import DEFAULT_TENANT


async def test_a_webhook_is_added_tested_sent_again_disabled_and_deleted(open_page: Open) -> None:
    receiver = Receiver(500)
    async with web(receiver.reply) as site, start_server(LOOPBACK, drivers=driver()) as server:
        page = await open_page(f"{server.url}/settings/webhooks")
        await expect(page.get_by_text("No webhooks yet.")).to_be_visible()
        await page.get_by_label("Address").fill("https://192.168.0.1/")
        await page.get_by_role("button", name="Create").click()
        await expect(page.get_by_role("alert")).to_contain_text("public Internet")
        await page.get_by_label("Address").fill(site.url("/hook"))
        await page.get_by_label("session.created").uncheck()
        await page.get_by_label("Description").fill("Orders")
        await page.get_by_role("button", name="Create").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("whsec_")
        first = await dialog.locator("code").inner_text()
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await dialog.get_by_role("button", name="Copy").click()
        await expect(page.get_by_text("Copied")).to_be_visible()
        assert await page.evaluate("navigator.clipboard.readText()") == first
        await dialog.get_by_role("button", name="Close").click()
        await expect(dialog).to_have_count(0)
        row = page.get_by_role("row").filter(has_text="Orders")
        await expect(row).to_contain_text("Enabled")
        await expect(row).to_contain_text("turn.completed")
        await expect(row).not_to_contain_text("session.created")
        await expect(page.locator("main")).not_to_contain_text(first)

        await row.get_by_role("link", name="Deliveries").click()
        await expect(page.get_by_text("Nothing has been sent in the last 30 days.")).to_be_visible()
        await page.get_by_role("button", name="Send a test event").click()
        result = page.get_by_role("region", name="Deliveries").get_by_role("status")
        await expect(result).to_contain_text("the receiver answered 500")
        delivery = page.get_by_role("row").filter(has_text="webhook.test")
        await expect(delivery).to_contain_text("Pending · 500")
        await expect(delivery.locator("td[data-label='Attempts']")).to_have_text("1")
        await expect(delivery.locator("td[data-label='Next attempt'] time")).to_be_visible()
        await expect(row).to_contain_text("has taken nothing since")
        await delivery.get_by_role("button", name="Send again").click()
        await expect(delivery).to_contain_text("Delivered · 204")
        await expect(delivery.locator("td[data-label='Next attempt']")).to_have_text("—")
        assert len({asked.headers["webhook-id"] for asked in receiver.got}) == 1

        await page.get_by_role("button", name="Replace the secret").click()
        await dialog.get_by_role("button", name="Replace").click()
        await expect(dialog).to_contain_text("whsec_")
        assert await dialog.locator("code").inner_text() != first
        await dialog.get_by_role("button", name="Close").click()

        await row.get_by_role("button", name="Disable").click()
        await expect(row).to_contain_text("Disabled")
        await expect(page.get_by_role("button", name="Send a test event")).to_be_disabled()
        await row.get_by_role("button", name="Enable").click()
        await expect(page.get_by_role("button", name="Send a test event")).to_be_enabled()
        await row.get_by_role("button", name="Delete").click()
        await dialog.get_by_role("textbox").fill(f"127.0.0.1:{site.port}")
        await dialog.get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("No webhooks yet.")).to_be_visible()
        assert await server.server.vm.store.webhooks(DEFAULT_TENANT).list() == ()
