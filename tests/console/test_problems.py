"""Everything that can go wrong with a message has a sentence and an action, and nothing that was written is lost."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from playwright.async_api import WebSocketRoute, expect
from tests.console.conftest import Open
from tests.console.test_journeys import IN_MEMORY, driver, say

from agentvm import ImageConfig, start_server
from agentvm.drivers.base import Prompt
from agentvm.drivers.scripted import ScriptStep, echo
from agentvm.errors import ProviderRateLimited
from agentvm.model.ids import DEFAULT_TENANT

ROOT = Path(__file__).parents[2]
NEVER = {
    "data_dir_in_use",
    "migration_unknown",
    "config_invalid",
    "missing_key",
    "channel_error",
    "channel_closed",
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
        await page.get_by_role("button", name="中文").click()
        await page.get_by_label("消息", exact=True).fill("写了一半")
        await page.keyboard.press("Enter")
        await expect(alert).to_contain_text("预付余额已用完。")
        await alert.get_by_role("button", name="编辑", exact=True).click()
        await expect(page.get_by_label("消息", exact=True)).to_have_value("写了一半")
        await expect(page.locator(".bubble-pending")).to_have_count(0)


async def test_a_provider_that_limits_has_its_sentence_and_the_question_is_asked_again(open_page: Open) -> None:
    tries: list[int] = []

    def script(prompt: Prompt) -> Iterable[ScriptStep]:
        tries.append(1)
        if len(tries) == 1:
            raise ProviderRateLimited("429 Too Many Requests")
        return echo(prompt)

    async with start_server(IN_MEMORY, drivers=driver(script)) as server:
        page = await open_page(server.url)
        await say(page, "Hello")
        failed = page.locator(".item-error")
        await expect(failed).to_contain_text("The provider limits the requests of this server.")
        await failed.get_by_role("button", name="Try again").click()
        await expect(page.locator(".answer")).to_have_text("Hello")
        await expect(page.locator(".said")).to_have_text(["Hello"])


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
