from typing import Any

from tests.channels.fake_telegram import TOKEN, FakeTelegram, telegram
from tests.channels.fixtures import Office, office

from agentvm.channels.telegram import Telegram, to_html


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
