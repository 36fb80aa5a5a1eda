import pytest
from tests.server.http.fixtures import open_world

from agentvm.model.principal import MEMBER

pytestmark = pytest.mark.anyio


async def test_containers_are_listed_in_pages_as_far_as_one_reaches() -> None:
    async with open_world() as world:
        for name in ("user-alice", "b", "c"):
            await world.say(world.acme, "x", container=name)
        first = await world.ask("GET", "/v1/containers?limit=2", key=world.acme.admin)
        assert [one["containerId"] for one in first.items] == ["user-alice", "b"]
        rest = await world.ask("GET", f"/v1/containers?after={first.body['next']}", key=world.acme.admin)
        assert [one["containerId"] for one in rest.items] == ["c"]
        own = await world.ask("GET", "/v1/containers", key=world.acme.user)
        assert [one["containerId"] for one in own.items] == ["user-alice"]
        assert len((await world.ask("GET", "/v1/containers?tenant=acme")).items) == 3
        assert (await world.ask("GET", "/v1/containers", key=world.bolt.admin)).items == []


async def test_a_container_is_shown_with_what_is_in_it() -> None:
    async with open_world() as world:
        await world.say(world.acme, "one", "two", container="b")
        shown = (await world.ask("GET", "/v1/containers/b", key=world.acme.admin)).body
        assert (shown["containerId"], shown["owned"]["sessions"], shown["owned"]["messages"]) == ("b", 2, 2)
        assert (await world.ask("GET", "/v1/containers/nowhere", key=world.acme.admin)).code == "container_not_found"
        assert (await world.ask("GET", "/v1/containers/b", key=world.acme.user)).code == "container_forbidden"


async def test_a_dry_run_counts_deletes_nothing_and_is_no_deed() -> None:
    async with open_world() as world:
        await world.say(world.acme, "one", container="b")
        counted = await world.ask("DELETE", "/v1/containers/b?dryRun=true", key=world.acme.admin)
        assert (counted.status, counted.body["containers"], counted.body["messages"]) == (200, ["b"], 1)
        assert (await world.ask("GET", "/v1/containers/b", key=world.acme.admin)).status == 200
        assert await world.audit(world.acme.tenant_id) == []


async def test_a_container_is_deleted_and_the_audit_log_says_so() -> None:
    async with open_world() as world:
        await world.say(world.acme, "one", container="b")
        assert (await world.ask("DELETE", "/v1/containers/b", key=world.acme.admin)).status == 204
        assert (await world.ask("GET", "/v1/containers/b", key=world.acme.admin)).code == "container_not_found"
        assert (await world.ask("DELETE", "/v1/containers/b", key=world.acme.admin)).code == "container_not_found"
        assert await world.audit(world.acme.tenant_id) == [
            ("container.delete", "b", "refused:container_not_found"),
            ("container.delete", "b", "ok"),
        ]


async def test_a_key_of_the_tenant_deletes_what_it_reaches_and_a_user_only_what_is_theirs_alone() -> None:
    async with open_world() as world:
        acme = world.acme
        for name in ("user-alice", "shared", "user-bob"):
            await world.say(acme, "x", container=name)
        bob = await world.user(acme.tenant_id, "bob")
        await world.ask("PUT", f"/v1/users/{bob}/containers/shared", key=acme.admin)
        assert (await world.ask("DELETE", "/v1/containers/shared", key=acme.user)).code == "access_denied"
        assert (await world.ask("DELETE", "/v1/containers/user-alice", key=acme.user)).status == 204
        service = await world.key(acme.tenant_id, MEMBER, containers=["user-*"])
        assert (await world.ask("DELETE", "/v1/containers/shared", key=service)).code == "container_forbidden"
        assert (await world.ask("DELETE", "/v1/containers/user-bob", key=service)).status == 204
