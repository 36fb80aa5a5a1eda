from tests.channels.fake_telegram import TOKEN, telegram
from tests.channels.fixtures import office


async def test_a_channel_has_a_key_with_few_rights_and_no_more_than_its_settings_allow() -> None:
    async with telegram() as fake, office() as desk:
        kinds = {kind["name"]: kind for kind in (await desk.call("GET", "/channel-kinds"))["items"]}
        assert {"telegram", "wecom"} <= kinds.keys()
        channel = await desk.connect("telegram", {"token": TOKEN}, {"address": fake.url})
        assert TOKEN not in str(channel)
        key = next(key for key in (await desk.call("GET", "/auth/keys"))["items"] if key["keyId"] == channel["keyId"])
        assert sorted(key["permissions"]) == ["agent:use", "sessions:read"]
        assert key["containers"] == [f"{channel['channelId']}-*"]
        connected = await desk.until(lambda channel: channel["status"]["state"] == "connected")
        assert await desk.call("GET", f"/channels/{channel['channelId']}") == connected
        body = {"name": "bot", "kind": "telegram", "agent": "default", "settings": {"token": "telegram.token"}}
        for change, status, text in (
            ({}, 409, "already"),
            ({"name": "B!"}, 400, "name"),
            ({"name": "b", "kind": "smoke"}, 400, "kind"),
            ({"name": "b", "settings": {"token": "none"}}, 400, "avm secret set none"),
            ({"name": "b", "settings": {"token": "telegram.token", "x": "y"}}, 400, "no setting"),
        ):
            refused = await desk.http.post("/v1/channels", json={**body, **change})
            assert (refused.status_code, text in refused.text) == (status, True), refused.text
        # A key of a channel that was not created is revoked.
        keys = [key for key in (await desk.call("GET", "/auth/keys"))["items"] if key["name"] == "channel bot"]
        assert sum("revokedAt" not in key for key in keys) == 1
        entries = [entry["action"] for entry in (await desk.call("GET", "/audit"))["items"]]
        assert "channel.create" in entries
