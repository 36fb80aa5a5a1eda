from tests.cli.desk import open_desk


async def test_the_policy_is_shown_with_what_it_would_delete() -> None:
    async with open_desk() as desk:
        said = await desk.ok("retention", "--session-days", "90")
        assert "90 days" in said
        assert "like other sessions" in said
        assert "unlimited" in said
        assert "30 days" in said
        found = await desk.record("retention")
        assert (found["policy"]["sessionDays"], found["due"]["sessions"]) == (None, 0)
        await desk.ok("config", "set", "retention.messageDays=36500", "--tenant", "default")
        assert "unlimited" in await desk.ok("retention")


async def test_days_that_mean_nothing_are_refused() -> None:
    async with open_desk() as desk:
        assert (await desk.avm("retention", "--session-days", "0")).code == 2
