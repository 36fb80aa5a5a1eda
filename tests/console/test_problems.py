"""Everything that can go wrong with a message has a sentence and an action, and nothing that was written is lost."""

import json
import re
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

import pytest
from playwright.async_api import Page, WebSocketRoute, expect
from tests.console.conftest import Open
from tests.console.test_journeys import IN_MEMORY, driver, say
from tests.faults.disk import faulty_disk

from agentvm import ImageConfig, ServerConfig, start_server
from agentvm.config import SystemSettings
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptStep, echo, last_user_text
from agentvm.errors import ProviderAuthFailed, ProviderRateLimited
from agentvm.model.account import Quota
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.ledger import Credit
from agentvm.model.money import ModelRate
from agentvm.model.settings import BillingSettings

ROOT = Path(__file__).parents[2]
NEVER = {
    "data_dir_in_use",
    "migration_unknown",
    "config_invalid",
    "missing_key",
    "channel_error",
    "remote_error",
}
"""Codes for operators at the start of a server, and of the Python client."""


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_code_that_a_client_can_get_has_a_sentence(language: str) -> None:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    codes = set(re.findall(r"^\| `(\w+)` \| [· ]*`\w+` \|", page, re.MULTILINE)) - NEVER
    assert len(codes) > 80
    text = (ROOT / "console" / "src" / "words" / "problems" / f"{language}.ts").read_text(encoding="utf-8")
    sentences = dict(re.findall(r'^  (\w+): "(.+)",$', text, re.MULTILINE))
    assert sorted(codes - sentences.keys()) == []
    assert [code for code, sentence in sentences.items() if not sentence.endswith((".", "。"))] == []


class Refusing:
    """A socket that refuses messages with a code."""

    def __init__(self) -> None:
        self.code: str | None = None

    def connect(self, socket: WebSocketRoute) -> None:
        server = socket.connect_to_server()

        def sent(message: str | bytes) -> None:
            frame = json.loads(message)
            if self.code is not None and frame["type"] == "message_send_request":
                data = {"requestId": frame["data"]["requestId"], "error": "as the server says it", "errorCode": self.code}
                socket.send(json.dumps({"type": "message_send_response", "timestamp": 1, "category": "response", "data": data}))
            else:
                server.send(message)

        socket.on_message(sent)


REFUSALS = {
    "quota_exceeded": ("A limit of yours is reached.", "See your limits"),
    "wallet_empty": ("The prepaid balance is used up.", "Open the wallet"),
    "store_failed": ("its disk may be full", None),
    "inbox_full": ("Too many messages wait", None),
}


async def test_a_refused_message_says_why_and_stays_until_its_owner_decides(open_page: Open) -> None:
    refusing = Refusing()
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        page = await open_page("about:blank")
        await page.route_web_socket("**/ws", refusing.connect)
        await page.goto(server.url)
        await say(page, "first")
        await expect(page.locator(".answer")).to_have_text("first")
        for code, (sentence, action) in REFUSALS.items():
            refusing.code = code
            await say(page, f"about {code}")
            alert = page.locator(".bubble-pending").get_by_role("alert")
            await expect(alert).to_contain_text(sentence)
            await expect(alert).to_contain_text(code)
            if action is not None:
                await expect(alert.get_by_role("link", name=action)).to_be_visible()
            # It is there after a reload, and sent again when its owner says so.
            await page.reload()
            await expect(alert).to_contain_text(sentence)
            refusing.code = None
            await alert.get_by_role("button", name="Try again").click()
            await expect(page.locator(".answer").last).to_have_text(f"about {code}")
            await expect(page.locator(".bubble-pending")).to_have_count(0)
        refusing.code = "wallet_empty"
        tab = await page.context.new_page()
        await tab.goto(page.url)
        await expect(tab.locator(".answer").last).to_be_visible()
        await page.get_by_role("button", name="中文").click()
        await page.get_by_label("消息", exact=True).fill("写了一半")
        await page.keyboard.press("Enter")
        await expect(alert).to_contain_text("预付余额已用完。")
        # Another tab shows it, too, until it is taken back in this one.
        await expect(tab.locator(".bubble-pending")).to_contain_text("wallet_empty")
        await alert.get_by_role("button", name="编辑", exact=True).click()
        await expect(page.get_by_label("消息", exact=True)).to_have_value("写了一半")
        for each in (page, tab):
            await expect(each.locator(".bubble-pending")).to_have_count(0)


PRICED = BillingSettings(prices={"scripted": ModelRate(input=Decimal(1), output=Decimal(1))})
TOLD: dict[str, tuple[str, str, str | None]] = {
    "store_failed": ("its disk may be full", "可能是磁盘已满", None),
    "wallet_empty": ("The prepaid balance is used up.", "预付余额已用完。", "/wallet"),
    "quota_exceeded": ("A limit of yours is reached.", "已达到你的一项限额。", "/me"),
}
"""The sentences of refusals in both languages, and the page where each is mended."""


async def check_refused(pages: tuple[Page, Page], code: str) -> None:
    """Sends a message from an English and a Chinese page; each says why it is refused or not answered, and keeps it."""
    *sentences, remedy = TOLD[code]
    for page, field, sentence in zip(pages, ("Message", "消息"), sentences, strict=True):
        await page.get_by_label(field, exact=True).fill(f"{code} {field}")
        await page.keyboard.press("Enter")
        alert = page.locator(".bubble-pending [role=alert], .item-error").last
        await expect(alert).to_contain_text(sentence)
        await expect(alert).to_contain_text(code)
        if remedy is not None:
            await expect(alert.locator(f"a[href='{remedy}']")).to_be_visible()


