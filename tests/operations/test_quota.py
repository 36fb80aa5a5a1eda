import pytest
from tests.server.http.fixtures import open_world

from agentvm.model.account import METRICS


async def test_a_limit_holds_from_the_next_request_on_and_says_when_to_come_back() -> None:
    async with open_world() as world:
        limit = {"metric": "requests_per_minute", "hard": 2}
        assert (await world.ask("PUT", "/v1/quotas?tenant=acme", limit)).status == 200
        for _ in range(2):
            assert (await world.ask("GET", "/v1/auth/whoami", key=world.acme.user)).status == 200
        refused = await world.ask("GET", "/v1/auth/whoami", key=world.acme.user)
        assert (refused.status, refused.code) == (429, "quota_exceeded")
        details = refused.body["error"]["details"]
        assert (details["metric"], details["limit"], details["used"]) == ("requests_per_minute", 2, 2)
        wait = int(refused.headers["retry-after"])
        assert wait == -(-(details["resetAt"] - world.clock()) // 1000)
        assert 0 < wait <= 60
        world.clock.now += wait * 1000
        assert (await world.ask("GET", "/v1/auth/whoami", key=world.acme.user)).status == 200
        assert (await world.ask("GET", "/v1/auth/whoami", key=world.bolt.user)).status == 200


async def test_the_limits_of_a_tenant_are_shown_with_what_is_used() -> None:
    async with open_world() as world:
        acme = world.acme
        await world.spend(acme.tenant_id, "1")
        await world.spend(acme.tenant_id, "2", user_id=acme.user_id)
        await world.ask("PUT", "/v1/quotas?tenant=acme", {"metric": "tokens_per_day", "hard": 1000, "soft": 500})
        of_user = {"metric": "tokens_per_month", "hard": 50, "userId": acme.user_id}
        assert (await world.ask("PUT", "/v1/quotas", of_user, key=acme.admin)).body["used"] == 15
        items = (await world.ask("GET", "/v1/quotas", key=acme.admin)).items
        each = [item["metric"] for item in items if item.get("eachUser")]
        assert each == ["requests_per_minute", "connections", "stored_bytes_per_day"]
        assert [item["metric"] for item in items] == [*METRICS, *each, "tokens_per_month"]
        found = {item["metric"]: item for item in items if "userId" not in item}
        day = found["tokens_per_day"]
        assert (day["hard"], day["soft"], day["used"]) == (1000, 500, 30)
        assert day["resetAt"] > world.clock()
        assert found["budget_per_month"]["used"] == 210
        assert found["containers"]["used"] == 0
        mine = (await world.ask("GET", "/v1/quotas", key=acme.user)).items
        own = [item for item in mine if item["source"] == "user"]
        assert [(item["metric"], item["userId"], item["used"]) for item in own] == [("tokens_per_month", acme.user_id, 15)]
        assert {item["source"] for item in mine} == {"user", "plan"}


async def test_a_limit_of_each_user_holds_for_all_who_have_no_other() -> None:
    async with open_world() as world:
        acme = world.acme
        limit = {"metric": "requests_per_minute", "hard": 2, "eachUser": True}
        made = await world.ask("PUT", "/v1/quotas", limit, key=acme.admin)
        assert (made.body["eachUser"], made.body["source"], "userId" in made.body) == (True, "eachUser", False)
        bob = await world.key(acme.tenant_id, ["usage:read"], user_id=await world.user(acme.tenant_id, "bob"))
        for key in (acme.user, bob):
            statuses = [(await world.ask("GET", "/v1/auth/whoami", key=key)).status for _ in range(3)]
            assert statuses == [200, 200, 429]
        # A limit of one's own goes before it, and without either the plan's holds.
        await world.ask(
            "PUT", "/v1/quotas", {"metric": "requests_per_minute", "hard": 50, "userId": acme.user_id}, key=acme.admin
        )
        assert (await world.ask("GET", "/v1/auth/whoami", key=acme.user)).status == 200
        assert (await world.ask("GET", "/v1/auth/whoami", key=bob)).status == 429
        assert (await world.ask("DELETE", "/v1/quotas?metric=requests_per_minute&eachUser=true", key=acme.admin)).status == 204
        assert (await world.ask("GET", "/v1/auth/whoami", key=bob)).status == 200
        both = {**limit, "userId": acme.user_id}
        assert (await world.ask("PUT", "/v1/quotas", both, key=acme.admin)).code == "invalid_input"


async def test_a_plan_sets_limits_and_what_was_set_goes_before_them() -> None:
    async with open_world() as world:
        plan = {
            "changes": {
                "plans.tiny.limits": {"requests_per_minute": 3, "containers": 1},
                "plans.tiny.users": {"connections": 4},
            }
        }
        assert (await world.ask("PUT", "/v1/config", plan)).status == 200
        assert (await world.ask("PUT", "/v1/tenants/acme", {"plan": "tiny"})).status == 200

        async def limits() -> dict[str, tuple[int, str]]:
            items = (await world.ask("GET", "/v1/quotas?tenant=acme")).items
            return {item["metric"]: (item["hard"], item["source"]) for item in items if "hard" in item and "userId" not in item}

        assert await limits() == {"requests_per_minute": (3, "plan"), "containers": (1, "plan"), "connections": (4, "plan")}
        statuses = [(await world.ask("GET", "/v1/auth/whoami", key=world.acme.user)).status for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
        await world.ask("PUT", "/v1/quotas?tenant=acme", {"metric": "requests_per_minute", "hard": 100})
        assert (await limits())["requests_per_minute"] == (100, "tenant")
        assert (await world.ask("GET", "/v1/auth/whoami", key=world.acme.user)).status == 200
        # A change of the plan holds at once, for all who have it.
        change = {"changes": {"plans.tiny.limits": {"containers": 7}}}
        assert (await world.ask("PUT", "/v1/config", change)).status == 200
        assert (await limits())["containers"] == (7, "plan")
        unknown = await world.ask("PUT", "/v1/tenants/acme", {"plan": "gold"})
        assert unknown.code == "invalid_input"
        assert b"default, free, pro, unlimited, tiny" in unknown.raw


async def test_requests_of_the_minute_before_are_not_shown() -> None:
    async with open_world() as world:
        await world.ask("PUT", "/v1/quotas?tenant=acme", {"metric": "requests_per_minute", "hard": 10})
        await world.ask("GET", "/v1/auth/whoami", key=world.acme.user)

        async def used() -> int:
            items = (await world.ask("GET", "/v1/quotas?tenant=acme")).items
            return int(next(item["used"] for item in items if item["metric"] == "requests_per_minute"))

        assert await used() == 1
        world.clock.now += 60_000
        assert await used() == 0


async def test_a_limit_is_removed() -> None:
    async with open_world() as world:
        acme = world.acme
        await world.ask("PUT", "/v1/quotas?tenant=acme", {"metric": "requests_per_minute", "hard": 3})
        assert (await world.ask("DELETE", "/v1/quotas?tenant=acme&metric=requests_per_minute")).status == 204
        assert (await world.ask("DELETE", "/v1/quotas?tenant=acme&metric=requests_per_minute")).status == 404
        for _ in range(5):
            assert (await world.ask("GET", "/v1/auth/whoami", key=acme.user)).status == 200
        entries = [entry for entry in await world.audit(acme.tenant_id) if entry[0] == "quota.delete"]
        assert [entry[2] for entry in entries] == ["refused:not_found", "ok"]


@pytest.mark.parametrize(
    "body",
    [
        {"metric": "nope", "hard": 1},
        {"metric": "containers"},
        {"metric": "containers", "hard": -1},
        {"metric": "containers", "hard": 1, "soft": 2},
        {"metric": "containers", "hard": 2**60},
        {"metric": "containers", "hard": "1"},
        {"metric": "containers", "hard": 1.5},
        {"metric": "containers", "hard": 1, "sort": 2},
    ],
)
async def test_a_limit_that_means_nothing_is_refused(body: dict[str, object]) -> None:
    async with open_world() as world:
        assert (await world.ask("PUT", "/v1/quotas?tenant=acme", body)).code == "invalid_input"


async def test_a_limit_of_nobody_is_refused() -> None:
    async with open_world() as world:
        body = {"metric": "connections", "hard": 1, "userId": world.bolt.user_id}
        assert (await world.ask("PUT", "/v1/quotas", body, key=world.acme.admin)).status == 404


async def test_only_the_operator_says_what_a_tenant_as_a_whole_may_use() -> None:
    async with open_world() as world:
        body = {"metric": "containers", "hard": 5}
        assert (await world.ask("PUT", "/v1/quotas", body, key=world.acme.admin)).code == "permission_denied"
        assert (await world.ask("PUT", "/v1/quotas?tenant=acme", body)).status == 200
        refused = await world.ask("DELETE", "/v1/quotas?metric=containers", key=world.acme.admin)
        assert refused.code == "permission_denied"


async def test_a_key_for_some_containers_sees_no_limits_of_users() -> None:
    async with open_world() as world:
        acme = world.acme
        quota = {"metric": "tokens_per_day", "hard": 5, "userId": acme.user_id}
        assert (await world.ask("PUT", "/v1/quotas", quota, key=acme.admin)).status == 200
        reader = await world.key(acme.tenant_id, ["usage:read"], containers=["c9"])
        admin = await world.key(acme.tenant_id, ["tenants:admin"], containers=["c9"])
        for query in ("", f"?userId={acme.user_id}"):
            assert (await world.ask("GET", f"/v1/quotas{query}", key=reader)).items == []
        assert (await world.ask("GET", f"/v1/quotas?userId={acme.user_id}", key=admin)).items == []
        seen = (await world.ask("GET", "/v1/quotas", key=admin)).items
        assert seen
        assert not any("userId" in item for item in seen)
