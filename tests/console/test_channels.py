"""Chat channels in the console."""

import ast
from collections.abc import Iterator
from pathlib import Path

from playwright.async_api import expect
from tests.channels.fake_telegram import TOKEN, telegram
from tests.console.conftest import Open
from tests.console.test_journeys import driver

from agentvm import start_server
from agentvm.channels.base import HOOK_REMEDY, NO_HOOK
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
        await page.get_by_label("Token").fill("wrong")
        await page.get_by_label("address").fill(fake.url)
        await page.get_by_role("button", name="Connect").click()
        row = page.get_by_role("row").filter(has_text="support")
        # The platform's own words, and what to do.
        await expect(row).to_contain_text("Unauthorized")
        await expect(row).to_contain_text("@BotFather")
        secret = await server.server.vm.tenancy.vault.get(DEFAULT_TENANT, "channel.support.token")
        assert secret is not None
        assert secret.reveal() == "wrong"
        await expect(page.get_by_label("Token")).to_have_value("")
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


def sentences(call: ast.Call) -> Iterator[str]:
    """Yields the fixed beginnings of what a refusal says, up to the first colon; none for one that begins with a name."""
    for argument in call.args:
        parts = argument.values if isinstance(argument, ast.JoinedStr) else [argument]
        text = parts[0].value if isinstance(parts[0], ast.Constant) else ""
        if isinstance(argument, ast.Constant) or ": " in str(text):
            yield str(text).split(": ")[0]


def test_every_refusal_of_a_channel_is_said_in_chinese_too() -> None:
    root = Path(__file__).parents[2]
    trees = [ast.parse(path.read_text("utf-8")) for path in (root / "src/agentvm/channels").glob("*.py")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    refusals = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "PlatformRefused"]
    said = {sentence for call in refusals for sentence in sentences(call)} | {NO_HOOK.split(": ")[0], HOOK_REMEDY}
    words = (root / "console/src/words/settings/zh.ts").read_text("utf-8")
    assert len(said) >= 12
    assert [sentence for sentence in sorted(said) if f'"{sentence}"' not in words] == []
