import base64
from typing import Any

import anyio
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from tests.channels.fake_wecom import BOT_ID, SECRET, FakeWeCom, wecom
from tests.channels.fixtures import SECONDS, Office, office
from tests.support.serving import Play
from tests.support.web import Replied, web
from wecom_aibot_sdk import WSClient  # type: ignore[import-untyped]  # it has no types

from agentvm.channels.wecom import decrypt
from agentvm.errors.channel import PlatformFailed


async def connect(desk: Office, fake: FakeWeCom, secret: str = SECRET, **about: Any) -> None:
    await desk.connect("wecom", {"secret": secret}, {"botId": BOT_ID, "address": fake.url}, **about)


async def test_the_official_client_takes_the_fake_for_the_platform() -> None:
    async with wecom() as fake:
        client = WSClient(BOT_ID, SECRET, ws_url=fake.url)
        answered = anyio.Event()

        async def answer(frame: Any) -> None:
            await client.reply_stream(frame, "s1", "half")
            await client.reply_stream(frame, "s1", "half and all", finish=True)
            await client.send_message("ann", {"msgtype": "markdown", "markdown": {"content": "more"}})
            answered.set()

        client.on("message.text", answer)
        await client.connect()
        try:
            await fake.say("hello")
            with anyio.fail_after(SECONDS):
                await answered.wait()
        finally:
            await client.disconnect()
        assert fake.streams == {"s1": ("half and all", True)}
        assert fake.sent == [("ann", "more")]


async def test_a_text_a_tool_a_failure_and_a_group_are_answered_in_place() -> None:
    async with wecom() as fake, office() as desk:
        await connect(desk, fake)
        await fake.say("hello there")
        await fake.shown("hello there")
        await fake.say("tool")
        await fake.shown("Let me check.\n\nIt is done.")
        await fake.say("crash")
        await fake.frames.wait(lambda _: any("provider_overloaded" in text and done for text, done in fake.streams.values()))
        await fake.say("@Bot hi all", chat="room", user="bob")
        await fake.shown("bob: hi all")
        # Frames that are no messages, and messages of the bot itself, are not heard.
        for frame in ("{", "[]", '{"cmd":"aibot_msg_callback"}', b"\x00", '{"cmd":"aibot_msg_callback","headers":3,"body":[]}'):
            await fake.push(frame)
        await fake.say("own", user=BOT_ID)
        await fake.say("the end")
        await fake.shown("the end")
        assert len(fake.streams) == 5
        assert len({session["containerId"] for session in (await desk.call("GET", "/sessions"))["items"]}) == 2


async def test_a_repeated_message_is_answered_once_and_a_lost_connection_is_made_again() -> None:
    play = Play()
    async with wecom() as fake, office(play) as desk:
        await connect(desk, fake)
        await fake.say("slow", key="m1")
        await fake.frames.wait(lambda _: any(text.startswith("w0") for text, _ in fake.streams.values()))
        await fake.cut()
        # On another connection the message cannot be answered in place any more.
        fake.errors.append(("aibot_respond_msg", 846605))
        await fake.say("slow", key="m1")
        play.gate.set()
        await fake.frames.wait(lambda _: fake.sent)
        await fake.say("next", key="m2")
        await fake.shown("next")
        assert fake.sent == [("ann", "w0 w1 w2 ")] or fake.sent == [("ann", "w0 w1 w2")]


async def test_a_wrong_secret_is_told_with_its_remedy_and_a_new_one_is_taken_at_once() -> None:
    async with wecom() as fake, office() as desk:
        await connect(desk, fake, secret="wrong")
        status = (await desk.until(lambda channel: channel["status"]["state"] == "refused"))["status"]
        assert "853000" in status["lastError"]
        assert "avm secret set" in status["remedy"]
        await desk.call("PUT", "/secrets/wecom.secret", {"value": SECRET})
        await desk.until(lambda channel: channel["status"]["state"] == "connected")


async def test_a_platform_that_acknowledges_nothing_gets_the_answer_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentvm.channels.wecom.ACK_SECONDS", 0.3)
    async with wecom() as fake, office() as desk:
        await connect(desk, fake)
        await fake.frames.wait(len)
        fake.is_mute = True
        await fake.say("hello")
        await fake.frames.wait(lambda _: fake.streams)
        fake.is_mute = False
        await fake.shown("hello")
        assert fake.sent == []


async def test_another_program_with_the_same_bot_is_told() -> None:
    async with wecom() as fake, office() as desk:
        await connect(desk, fake)
        event = {"msgtype": "event", "event": {"eventtype": "disconnected_event"}}
        await fake.push({"cmd": "aibot_event_callback", "headers": {"req_id": "e1"}, "body": event})
        channel = await desk.until(lambda channel: channel["status"]["state"] == "refused")
        assert "Another program" in channel["status"]["lastError"]


async def test_an_encrypted_picture_becomes_an_attachment() -> None:
    key = bytes(range(32))
    plain = b"\x89PNG picture"
    padded = plain + bytes([32 - len(plain)]) * (32 - len(plain))
    sealed = Cipher(algorithms.AES(key), modes.CBC(key[:16])).encryptor().update(padded)
    assert decrypt(sealed, base64.b64encode(key).decode().rstrip("=")) == plain
    with pytest.raises(PlatformFailed):
        decrypt(b"x" * 32, base64.b64encode(key).decode())
    async with wecom() as fake, office() as desk, web(lambda asked: Replied(body=sealed)) as files:
        await connect(desk, fake)
        item = {"msgtype": "image", "image": {"url": files.url("/a"), "aeskey": base64.b64encode(key).decode()}}
        mixed = {"msg_item": [{"msgtype": "text", "text": {"content": "look"}}, item]}
        await fake.say("", msgtype="mixed", mixed=mixed)
        await fake.shown("look")
        session = (await desk.call("GET", "/sessions"))["items"][0]
        files_of = await desk.call("GET", f"/attachments?container={session['containerId']}")
        assert [(item["mediaType"], item["size"]) for item in files_of["items"]] == [("image/png", len(plain))]
