from tests.channels.fake_telegram import telegram
from tests.channels.fixtures import office
from tests.channels.test_telegram import connect


async def test_a_changed_channel_connects_again_and_a_missing_secret_is_named() -> None:
    async with telegram() as fake, telegram() as other, office() as desk:
        channel = await connect(desk, fake)
        settings = {"token": "telegram.token", "address": other.url}
        await desk.call("PUT", f"/channels/{channel['channelId']}", {"settings": settings, "messagesPerMinute": 5})
        other.say("moved")
        await other.shown("moved")
        await desk.call("DELETE", "/secrets/telegram.token")
        await desk.call("PUT", f"/channels/{channel['channelId']}", {"name": "renamed"})
        status = (await desk.until(lambda channel: channel["status"]["state"] == "refused"))["status"]
        assert status["lastError"] == "The secret telegram.token is missing"
        assert status["remedy"] == "Store it: avm secret set telegram.token"
        assert fake.messages == {}
