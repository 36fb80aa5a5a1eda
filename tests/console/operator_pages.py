"""The pages of the activity and the settings, each with something on it, and the way to each of them."""

import msgspec
from playwright.async_api import Page, expect
from tests.console.pages import Filled, Visit

from agentvm.log import concerning, get_logger
from agentvm.model.channel import ChannelId, ChatChannel
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.secret import Secret
from agentvm.model.setting import ChangeRequest
from agentvm.model.webhook import TEST_EVENT, Notice, Webhook, WebhookId
from agentvm.version import VERSION

logger = get_logger("agentvm.example")

HOSTILE = '<img src=x onerror=alert(1)> "> <script>alert(2)</script> javascript:alert(3) ‮ العربية'


async def change_setting(filled: Filled, key: str, value: object, note: str) -> None:
    request = ChangeRequest(actor="key_lin", request_id="req_1", note=note)
    await filled.server.server.vm.settings.change(None, {key: value}, request)


async def newest_turn(page: Page, filled: Filled) -> str:
    session_id = filled.long.rpartition("/")[2]
    reply = await page.request.get(f"{filled.server.url}/v1/turns?session={session_id}&limit=1")
    turn_id: str = (await reply.json())["items"][0]["turnId"]
    return turn_id


async def activity(page: Page, filled: Filled) -> None:
    with concerning(request_id="req_7", tenant_id="default"):
        logger.error("example_failed", code="timeout")
    await page.goto(f"{filled.server.url}/activity")
    await expect(page.get_by_role("row").filter(has_text="example_failed")).to_be_visible()
    await expect(page.locator(".checks li").first).to_be_visible()


async def turns(page: Page, filled: Filled) -> None:
    await page.goto(f"{filled.server.url}/activity/turns?order=slowest")
    await expect(page.locator(".outcome").first).to_be_visible()


async def turn(page: Page, filled: Filled) -> None:
    await page.goto(f"{filled.server.url}/activity/turns/{await newest_turn(page, filled)}")
    await expect(page.locator(".told .answer")).to_be_visible()
    await page.locator(".events > summary").click()
    await expect(page.locator(".events li").first).to_be_visible()


async def logs(page: Page, filled: Filled) -> None:
    with concerning(request_id="req_8", tenant_id="default", turn_id="turn_8"):
        logger.warning("odd_facts")
        logger.warning("odd_facts", code="timeout", note=HOSTILE, nested={"list": [1, HOSTILE]})
    await page.goto(f"{filled.server.url}/activity/logs?event=odd_facts&follow=true")
    await page.locator(".entry summary").first.click()
    await expect(page.locator(".entry-facts").first).to_be_visible()


async def feedback(page: Page, filled: Filled) -> None:
    turn_id = await newest_turn(page, filled)
    rating = {"rating": "down", "note": HOSTILE}
    await page.request.put(f"{filled.server.url}/v1/turns/{turn_id}/feedback", data=rating)
    await page.goto(f"{filled.server.url}/activity/feedback")
    await expect(page.get_by_role("row").filter(has_text="<script>")).to_be_visible()


async def metrics(page: Page, filled: Filled) -> None:
    for _ in range(2):
        filled.server.server.vm.monitor.series.take()
    await page.goto(f"{filled.server.url}/activity/metrics")
    await expect(page.locator(".plot")).to_have_count(10)
    await page.locator(".plot button").last.click()
    await expect(page.locator(".plot table")).to_be_visible()


async def nodes(page: Page, filled: Filled) -> None:
    await page.goto(f"{filled.server.url}/activity/nodes")
    await expect(page.locator("tbody tr")).to_have_count(1)
    await expect(page.locator("tbody")).to_contain_text(VERSION)


async def settings(page: Page, filled: Filled) -> None:
    await change_setting(filled, "limits.steps", 8, HOSTILE)
    await change_setting(filled, "system.port", 9000, "restart")
    await page.goto(f"{filled.server.url}/settings")
    await expect(page.locator(".settings li").first).to_be_visible()


