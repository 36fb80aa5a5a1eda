from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from tests.channels.fake_telegram import TOKEN, telegram
from tests.channels.fixtures import office
from tests.channels.test_telegram import connect
from tests.support.serving import Play

from agentvm.channels.base import ChatSender, InboundMessage
from agentvm.channels.running import RunningChannel
from agentvm.errors import StoreFailed
from agentvm.model.channel import ChannelId, ChatChannel
from agentvm.model.ids import DEFAULT_TENANT, KeyId
from agentvm.storage.sql.accounts.channels import ChannelStore


async def test_an_answer_that_was_not_delivered_is_delivered_once_after_a_restart(tmp_path: Path) -> None:
    async with telegram() as fake:
        async with office(data_dir=tmp_path) as desk:
            await connect(desk, fake)
            # The turn ends; its answer finds nobody.
            fake.refusals += [("sendMessage", 502, {"description": "Bad Gateway"})] * 100
            fake.say("hello there")
            await desk.until(lambda channel: "Bad Gateway" in channel["status"].get("lastError", ""))
        fake.refusals.clear()
        assert fake.messages == {}
        async with office(data_dir=tmp_path) as desk:
            await fake.shown("hello there")
            fake.say("and again")
            await fake.shown("and again")
        assert list(fake.messages.values()) == ["hello there", "and again"]


async def test_a_turn_that_runs_while_the_server_stops_is_answered_after_the_restart(tmp_path: Path) -> None:
    async with telegram() as fake:
        async with office(Play(), data_dir=tmp_path) as desk:
            await connect(desk, fake)
            fake.say("slow")
            await fake.calls.wait(lambda _: any(text.startswith("w0") for text in fake.messages.values()))
        play = Play()
        play.gate.set()
        async with office(play, data_dir=tmp_path) as desk:
            # The same message is edited.
            await fake.shown("w0 w1 w2 ")
            fake.say("next")
            await fake.shown("next")
        assert len(fake.messages) == 2


async def test_a_repeated_message_is_answered_once() -> None:
    async with telegram() as fake, office() as desk:
        await connect(desk, fake)
        update = fake.say("once")
        await fake.shown("once")
        fake.push({**update, "update_id": 9000})
        fake.say("last", message_id=77)
        await fake.shown("last")
        assert list(fake.messages.values()) == ["once", "last"]


async def test_a_sender_who_writes_too_fast_is_told_once_and_others_are_served() -> None:
    async with telegram() as fake, office() as desk:
        await connect(desk, fake, messagesPerMinute=3)
        for number in range(30):
            fake.say(f"m{number}")
        fake.say("other", chat=8, sender={"id": 8, "is_bot": False, "first_name": "Bob"})
        await fake.shown("other")
        await fake.calls.wait(lambda _: len(fake.messages) == 5)
        assert sum("faster than this channel allows" in text for text in fake.messages.values()) == 1


async def test_a_failing_platform_touches_no_other_channel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentvm.channels.running.FIRST_RETRY_SECONDS", 0.01)
    async with telegram() as broken, telegram() as hanging, telegram() as fake, office() as desk:
        await connect(desk, fake)
        broken.refusals += [("getMe", 500, {"description": "Internal"})] * 3
        hanging.hangs = True
        for name, other in (("broken", broken), ("hanging", hanging)):
            settings = {"token": "telegram.token", "address": other.url}
            about = {"name": name, "kind": "telegram", "agent": "default", "settings": settings}
            await desk.call("POST", "/channels", about)
        fake.say("still here")
        await fake.shown("still here")
        broken.say("back again")
        await broken.shown("back again")


async def test_a_wrong_token_a_revoked_key_and_a_disabled_channel_say_so() -> None:
    async with telegram() as fake, office() as desk:
        await desk.connect("telegram", {"token": "wrong"}, {"address": fake.url})
        status = (await desk.until(lambda channel: channel["status"]["state"] == "refused"))["status"]
        assert "Unauthorized" in status["lastError"]
        assert "@BotFather" in status["remedy"]
        await desk.call("PUT", "/secrets/telegram.token", {"value": TOKEN})
        channel = await desk.until(lambda channel: channel["status"]["state"] == "connected")
        await desk.call("POST", f"/channels/{channel['channelId']}/disable")
        assert (await desk.channel())["status"] == {"state": "off"}
        fake.say("meanwhile")
        await desk.call("POST", f"/channels/{channel['channelId']}/enable")
        await fake.shown("meanwhile")
        await desk.call("DELETE", f"/auth/keys/{channel['keyId']}")
        gone = await desk.until(lambda channel: channel["status"]["state"] == "refused")
        assert "revoked" in gone["status"]["lastError"]
        fake.say("nobody hears")
        await desk.call("DELETE", f"/channels/{channel['channelId']}")
        assert (await desk.call("GET", "/channels"))["items"] == []
        assert list(fake.messages.values()) == ["meanwhile"]


async def test_a_database_that_fails_for_a_while_ends_neither_the_channel_nor_the_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agentvm.channels.running.STORE_RETRY_MS", 10)
    failures = {"pending": 2, "save": 3}

    def failing(name: str) -> None:
        work = getattr(ChannelStore, name)

        async def fail_first(*args: object) -> object:
            if failures[name]:
                failures[name] -= 1
                raise StoreFailed("The disk is full")
            return await work(*args)

        monkeypatch.setattr(ChannelStore, name, fail_first)

    async with telegram() as fake, office() as desk:
        failing("pending")
        failing("save")
        await connect(desk, fake)
        fake.say("in spite of all")
        await fake.shown("in spite of all")
        assert failures == {"pending": 0, "save": 0}
        assert list(fake.messages.values()) == ["in spite of all"]


async def test_the_container_of_a_sender_is_one_name_and_no_pattern() -> None:
    async with office() as desk:
        channel = ChatChannel(
            channel_id=ChannelId("chn_1"),
            tenant_id=DEFAULT_TENANT,
            name="bot",
            kind="telegram",
            agent="default",
            settings={},
            messages_per_minute=1,
            key_id=KeyId("key_1"),
            enabled=True,
            created_by="t",
            created_at=0,
            updated_at=0,
        )
        running = RunningChannel(desk.served.running.server.vm, channel, lambda: pytest.fail("It does not connect"))
        for sender, is_shown in (("7", True), ("a*", False), ("a[b]", False), ("a/b", False)):
            container_id = running._container(InboundMessage(key="k", chat="c", sender=ChatSender(id=sender)))
            assert container_id.startswith("chn_1-")
            assert (sender in container_id) == is_shown
            assert fnmatchcase(container_id, container_id)
            assert not fnmatchcase("chn_1-abc", container_id)
