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


async def test_every_member_of_a_schedule_can_be_given_and_is_shown() -> None:
    async with open_desk() as desk:
        made = await desk.record("schedule", "create", "default", "@daily", "Report", "--missed", "all", "--catch-up", "3")
        session_id = (await desk.record("schedule", "run", made["scheduleId"]))["sessionId"]
        given = ("--catch-up-seconds", "60", "--jitter", "5", "--tool-calls", "2", "--cost", "1.5", "--runs-per-day", "9")
        again = await desk.record("schedule", "create", "default", "@daily", "Go on", "--in-session", session_id, *given)
        assert (made["catchUp"], again["catchUpSeconds"], again["jitterSeconds"]) == (3, 60, 5)
        assert (again["sessionId"], again["budget"]) == (session_id, {"cost": 1_500_000_000, "toolCalls": 2})
        shown = await desk.ok("schedule", "show", again["scheduleId"])
        assert "2 tool calls, $1.50" in shown
        assert "Runs per day  9" in shown
        changed = await desk.record("schedule", "update", made["scheduleId"], "--catch-up", "4", "--jitter", "7")
        assert (changed["catchUp"], changed["jitterSeconds"], changed["missed"]) == (4, 7, "all")


async def test_an_image_is_named_as_agent_of_a_schedule_a_trigger_and_a_call() -> None:
    async with open_desk() as desk:
        image = await desk.record("image", "create", "My Sales", "--system", "You sell.")
        image_id = image["image"]["imageId"]
        assert (await desk.record("schedule", "create", "My Sales", "@daily", "Go"))["imageId"] == image_id
        assert (await desk.record("trigger", "create", "My Sales", "Go"))["imageId"] == image_id
        assert (await desk.record("run", "My Sales", "Hello"))["imageId"] == image_id
        unknown = await desk.avm("schedule", "create", "Your Sales", "@daily", "Go")
        assert (unknown.code, "Your Sales" in unknown.err) == (5, True)
        await desk.record("image", "create", "My Sales")
        several = await desk.avm("run", "My Sales", "Hello")
        assert (several.code, image_id in several.err) == (2, True)
        elsewhere = await desk.avm("run", "My Sales", "Hello", "--container", "elsewhere")
        assert elsewhere.code == 5
