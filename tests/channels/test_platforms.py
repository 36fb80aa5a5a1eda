"""One conversation of each kind on every platform: a text, a tool, a stop, a failure, and a connection lost in mid-answer."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import pytest
from tests.channels import test_dingtalk, test_feishu, test_telegram, test_wecom
from tests.channels.fake_dingtalk import TEMPLATE, dingtalk
from tests.channels.fake_feishu import feishu
from tests.channels.fake_telegram import telegram
from tests.channels.fake_wecom import wecom
from tests.channels.fixtures import LOOPBACK, SECONDS, Office, office
from tests.support.serving import Play

from agentvm.model.policy import Policy, PolicyRule
from agentvm.model.tool_settings import ToolSettings

ASKING = ToolSettings(network=LOOPBACK.network, policy=Policy(rules=(PolicyRule(do="ask", tool="calculator"),)))


@dataclass(frozen=True, slots=True)
class Platform:
    """A fake platform, as a person of it sees the bot."""

    say: Callable[[str], Awaitable[Any]]
    texts: Callable[[], list[str]]
    """The answers of the bot as they are shown now."""
    cut: Callable[[], Awaitable[Any]]
    """Breaks the connection of the bot off."""


@asynccontextmanager
async def on_wecom(desk: Office) -> AsyncIterator[Platform]:
    async with wecom() as fake:
        await test_wecom.connect(desk, fake)
        yield Platform(
            fake.say, lambda: [*(text for text, _ in fake.streams.values()), *(text for _, text in fake.sent)], fake.cut
        )


@asynccontextmanager
async def on_dingtalk(desk: Office) -> AsyncIterator[Platform]:
    async with dingtalk() as fake:
        await test_dingtalk.connect(desk, fake, template=TEMPLATE)

        async def cut() -> None:
            await fake.push("SYSTEM", "disconnect", {"reason": "moved"})

        yield Platform(fake.say, lambda: [text for _, text, _ in fake.cards.values()], cut)


@asynccontextmanager
async def on_feishu(desk: Office) -> AsyncIterator[Platform]:
    async with feishu() as fake:
        await test_feishu.connect(desk, fake)
        yield Platform(fake.say, lambda: [text for text, _ in fake.cards.values()], fake.cut)


@asynccontextmanager
async def on_telegram(desk: Office) -> AsyncIterator[Platform]:
    async with telegram() as fake:
        await test_telegram.connect(desk, fake)

        async def say(text: str) -> None:
            fake.say(text)

        async def cut() -> None:
            # The next poll, and whatever is sent meanwhile, meets a server that has failed.
            fake.refusals += [(method, 502, {"description": "Bad Gateway"}) for method in ("getUpdates", "editMessageText")]
            fake.say("/help")

        yield Platform(say, lambda: list(fake.messages.values()), cut)


@pytest.mark.parametrize("platform", [on_wecom, on_dingtalk, on_feishu, on_telegram])
async def test_a_conversation_of_each_kind(platform: Callable[[Office], Any]) -> None:
    play = Play()
    async with office(play, tools=ASKING) as desk, platform(desk) as chat:

        async def shown(*words: str) -> None:
            with anyio.fail_after(SECONDS):
                while not any(all(word in text for word in words) for text in chat.texts()):
                    await anyio.lowlevel.checkpoint()

        await chat.say("hello there")
        await shown("hello there")
        await chat.say("tool")
        await shown("Let me check.", "calculator")
        await chat.say("y")
        await shown("It is done.")
        await chat.say("crash")
        await shown("Partial", "provider_overloaded")
        await chat.say("slow")
        await shown("w0")
        await chat.say("/stop")
        await shown("w0", "(Stopped.)")
        await chat.say("slow again")
        with anyio.fail_after(SECONDS):
            while sum("w0" in text for text in chat.texts()) < 2:
                await anyio.lowlevel.checkpoint()
        await chat.cut()
        play.gate.set()
        await shown("w0 w1 w2")
        await chat.say("after it")
        await shown("after it")
        assert sum("w2" in text for text in chat.texts()) == 1
        turns = (await desk.call("GET", "/turns"))["items"]
        assert sorted(turn["outcome"] for turn in turns) == [*["completed"] * 4, "failed", "interrupted"]
