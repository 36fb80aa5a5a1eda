import json
from typing import Any

import anyio
import dingtalk_stream  # type: ignore[import-untyped]  # it has no types
import pytest
from tests.channels.fake_dingtalk import CLIENT_ID, PICTURE, SECRET, TEMPLATE, TOPIC, FakeDingTalk, dingtalk
from tests.channels.fixtures import LOOPBACK, SECONDS, Office, office
from tests.support.serving import Play
from tests.support.web import Replied

from agentvm.model.policy import Policy, PolicyRule
from agentvm.model.tool_settings import ToolSettings


async def connect(desk: Office, fake: FakeDingTalk, secret: str = SECRET, template: str | None = None, **about: Any) -> None:
    settings = {"clientId": CLIENT_ID, "address": fake.url, **({} if template is None else {"cardTemplate": template})}
    await desk.connect("dingtalk", {"clientSecret": secret}, settings, **about)


async def test_the_official_client_takes_the_fake_for_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    async with dingtalk() as fake:
        client = dingtalk_stream.DingTalkStreamClient(dingtalk_stream.Credential(CLIENT_ID, SECRET))
        address = f"{fake.url}/v1.0/gateway/connections/open"
        monkeypatch.setattr(dingtalk_stream.DingTalkStreamClient, "OPEN_CONNECTION_API", address)
        for module in (dingtalk_stream.stream, dingtalk_stream.card_replier):
            monkeypatch.setattr(module, "DINGTALK_OPENAPI_ENDPOINT", fake.url)
        # It waits for the response of this very thread otherwise.
        opened = await anyio.to_thread.run_sync(client.open_connection, abandon_on_cancel=True)
        client.open_connection = lambda: opened
        heard: list[str] = []

        class Echo(dingtalk_stream.ChatbotHandler):  # type: ignore[misc]  # it has no types
            async def process(self, callback: Any) -> tuple[int, str]:
                message = dingtalk_stream.ChatbotMessage.from_dict(callback.data)
                heard.append(message.text.content.strip())
                work = self.reply_markdown
                await anyio.to_thread.run_sync(show_card, message, abandon_on_cancel=True)
                await anyio.to_thread.run_sync(work, "title", "**back**", message, abandon_on_cancel=True)
                return dingtalk_stream.AckMessage.STATUS_OK, "OK"

        def show_card(message: Any) -> None:
            replier = dingtalk_stream.AICardReplier(client, message)
            card = replier.create_and_deliver_card(TEMPLATE, {"flowStatus": "1"})
            replier.put_card_data(card, {"flowStatus": "2"})
            replier.streaming(card, "msgContent", "half", append=False, finished=False, failed=False)
            replier.finish(card, {"msgContent": "whole"})

        client.register_callback_handler(TOPIC, Echo())
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.start)
            await fake.say("hello")
            await fake.shown("**back**")
            acks = await fake.acks.wait(list)
            assert (acks[0]["code"], json.loads(acks[0]["data"])) == (200, {"response": "OK"})
            tasks.cancel_scope.cancel()
        assert heard == ["hello"]
        assert list(fake.cards.values()) == [("dtv1.card//IM_ROBOT.ann", "whole", "3")]


