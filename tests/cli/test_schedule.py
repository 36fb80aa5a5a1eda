"""avm schedule."""

from tests.cli.desk import open_desk


async def test_a_schedule_is_created_listed_run_and_deleted() -> None:
    async with open_desk() as desk:
        assert await desk.record("schedule", "list") == []
        created = ("schedule", "create", "default", "0 9 * * *", "Report", "--zone", "Asia/Shanghai", "--cost", "0.05")
        made = await desk.record(*created, "--missed", "skip")
        assert (made["zone"], made["missed"], made["budget"]) == ("Asia/Shanghai", "skip", {"cost": 50_000_000})
        schedule_id = made["scheduleId"]
        assert "0 9 * * *" in await desk.ok("schedule", "list")
        assert "Report" in await desk.ok("schedule", "show", schedule_id)
        assert "has begun" in await desk.ok("schedule", "run", schedule_id)
        (run,) = await desk.record("schedule", "runs", schedule_id)
        assert run["state"] == "started"
        assert (await desk.record("schedule", "update", schedule_id, "--cron", "@hourly"))["cron"] == "@hourly"
        assert "disabled" in await desk.ok("schedule", "disable", schedule_id)
        assert (await desk.record("schedule", "enable", schedule_id))["enabled"] is True
        assert "deleted" in await desk.ok("schedule", "delete", schedule_id, "--yes")
        assert await desk.record("schedule", "list") == []
