import json
from typing import Any

from tests.channels.fake_telegram import TOKEN, FakeTelegram, telegram
from tests.channels.fixtures import Office, office

from agentvm.channels.telegram import SECRET_HEADER, Telegram, to_html


async def connect(desk: Office, fake: FakeTelegram, **about: Any) -> Any:
    await desk.connect("telegram", {"token": TOKEN}, {"address": fake.url}, **about)
    return await desk.until(lambda channel: channel["status"]["state"] == "connected")


async def test_a_text_is_answered_in_the_chat() -> None:
    async with telegram() as fake, office() as desk:
        await connect(desk, fake)
        fake.say("hello there")
        await fake.shown("hello there")


def test_markdown_becomes_the_html_that_telegram_reads() -> None:
    assert to_html("# A\n**b** *c* `d<` [e](https://f.g/?h=1&i=2) 1 * 2") == (
        '<b>A</b>\n<b>b</b> <i>c</i> <code>d&lt;</code> <a href="https://f.g/?h=1&amp;i=2">e</a> 1 * 2'
    )
    assert to_html("x\n```py\na < b\n```\ny") == "x\n<pre>a &lt; b\n</pre>\ny"
    assert Telegram.measure("a😀") == 3


PUBLIC = "https://agents.example"


async def test_a_webhook_takes_what_has_its_secret_and_nothing_else() -> None:
    async with telegram() as fake, office(public_url=PUBLIC) as desk:
        await desk.connect("telegram", {"token": TOKEN, "webhookSecret": "s3cret-_"}, {"address": fake.url})
        channel = await desk.until(lambda channel: channel["status"]["state"] == "connected")
        hook = f"{PUBLIC}/hooks/telegram/{channel['channelId']}"
        assert channel["status"]["hook"] == hook
        assert fake.webhook == {"url": hook, "secret_token": "s3cret-_", "allowed_updates": ["message"]}
        update = json.dumps(fake.say("by webhook")).encode()
        assert (await desk.hook({SECRET_HEADER: "wrong"}, update)).status_code == 404
        assert fake.messages == {}
        for body in (update, update, b"{", b"[]", b'{"message": 5}'):
            assert (await desk.hook({SECRET_HEADER: "s3cret-_"}, body)).status_code == 200
        await fake.shown("by webhook")
        # Without the secret it polls again: the platform tells the message once more.
        await desk.call(
            "PUT", f"/channels/{channel['channelId']}", {"settings": {"token": "telegram.token", "address": fake.url}}
        )
        await fake.shown("by webhook")
        await fake.calls.wait(lambda calls: [name for name, _ in calls].count("deleteWebhook"))
        assert list(fake.messages.values()) == ["by webhook"]


async def test_a_webhook_needs_an_address_of_the_server() -> None:
    async with telegram() as fake, office() as desk:
        await desk.connect("telegram", {"token": TOKEN, "webhookSecret": "s"}, {"address": fake.url})
        channel = await desk.until(lambda channel: channel["status"]["state"] == "refused")
        assert "system.publicUrl" in channel["status"]["remedy"]
