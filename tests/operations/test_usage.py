import csv
import io

import httpx2
import pytest
from tests.server.http.fixtures import NOON, World, open_world

from agentvm import ScriptedDriver, ServerConfig, start_server
from agentvm.config import MEMORY, SystemSettings
from agentvm.drivers.scripted import echo
from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.principal import EVERYTHING, Principal

DAY = 86_400_000


async def spend_some(world: World) -> None:
    acme = world.acme
    bob = await world.user(acme.tenant_id, "bob")
    await world.spend(acme.tenant_id, "1", user_id=acme.user_id, container_id="user-alice")
    await world.spend(acme.tenant_id, "2", user_id=acme.user_id, container_id="elsewhere", model="m2")
    await world.spend(acme.tenant_id, "3", user_id=bob, container_id="user-bob", at=NOON + DAY)
    await world.spend(world.bolt.tenant_id, "4", container_id="user-alice")


async def test_usage_is_summed_by_what_is_asked() -> None:
    async with open_world() as world:
        await spend_some(world)
        whole = (await world.ask("GET", "/v1/usage", key=world.acme.admin)).items
        assert [(row["calls"], row["inputTokens"], row["cost"], row["price"]) for row in whole] == [(3, 30, 300, 315)]
        rows = (await world.ask("GET", "/v1/usage?by=model,day", key=world.acme.admin)).items
        assert sorted((row["model"], row["day"], row["calls"]) for row in rows) == [
            ("m1", "2023-11-14", 1),
            ("m1", "2023-11-15", 1),
            ("m2", "2023-11-14", 1),
        ]
        by_user = (await world.ask("GET", "/v1/usage?by=user,container,image,session", key=world.acme.admin)).items
        assert {row["containerId"] for row in by_user} == {"user-alice", "elsewhere", "user-bob"}


@pytest.mark.parametrize(
    ("query", "calls"),
    [
        ("since=2023-11-15", 1),
        ("until=2023-11-15", 2),
        (f"since={NOON + 1}", 1),
        ("since=2023-11-14T22:13:20Z&until=2023-11-14T22:13:21%2B00:00", 2),
        ("since=2030-01-01", 0),
    ],
)
async def test_usage_is_of_a_time(query: str, calls: int) -> None:
    async with open_world() as world:
        await spend_some(world)
        rows = (await world.ask("GET", f"/v1/usage?{query}", key=world.acme.admin)).items
        assert [row["calls"] for row in rows] == [calls]


@pytest.mark.parametrize("query", ["by=tenant", "by=user;drop", "since=yesterday", "until=99999999999999999", "format=xml"])
async def test_a_question_that_means_nothing_is_refused(query: str) -> None:
    async with open_world() as world:
        assert (await world.ask("GET", f"/v1/usage?{query}", key=world.acme.admin)).code == "invalid_input"


async def test_only_the_operator_sees_the_margin() -> None:
    async with open_world() as world:
        await spend_some(world)
        row = (await world.ask("GET", "/v1/usage?tenant=acme")).items[0]
        assert (row["price"], row["cost"], row["margin"]) == (315, 300, 15)
        for path in ("/v1/usage", "/v1/usage?format=csv"):
            assert b"margin" not in (await world.ask("GET", path, key=world.acme.admin)).raw


async def test_users_see_what_they_used_in_the_containers_they_reach() -> None:
    async with open_world() as world:
        await spend_some(world)
        rows = (await world.ask("GET", "/v1/usage?by=user,container", key=world.acme.user)).items
        assert [(row["userId"], row["containerId"]) for row in rows] == [(world.acme.user_id, "user-alice")]


async def test_a_key_bound_to_containers_sees_theirs_alone() -> None:
    async with open_world() as world:
        await spend_some(world)
        bound = await world.key(world.acme.tenant_id, ["usage:read"], containers=["user-*"])
        rows = (await world.ask("GET", "/v1/usage?by=container", key=bound)).items
        assert {row["containerId"] for row in rows} == {"user-alice", "user-bob"}
        free = await world.key(world.acme.tenant_id, ["usage:read"])
        assert len((await world.ask("GET", "/v1/usage?by=container", key=free)).items) == 3
        nowhere = await world.key(world.acme.tenant_id, ["usage:read"], containers=["x"])
        assert (await world.ask("GET", "/v1/usage?by=container", key=nowhere)).items == []


@pytest.mark.parametrize(("query", "accept"), [("&format=csv", b"*/*"), ("", b"text/csv")])
async def test_a_spreadsheet_can_read_it_and_runs_nothing(query: str, accept: bytes) -> None:
    async with open_world() as world:
        await world.spend(world.acme.tenant_id, "1", container_id='=cmd|"/c calc"')
        path = f"/v1/usage?by=container,day{query}"
        reply = await world.ask("GET", path, key=world.acme.admin, headers=[(b"accept", accept)])
        assert reply.headers["content-type"].startswith("text/csv")
        (row,) = csv.DictReader(io.StringIO(reply.raw.decode()))
        assert (row["containerId"], row["day"], row["price"]) == ('\'=cmd|"/c calc"', "2023-11-14", "105")