async def test_messages_are_answered_through_the_webhook_of_their_conversation() -> None:
    asking = ToolSettings(network=LOOPBACK.network, policy=Policy(rules=(PolicyRule(do="ask", tool="calculator"),)))
    async with dingtalk() as fake, office(tools=asking) as desk:
        await connect(desk, fake)
        await fake.say("hello there", key="m1")
        await fake.shown("hello there")
        assert fake.topics == [TOPIC]
        ack = (await fake.acks.wait(list))[0]
        assert (ack["code"], ack["headers"]["messageId"], json.loads(ack["data"])) == (200, "frame2", {"response": None})
        await fake.say("hello there", key="m1")
        await fake.say("tool")
        await fake.seen.wait(lambda _: any("**calculator**" in text for text in fake.texts))
        await fake.say("y")
        await fake.shown("It is done.")
        await fake.say("hi all", group=True, sender="bob")
        await fake.shown("Bob: hi all")
        await fake.say("unmentioned", group=True, isInAtList=False)
        await fake.say("own", senderId="$:LWCP_v1:$bot")
        for frame in (
            "{",
            "[]",
            '{"type":"CALLBACK"}',
            f'{{"type":"CALLBACK","headers":{{"topic":"{TOPIC}"}},"data":"nothing"}}',
        ):
            await fake.send(frame)
        await fake.say("/stop")
        await fake.shown("Stopped.")
        await fake.say("crash")
        await fake.seen.wait(lambda _: any("provider_overloaded" in text for text in fake.texts))
        assert fake.texts.count("hello there") == 1
        assert not {"unmentioned", "own"} & set(fake.texts)
        with anyio.fail_after(SECONDS):
            await fake.push("SYSTEM", "ping", {"opaque": "1"})
            await fake.acks.wait(lambda acks: any(json.loads(ack["data"]) == {"opaque": "1"} for ack in acks))


async def test_with_a_template_an_answer_is_a_card_that_grows() -> None:
    play = Play()
    async with dingtalk() as fake, office(play) as desk:
        await connect(desk, fake, template=TEMPLATE)
        await fake.say("slow")
        await fake.seen.wait(lambda _: ("dtv1.card//IM_ROBOT.ann", "w0 w1", "2") in fake.cards.values())
        play.gate.set()
        await fake.seen.wait(lambda _: ("dtv1.card//IM_ROBOT.ann", "w0 w1 w2", "3") in fake.cards.values())
        await fake.say("hello", group=True, sender="bob")
        await fake.seen.wait(lambda _: ("dtv1.card//IM_GROUP.cid-group", "Bob: hello", "3") in fake.cards.values())
        assert (len(fake.cards), fake.texts) == (2, [])
        # An app that may not write cards answers all the same.
        fake.card_refusal = Replied(403, b'{"code":"Forbidden","message":"no"}', {"content-type": "application/json"})
        await fake.say("plain")
        await fake.shown("plain")


async def test_a_busy_platform_an_expired_webhook_and_another_connection() -> None:
    async with dingtalk() as fake, office() as desk:
        await connect(desk, fake)
        fake.refusals.append(Replied(200, b'{"errcode":130101,"errmsg":"send too fast"}', {"content-type": "application/json"}))
        await fake.say("again")
        await fake.shown("again")
        await fake.say("late", sessionWebhookExpiredTime=1)
        await fake.say("late group", group=True, sessionWebhookExpiredTime=1)
        await fake.seen.wait(lambda _: len(fake.late) == 2)
        assert sorted(fake.late) == [
            ("/v1.0/robot/groupMessages/send", "Ann: late group"),
            ("/v1.0/robot/oToMessages/batchSend", "late"),
        ]
        await fake.push("SYSTEM", "disconnect", {"reason": "moved"})
        await desk.until(lambda channel: "closed the connection" in channel["status"].get("lastError", ""))
        await fake.say("after")
        await fake.shown("after")
        await fake.say("look", msgtype="picture", content={"downloadCode": "code"})
        await fake.shown("look")
        container = next(
            session["containerId"]
            for session in (await desk.call("GET", "/sessions"))["items"]
            if session["containerId"].endswith("-ann")
        )
        files = (await desk.call("GET", f"/attachments?container={container}"))["items"]
        assert [(file["mediaType"], file["size"]) for file in files] == [("image/png", len(PICTURE))]


async def test_a_wrong_secret_is_told_with_its_remedy() -> None:
    async with dingtalk() as fake, office() as desk:
        await connect(desk, fake, secret="wrong")
        status = (await desk.until(lambda channel: channel["status"]["state"] == "refused"))["status"]
        assert "鉴权失败" in status["lastError"]
        assert "Client Secret" in status["remedy"]
