import json
from typing import Any

import pytest
from tests.channels.fake_feishu import APP_ID, BOT, PICTURE, SECRET, FakeFeishu, feishu
from tests.channels.fixtures import LOOPBACK, Office, office
from tests.support.serving import Play

from agentvm.channels import feishu as module
from agentvm.channels.base import AdapterParts
from agentvm.channels.feishu_frame import FeishuFrame
from agentvm.model.policy import Policy, PolicyRule
from agentvm.model.tool_settings import ToolSettings
from agentvm.tools.safe_http import SafeHttp

NAMED: dict[str, Any] = {
    "chat_type": "group",
    "chat_id": "oc_2",
    "mentions": [{"key": "@_user_1", "id": {"open_id": BOT}, "name": "Bot"}],
}


async def connect(desk: Office, fake: FakeFeishu, secret: str = SECRET, **about: Any) -> None:
    await desk.connect("feishu", {"appSecret": secret}, {"appId": APP_ID, "address": fake.url}, **about)


async def test_messages_are_answered_with_cards_that_grow() -> None:
    asking = ToolSettings(network=LOOPBACK.network, policy=Policy(rules=(PolicyRule(do="ask", tool="calculator"),)))
    async with feishu() as fake, office(tools=asking) as desk:
        await connect(desk, fake)
        await fake.say("hello there", key="m1")
        await fake.shown("hello there")
        ping, ack = (await fake.frames.wait(lambda frames: len(frames) >= 2 and frames))[:2]
        assert (ping.service, ping.method, ping.headers) == (33, 0, {"type": "ping"})
        assert (ack.seq_id, ack.log_id, ack.method, json.loads(ack.payload)) == (7, 2**40, 1, {"code": 200})
        assert ack.headers["message_id"] == "frame1"
        # The same message, an event in three frames, a group that names the bot, and what is not for it.
        await fake.say("hello there", key="m1")
        await fake.say("in three parts", parts=3)
        await fake.shown("in three parts")
        await fake.say("@_user_1 hi all", **NAMED)
        await fake.shown("ou_ann: hi all")
        await fake.say("unmentioned", chat_type="group", chat_id="oc_2")
        await fake.say("own", kind="app")
        for data in (b"", b"\xff\xff", "text", b"\x08\x01\x20\x01"):
            await fake.send(data)
        await fake.push(b"no json", "bad")
        await fake.push(b"{}", "endless", parts=1)
        await fake.say("tool")
        await fake.seen.wait(lambda _: any("**calculator**" in text and not grows for text, grows in fake.cards.values()))
        await fake.say("y")
        await fake.shown("It is done.")
        await fake.say("/stop")
        await fake.shown("Stopped.")
        await fake.say("crash")
        await fake.seen.wait(lambda _: any("provider_overloaded" in text and not grows for text, grows in fake.cards.values()))
        assert len(fake.replies) == len(fake.cards) == 7
        post = {"title": "T", "content": [[{"tag": "text", "text": "a post"}]]}
        await fake.say("", message_type="post", content=json.dumps(post))
        await fake.shown("T\na post")
        await fake.say("", message_type="image", content=json.dumps({"image_key": "img"}))
        await fake.seen.wait(lambda _: len(fake.replies) == 9)
        sessions = (await desk.call("GET", "/sessions"))["items"]
        container = next(session["containerId"] for session in sessions if session["containerId"].endswith("ou_ann"))
        files = (await desk.call("GET", f"/attachments?container={container}"))["items"]
        assert [(file["mediaType"], file["size"]) for file in files] == [("image/png", len(PICTURE))]


async def test_a_lost_connection_and_a_card_that_is_too_old_lose_nothing() -> None:
    play = Play()
    async with feishu() as fake, office(play) as desk:
        await connect(desk, fake)
        await fake.say("slow", key="m1")
        await fake.seen.wait(lambda _: any(text.startswith("w0") for text, _ in fake.cards.values()))
        await fake.cut()
        await fake.say("/help")
        await fake.seen.wait(lambda _: any("/new" in text and not grows for text, grows in fake.cards.values()))
        fake.errors += [("PUT content", 300309)] * 50
        play.gate.set()
        await fake.seen.wait(lambda _: len(fake.replies) == 3)
        late = [content for _, content in fake.replies.values() if "body" in content]
        assert [content["body"]["elements"][0]["content"] for content in late] == ["w0 w1 w2 "]


async def test_a_wrong_secret_is_told_with_its_remedy_and_a_busy_platform_is_tried_again() -> None:
    async with feishu() as fake, office() as desk:
        fake.errors.append(("POST endpoint", 1))
        await connect(desk, fake, secret="wrong")
        await desk.until(lambda channel: "busy" in channel["status"].get("lastError", ""))
        status = (await desk.until(lambda channel: channel["status"]["state"] == "refused"))["status"]
        assert "app secret is wrong" in status["lastError"]
        assert "App Secret" in status["remedy"]


def test_an_event_in_parts_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVENT_MAX_BYTES", 10)
    parts = AdapterParts(
        settings=module.FeishuSettings(app_id="a", app_secret="s"), secrets={"appSecret": "s"}, http=SafeHttp(), clock=int
    )
    make: Any = module.Feishu
    adapter = make(parts)

    def combine(number: int, payload: bytes, key: str) -> bytes | None:
        headers = {"sum": "2", "seq": str(number), "message_id": key}
        payload_of_all: bytes | None = adapter._combine(FeishuFrame(headers=headers, payload=payload))
        return payload_of_all

    assert combine(0, b"12345", "a") is None
    assert combine(1, b"67890", "a") == b"1234567890"
    assert combine(0, b"12345678901", "b") is None
    assert combine(1, b"2", "b") is None
