from tests.cli.desk import open_desk

from agentvm.log import concerning, get_logger

logger = get_logger("agentvm.tests.cli_errors")


async def test_what_went_wrong_is_listed_by_kind() -> None:
    async with open_desk() as desk:
        assert (await desk.avm("errors", "--tenant", "default")).err == "No errors found.\n"
        for turn_id in ("u1", "u2"):
            with concerning(tenant_id="default", turn_id=turn_id):
                logger.warning("turn_failed", code="timeout")
        (item,) = await desk.record("errors", "--since", "1h")
        assert (item["code"], item["count"], item["lastTurnId"]) == ("timeout", 2, "u2")
        title, line = (await desk.ok("errors")).splitlines()
        assert title.split()[:2] == ["LAST", "(UTC)"]
        assert line.split()[4:] == ["2", "timeout", "turn_failed", "agentvm.tests.cli_errors", "default", "u2"]
        assert await desk.record("errors", "--until", "1h") == []
