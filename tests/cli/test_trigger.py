"""avm trigger."""

from tests.cli.desk import open_desk


async def test_a_trigger_is_created_listed_rotated_and_deleted() -> None:
    async with open_desk() as desk:
        made = await desk.record("trigger", "create", "default", "Handle it", "--runs-per-day", "3", "--on-ask", "wait")
        assert made["secret"].startswith("whsec_")
        assert (made["runsPerDay"], made["onAsk"]) == (3, "wait")
        trigger_id = made["triggerId"]
        assert trigger_id in await desk.ok("trigger", "list")
        assert "whsec_" not in await desk.ok("trigger", "show", trigger_id)
        assert "disabled" in await desk.ok("trigger", "update", trigger_id, "--disable")
        assert (await desk.record("trigger", "rotate", trigger_id))["secret"] != made["secret"]
        assert await desk.record("trigger", "runs", trigger_id) == []
        assert "deleted" in await desk.ok("trigger", "delete", trigger_id, "--yes")
