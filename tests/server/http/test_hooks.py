from typing import Any

from tests.channels.fake_telegram import TOKEN, telegram
from tests.channels.fixtures import office

from agentvm.channels.telegram import SECRET_HEADER
from agentvm.server.http.hooks import BODY_MAX_BYTES


async def test_a_forged_request_is_answered_as_if_there_were_no_channel() -> None:
    async with telegram() as fake, office(public_url="https://agents.example") as desk:
        await desk.connect("telegram", {"token": TOKEN, "webhookSecret": "secret"}, {"address": fake.url})
        channel = await desk.until(lambda channel: channel["status"]["state"] == "connected")
        own, signed = f"/hooks/telegram/{channel['channelId']}", {SECRET_HEADER: "secret"}

        async def told(path: str, headers: dict[str, str]) -> tuple[int, Any]:
            reply = await desk.http.post(path, content=b"{}", headers=headers)
            error = reply.json()["error"]
            return reply.status_code, {name: error[name] for name in error if name != "requestId"}

        absent = await told("/hooks/telegram/chn_nothing", signed)
        assert absent[0] == 404
        assert absent == await told(own, {}) == await told(own, {SECRET_HEADER: "secret2"})
        assert absent == await told(own.replace("telegram", "feishu"), signed)
        assert (await desk.http.post(own, content=b"{}", headers=signed)).status_code == 200
        assert (await desk.http.post(own, content=b" " * (BODY_MAX_BYTES + 1), headers=signed)).status_code == 413
        assert (await desk.http.get(own)).status_code == 405
        await desk.call("POST", f"/channels/{channel['channelId']}/disable")
        await desk.until(lambda channel: channel["status"]["state"] == "off")
