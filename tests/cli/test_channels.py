from tests.channels.fake_telegram import telegram
from tests.cli.desk import open_desk


async def test_a_channel_is_created_shown_changed_and_deleted() -> None:
    async with telegram() as fake, open_desk() as desk:
        assert "telegram" in await desk.ok("channels", "kinds")
        assert (await desk.avm("channels", "list")).err == "No channels found.\n"
        await desk.ok("secret", "set", "telegram.token", given="1:x\n")
        create = ("channels", "create", "support", "--kind", "telegram", "--agent", "default")
        made = await desk.ok(*create, "--set", "token=telegram.token", "--set", f"address={fake.url}")
        assert made == "The channel support connects; see avm channels show support.\n"
        assert "NAME=VALUE" in (await desk.avm(*create, "--set", "token")).err
        await desk.ok("channels", "update", "support", "--per-minute", "7")
        assert (await desk.record("channels", "show", "support"))["messagesPerMinute"] == 7
        # This server may not reach this machine, and says so.
        assert "support" in await desk.ok("channels", "show", "support")
        await desk.ok("channels", "disable", "support")
        assert [channel["status"]["state"] for channel in await desk.record("channels", "list")] == ["off"]
        assert "support" in await desk.ok("channels", "list")
        await desk.ok("channels", "enable", "support")
        await desk.ok("channels", "delete", "support", "--yes")
        assert "There is no channel support" in (await desk.avm("channels", "show", "support")).err
