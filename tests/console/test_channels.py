"""Chat channels in the console."""

from playwright.async_api import expect
from tests.channels.fake_telegram import TOKEN, telegram
from tests.console.conftest import Open
from tests.console.test_journeys import driver

from agentvm import start_server
from agentvm.config import MEMORY, ServerConfig, SystemSettings
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.tool_settings import ToolNetwork, ToolSettings

LOOPBACK = ServerConfig(
    system=SystemSettings(port=0, data_dir=MEMORY), tools=ToolSettings(network=ToolNetwork(allow=("127.0.0.0/8",)))
)


async def test_a_bot_is_connected_by_a_form_disabled_and_deleted(open_page: Open) -> None:
    async with telegram() as fake, start_server(LOOPBACK, drivers=driver()) as server:
        page = await open_page(f"{server.url}/settings/channels")
        await page.get_by_label("Platform").select_option("telegram")
        await page.get_by_label("Name").fill("support")
        await page.get_by_label("token").fill("wrong")
        await page.get_by_label("address").fill(fake.url)
        await page.get_by_role("button", name="Connect").click()
        row = page.get_by_role("row").filter(has_text="support")
        # The platform's own words, and what to do.
        await expect(row).to_contain_text("Unauthorized")
        await expect(row).to_contain_text("@BotFather")
        secret = await server.server.vm.tenancy.vault.get(DEFAULT_TENANT, "channel.support.token")
        assert secret is not None
        assert secret.reveal() == "wrong"
        await expect(page.get_by_label("token")).to_have_value("")
        await row.get_by_role("button", name="Disable").click()
        await expect(row).to_contain_text("Disabled")
        await page.request.put(f"{server.url}/v1/secrets/channel.support.token", data={"value": TOKEN})
        await row.get_by_role("button", name="Enable").click()
        await expect(row).to_contain_text("Connected")
        fake.say("hello")
        await fake.calls.wait(lambda _: fake.messages)
        await row.get_by_role("button", name="Delete").click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_role("textbox").fill("support")
        await dialog.get_by_role("button", name="Delete").click()
        await expect(page.get_by_text("No channels yet.")).to_be_visible()
