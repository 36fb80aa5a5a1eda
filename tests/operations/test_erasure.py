"""Deleting is deleting, as those see it who ask over HTTP."""

import anyio
from tests.server.http.fixtures import World, open_world


async def erased(world: World) -> None:
    """Returns when nothing is being erased any more."""
    with anyio.fail_after(60):
        while (await world.ask("GET", "/v1/erasures")).items:  # noqa: ASYNC110  # there is no event to wait for
            await anyio.sleep(0.01)


async def test_a_user_who_is_created_again_inherits_nothing() -> None:
    async with open_world() as world:
        admin = world.acme.admin
        made = await world.ask("POST", "/v1/users", {"externalId": "u1"}, key=admin)
        path = f"/v1/users/{made.body['userId']}"
        home = (await world.ask("GET", f"{path}/containers", key=admin)).items[0]["containerId"]
        await world.say(world.acme, "my pin is 4711", container=home)
        assert (await world.ask("DELETE", path, key=admin)).status == 204
        again = await world.ask("POST", "/v1/users", {"externalId": "u1"}, key=admin)
        key = await world.key(world.acme.tenant_id, ["agent:use", "sessions:read"], user_id=again.body["userId"])
        assert (await world.ask("GET", "/v1/sessions/search?q=4711", key=key)).items == []
        assert (await world.ask("GET", "/v1/sessions", key=key)).items == []
        bound = await world.ask("GET", f"/v1/users/{again.body['userId']}/containers", key=admin)
        assert bound.items[0]["containerId"] != home
        await erased(world)
        assert (await world.ask("GET", "/v1/sessions/search?q=4711", key=admin)).items == []


async def test_a_user_whose_container_was_left_by_an_earlier_version_does_not_get_it() -> None:
    async with open_world() as world:
        await world.say(world.acme, "my pin is 4711", container="user-carl")
        made = await world.ask("POST", "/v1/users", {"externalId": "carl"}, key=world.acme.admin)
        bound = await world.ask("GET", f"/v1/users/{made.body['userId']}/containers", key=world.acme.admin)
        assert bound.items[0]["containerId"].startswith("user-carl~")


async def test_a_dry_run_counts_what_goes_with_a_user_and_with_a_tenant() -> None:
    async with open_world() as world:
        acme = world.acme
        await world.say(acme, "one", "two", container="user-alice")
        counted = await world.ask("DELETE", f"/v1/users/{acme.user_id}?dryRun=true", key=acme.admin)
        assert (counted.status, counted.body["containers"], counted.body["messages"]) == (200, ["user-alice"], 2)
        assert (counted.body["keys"], counted.body["users"]) == (1, 1)
        tenant = (await world.ask("DELETE", "/v1/tenants/acme?dryRun=true")).body
        called = (await world.ask("POST", "/v1/tenants/delete", {"tenant": "acme", "dryRun": True})).body
        assert (tenant["users"], tenant["keys"], tenant["secrets"], tenant["sessions"]) == (1, 2, 1, 2)
        assert tenant == called
        assert (await world.ask("GET", "/v1/tenants/acme")).status == 200
        assert await world.audit(acme.tenant_id) == []
        assert (await world.ask("DELETE", "/v1/users/nobody?dryRun=true", key=acme.admin)).status == 404


async def test_a_deleted_tenant_is_erased_and_one_of_the_same_name_begins_with_nothing() -> None:
    async with open_world() as world:
        await world.hide(world.acme)
        await world.hide(world.bolt)
        assert (await world.ask("DELETE", "/v1/tenants/acme")).status == 204
        await erased(world)
        store = world.vm.tenancy.store
        assert await store.tenant(world.acme.tenant_id).list_containers() == ()
        assert (await world.ask("POST", "/v1/tenants", {"slug": "acme", "name": "Acme"})).status == 201
        for path in ("sessions", "containers", "users", "secrets"):
            assert (await world.ask("GET", f"/v1/{path}?tenant=acme")).items == []
        assert (await world.ask("GET", "/v1/sessions/search?q=said&tenant=bolt")).body["total"] == 1


async def test_what_is_being_erased_is_seen_by_the_operator_and_by_who_administers_the_tenant() -> None:
    async with open_world() as world:
        eraser_is_kept_waiting = await world.vm.tenancy.store.commit([], entry=b"a turn of somebody else")
        await world.say(world.acme, "x", container="b")
        await world.ask("DELETE", "/v1/containers/b", key=world.acme.admin)
        (one,) = (await world.ask("GET", "/v1/erasures")).items
        assert (one["tenantId"], one["containerId"]) == (world.acme.tenant_id, "b")
        assert (await world.ask("GET", "/v1/erasures", key=world.acme.admin)).items[0]["containerId"] == "b"
        assert (await world.ask("GET", "/v1/erasures", key=world.bolt.admin)).items == []
        assert (await world.ask("GET", "/v1/erasures", key=world.acme.user)).code == "permission_denied"
        await world.vm.tenancy.store.commit([], forget=eraser_is_kept_waiting.entry + 1)
        await erased(world)
