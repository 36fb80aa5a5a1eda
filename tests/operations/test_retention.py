import anyio
from tests.server.http.fixtures import open_world

from agentvm.model.retention import DAY_MS


async def test_a_tenant_sees_its_policy_and_what_another_would_delete() -> None:
    async with open_world() as world:
        await world.say(world.acme, "old")
        await world.say(world.bolt, "theirs")
        world.clock.now += 50 * DAY_MS
        shown = (await world.ask("GET", "/v1/retention", key=world.acme.admin)).body
        assert shown["tenantId"] == world.acme.tenant_id
        assert shown["policy"] == {
            "sessionDays": None,
            "archivedDays": None,
            "statelessDays": 30,
            "rewoundDays": 30,
            "messageDays": None,
        }
        assert shown["due"] == {"sessions": 0, "emptied": 0, "messages": 0, "bytes": 0}
        tried = (await world.ask("GET", "/v1/retention?sessionDays=40", key=world.acme.admin)).body
        assert (tried["due"]["sessions"], tried["due"]["messages"], tried["policy"]) == (1, 1, shown["policy"])
        assert tried["due"]["bytes"] > 0
        assert (await world.ask("GET", "/v1/retention?sessionDays=0", key=world.acme.admin)).status == 400
        assert (await world.ask("GET", "/v1/retention", key=world.acme.user)).code == "permission_denied"


async def test_a_policy_of_a_tenant_counts_for_it_alone_and_at_once() -> None:
    async with open_world() as world:
        mine, theirs = await world.say(world.acme, "old"), await world.say(world.bolt, "old")
        world.clock.now += 50 * DAY_MS
        change = {"changes": {"retention.sessionDays": 40}}
        assert (await world.ask("PUT", "/v1/config", change, key=world.acme.admin)).status == 200
        with anyio.fail_after(60):
            assert (await world.vm.retainer.run()).sessions == 1
        assert (await world.ask("GET", f"/v1/sessions/{mine}", key=world.acme.admin)).status == 404
        assert (await world.ask("POST", f"/v1/sessions/{mine}/restore", key=world.acme.admin)).status == 404
        assert (await world.ask("GET", f"/v1/sessions/{theirs}", key=world.bolt.admin)).status == 200
        counted = (await world.ask("GET", "/metrics")).raw.decode()
        assert 'agentvm_retention_dropped_total{kind="sessions"} 1.0' in counted
