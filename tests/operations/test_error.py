from tests.server.http.fixtures import open_world

from agentvm.log import get_logger

logger = get_logger("agentvm.tests.http_errors")


async def test_errors_are_listed_by_kind_with_how_often_and_when() -> None:
    async with open_world() as world:
        tenant_id = world.acme.tenant_id
        first = world.clock()
        for turn_id in ("u1", "u2"):
            logger.warning(
                "turn_failed", code="timeout", tenant_id=tenant_id, turn_id=turn_id, request_id="r1", session_id="s1"
            )
            world.clock.now += 1_000
        logger.error("commit_failed", code="store_failed")
        (item,) = (await world.ask("GET", "/v1/errors", key=await world.key(tenant_id, ["logs:read"]))).items
        assert item == {
            "code": "timeout",
            "event": "turn_failed",
            "where": "agentvm.tests.http_errors",
            "count": 2,
            "firstAt": first,
            "lastAt": first + 1_000,
            "tenantId": tenant_id,
            "lastNumber": item["lastNumber"],
            "lastRequestId": "r1",
            "lastSessionId": "s1",
            "lastTurnId": "u2",
        }
        everything = (await world.ask("GET", "/v1/errors")).items
        assert [one["code"] for one in everything] == ["store_failed", "timeout"]
        assert [one["code"] for one in (await world.ask("GET", "/v1/errors?limit=1")).items] == ["store_failed"]
        assert (await world.ask("GET", "/v1/errors?tenant=bolt")).items == []
        assert [one["count"] for one in (await world.ask("GET", f"/v1/errors?since={first + 1}&tenant=acme")).items] == [1]


async def test_who_may_not_read_the_log_may_not_read_its_errors() -> None:
    async with open_world() as world:
        assert (await world.ask("GET", "/v1/errors", key=world.acme.user)).status == 403
        assert (
            await world.ask("GET", "/v1/errors?tenant=bolt", key=await world.key(world.acme.tenant_id, ["logs:read"]))
        ).status == 404