async def check_sent(pages: tuple[Page, Page], code: str) -> None:
    for page, field in zip(pages, ("Message", "消息"), strict=True):
        await page.locator(".bubble-pending, .item-error").get_by_role("button", name=re.compile("Try again|重试")).last.click()
        await expect(page.locator(".answer").last).to_have_text(f"{code} {field}")
        await expect(page.locator(".bubble-pending")).to_have_count(0)


async def test_a_full_disk_an_empty_wallet_and_a_reached_quota_lose_nothing(open_page: Open, tmp_path: Path) -> None:
    config = ServerConfig(system=SystemSettings(port=0, data_dir=str(tmp_path)), billing=PRICED)
    with faulty_disk() as disk:
        async with start_server(config, drivers=driver()) as server:
            tenancy = server.server.vm.tenancy
            accounts = tenancy.store.accounts(DEFAULT_TENANT)
            pages = (await open_page(server.url), await open_page(server.url, language="zh-CN"))
            for page, field in zip(pages, ("Message", "消息"), strict=True):
                await page.get_by_label(field, exact=True).fill("first")
                await page.keyboard.press("Enter")
                await expect(page.locator(".bill")).to_be_visible()
            form = await open_page(f"{server.url}/agents/new", language="zh-CN")
            name = form.locator(".form input[type=text]").first
            await name.fill("写了一半")
            disk.fault = "full"
            await check_refused(pages, "store_failed")
            # A form says the same, and what was typed stays.
            await form.locator(".form-end .btn-ink").click()
            await expect(form.locator(".failure")).to_contain_text(TOLD["store_failed"][1])
            await expect(name).to_have_value("写了一半")
            assert disk.hits > 0
            disk.fault = None
            await check_sent(pages, "store_failed")
            await form.locator(".form-end .btn-ink").click()
            await expect(form.locator(".try .composer")).to_be_visible()

            await accounts.ledger.credit(Credit(reference="start", at=1, amount=1, actor="operator"))
            await tenancy.quotas.reread(DEFAULT_TENANT)
            await check_refused(pages, "wallet_empty")
            await accounts.ledger.credit(Credit(reference="paid", at=1, amount=10_000_000_000, actor="operator"))
            await tenancy.quotas.reread(DEFAULT_TENANT)
            await check_sent(pages, "wallet_empty")

            await accounts.quotas.put(Quota(metric="storage_bytes", hard=1), 1)
            await tenancy.quotas.reread(DEFAULT_TENANT)
            await check_refused(pages, "quota_exceeded")
            await accounts.quotas.put(Quota(metric="storage_bytes", hard=10**9), 2)
            await tenancy.quotas.reread(DEFAULT_TENANT)
            await check_sent(pages, "quota_exceeded")


async def test_a_provider_that_fails_or_limits_has_its_sentence_and_the_question_is_asked_again(open_page: Open) -> None:
    failures = {"Hello": ProviderRateLimited("429 Too Many Requests"), "And now?": ProviderAuthFailed("401 Unauthorized")}

    def script(prompt: Prompt) -> Iterable[ScriptStep]:
        if failure := failures.pop(last_user_text(prompt), None):
            raise failure
        return echo(prompt)

    async with start_server(IN_MEMORY, drivers=driver(script)) as server:
        page = await open_page(server.url)
        await say(page, "Hello")
        failed = page.locator(".item-error")
        await expect(failed).to_contain_text("The provider limits the requests of this server.")
        await failed.get_by_role("button", name="Try again").click()
        await expect(page.locator(".answer")).to_have_text("Hello")
        await expect(page.locator(".said")).to_have_text(["Hello"])
        await say(page, "And now?")
        await expect(failed).to_contain_text("The provider refuses the key of this server.")
        await expect(failed.get_by_role("link", name="Open the settings")).to_have_attribute("href", "/settings/providers")
        # To ask once more at once would fail again; it is offered beside the message, for when the key is mended.
        await expect(failed.get_by_role("button", name="Try again")).to_have_count(0)
        await expect(page.get_by_role("button", name="Answer again")).to_have_count(2)
        await expect(page.locator(".said")).to_have_text(["Hello", "And now?"])


async def test_a_quarantined_conversation_says_why_and_is_released(open_page: Open) -> None:
    async with start_server(IN_MEMORY, drivers=driver()) as server:
        image = await server.agentx.images.create(ImageConfig())
        quarantine = server.server.vm.runtime.quarantine
        await quarantine.put(DEFAULT_TENANT, image.container_id, image.session_id, "it crashed the server twice")
        page = await open_page(f"{server.url}/c/{image.session_id}")
        banner = page.locator(".banner-action")
        await expect(banner).to_contain_text("it crashed the server twice")
        await say(page, "Still there?")
        await expect(page.locator(".bubble-pending").get_by_role("alert")).to_contain_text("was set aside")
        await banner.get_by_role("button", name="Release").click()
        await expect(banner).to_have_count(0)
        await page.locator(".bubble-pending").get_by_role("button", name="Try again").click()
        await expect(page.locator(".answer")).to_have_text("Still there?")