async def test_json_is_given_when_it_is_asked_for_by_name() -> None:
    async with open_world() as world:
        reply = await world.ask("GET", "/v1/usage?format=json", headers=[(b"accept", b"text/csv")])
        assert reply.headers["content-type"] == "application/json"


async def test_the_ledger_is_read_in_pages() -> None:
    async with open_world() as world:
        await spend_some(world)
        first = await world.ask("GET", "/v1/usage/entries?limit=2", key=world.acme.admin)
        rest = await world.ask("GET", f"/v1/usage/entries?cursor={first.body['nextCursor']}", key=world.acme.admin)
        assert "nextCursor" not in rest.body
        entries = first.items + rest.items
        assert [entry["key"] for entry in entries] == ["1", "2", "3"]
        assert entries[0]["usage"] == {"inputTokens": 10, "outputTokens": 5}
        assert entries[0]["number"] < entries[1]["number"]
        later = await world.ask("GET", "/v1/usage/entries?since=2023-11-15", key=world.acme.admin)
        assert [entry["key"] for entry in later.items] == ["3"]
        newest = await world.ask("GET", "/v1/usage/entries?order=newest&limit=2", key=world.acme.admin)
        oldest = await world.ask(
            "GET", f"/v1/usage/entries?order=newest&cursor={newest.body['nextCursor']}", key=world.acme.admin
        )
        assert [entry["key"] for entry in newest.items + oldest.items] == ["3", "2", "1"]
        assert "nextCursor" not in oldest.body
        assert (await world.ask("GET", "/v1/usage/entries", key=world.acme.user)).status == 403


async def test_a_series_has_every_step_also_those_without_usage() -> None:
    async with open_world() as world:
        await spend_some(world)
        world.clock.now = NOON + 3 * DAY
        told = (await world.ask("GET", "/v1/usage/series?since=2023-11-13", key=world.acme.admin)).body
        assert told["by"] == "day"
        assert [(point["day"], point["calls"], point["price"]) for point in told["items"]] == [
            ("2023-11-13", 0, 0),
            ("2023-11-14", 2, 210),
            ("2023-11-15", 1, 105),
            ("2023-11-16", 0, 0),
            ("2023-11-17", 0, 0),
        ]
        hours = (await world.ask("GET", "/v1/usage/series?by=hour&since=2023-11-14T21:00&until=2023-11-14T23:00")).items
        assert [(point["hour"], point["calls"]) for point in hours] == [("2023-11-14T21:00Z", 0), ("2023-11-14T22:00Z", 0)]
        months = (await world.ask("GET", "/v1/usage/series?by=month&tenant=acme")).items
        assert (len(months), months[-1]["month"], months[-1]["calls"], months[-1]["margin"]) == (12, "2023-11", 3, 15)


async def test_a_series_is_of_what_the_asker_may_see() -> None:
    async with open_world() as world:
        await spend_some(world)
        (point,) = (await world.ask("GET", "/v1/usage/series?since=2023-11-14", key=world.acme.user)).items
        assert (point["calls"], "margin" in point) == (1, False)
        assert (await world.ask("GET", "/v1/usage/series?by=week", key=world.acme.user)).code == "invalid_input"
        nothing = await world.ask("GET", "/v1/usage/series?since=2030-01-01", key=world.acme.user)
        assert nothing.items == []


async def test_usage_is_summed_by_the_key_that_asked() -> None:
    guarded = ServerConfig(system=SystemSettings(port=0, data_dir=MEMORY, auth="on"))
    async with start_server(guarded, drivers={"scripted": ScriptedDriver(echo)}) as server:
        access = server.server.vm.tenancy.access
        operator = Principal(tenant_id=DEFAULT_TENANT, permissions=EVERYTHING)
        issued = [
            await access.issue(DEFAULT_TENANT, name=name, granter=operator, permissions=EVERYTHING) for name in ("a", "b")
        ]
        for (_, secret), turns in zip(issued, (2, 1), strict=True):
            headers = {"Authorization": f"Bearer {secret.reveal()}"}
            async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=60) as web:
                for _ in range(turns):
                    assert (await web.post("/v1/run", json={"content": "Hello"})).is_success
        async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=60) as web:
            items = (await web.get("/v1/usage?by=key")).json()["items"]
            (entry, *_) = (await web.get("/v1/usage/entries")).json()["items"]
        first, second = (key.key_id for key, _ in issued)
        assert {item["keyId"]: item["calls"] for item in items} == {first: 2, second: 1}
        assert entry["keyId"] == first