async def setting(page: Page, filled: Filled) -> None:
    await change_setting(filled, "limits.steps", 8, HOSTILE)
    await page.goto(f"{filled.server.url}/settings/limits.steps")
    await page.locator(".form input").first.fill("9")
    await page.locator(".form button[type=submit]").click()
    await expect(page.locator(".preview")).to_be_visible()


async def settings_history(page: Page, filled: Filled) -> None:
    await change_setting(filled, "limits.steps", 8, HOSTILE)
    await change_setting(filled, "limits.steps", 9, "again")
    await page.goto(f"{filled.server.url}/settings/history?from=0&to=2")
    await expect(page.locator(".table")).to_have_count(2)


async def providers(page: Page, filled: Filled) -> None:
    await page.goto(f"{filled.server.url}/settings/providers")
    await expect(page.locator(".mark").first).to_be_visible()


async def secrets(page: Page, filled: Filled) -> None:
    await filled.server.server.vm.tenancy.vault.put(DEFAULT_TENANT, "GITHUB_TOKEN", Secret("value"))
    await page.goto(f"{filled.server.url}/settings/secrets")
    await expect(page.locator("tbody tr")).to_be_visible()


async def channels(page: Page, filled: Filled) -> None:
    about = {"name": "support", "kind": "smoke", "agent": HOSTILE[:40], "settings": {}}
    store, vm = filled.server.server.vm.store.accounts(DEFAULT_TENANT).channels, filled.server.server.vm
    row = {"channelId": "chn_1", "tenantId": DEFAULT_TENANT, "messagesPerMinute": 9, "keyId": "k", "enabled": True}
    if await store.get(ChannelId("chn_1")) is None:
        await store.add(msgspec.convert({**row, **about, "createdBy": "x", "createdAt": 1, "updatedAt": 1}, ChatChannel))
        assert vm.channels is not None
        vm.channels.changed()
    await page.goto(f"{filled.server.url}/settings/channels")
    await expect(page.locator("tbody .problem")).to_be_visible()
    await expect(page.locator("form")).to_be_visible()


async def webhooks(page: Page, filled: Filled) -> None:
    """A webhook that the server has disabled, with a delivery that waits."""
    store, webhook_id = filled.server.server.vm.store.webhooks(DEFAULT_TENANT), WebhookId("whk_1")
    row = {"webhookId": webhook_id, "url": f"https://example.org/{'hook' * 20}", "events": ["turn.failed"], "secret": ""}
    about = {"description": HOSTILE, "disabledAt": 9, "disabledReason": "failing", "createdBy": "x", "createdAt": 1}
    if await store.get(webhook_id) is None:
        await store.add(msgspec.convert({**row, **about, "updatedAt": 1}, Webhook))
        await store.notify(webhook_id, Notice(event_id="evt_1", type=TEST_EVENT, at=1), 4_000_000_000_000)
    await page.goto(f"{filled.server.url}/settings/webhooks?webhook={webhook_id}")
    await expect(page.get_by_role("row").filter(has_text=TEST_EVENT)).to_be_visible()
    await expect(page.locator("form")).to_be_visible()


async def retention(page: Page, filled: Filled) -> None:
    await page.goto(f"{filled.server.url}/settings/retention?sessionDays=1")
    await expect(page.locator(".figures")).to_be_visible()


async def transfer(page: Page, filled: Filled) -> None:
    await page.goto(f"{filled.server.url}/settings/import")
    await expect(page.locator("input[type=file]")).to_be_visible()


OPERATOR_PAGES: tuple[Visit, ...] = (
    activity,
    turns,
    turn,
    logs,
    feedback,
    metrics,
    nodes,
    settings,
    setting,
    settings_history,
    providers,
    secrets,
    channels,
    webhooks,
    retention,
    transfer,
)
