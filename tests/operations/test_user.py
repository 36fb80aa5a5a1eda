from urllib.parse import quote

import pytest
from tests.server.http.fixtures import open_world

from agentvm.tenants.rights import TENANT_WIDE


async def test_an_administrator_adds_changes_and_deletes_users() -> None:
    async with open_world() as world:
        admin = world.acme.admin
        made = await world.ask("POST", "/v1/users", {"externalId": "bob", "displayName": "Bob"}, key=admin)
        assert made.status == 201
        assert (made.body["role"], made.body["status"], made.body["tenantId"]) == ("member", "active", world.acme.tenant_id)
        path = f"/v1/users/{made.body['userId']}"
        assert (await world.ask("GET", path, key=admin)).body == made.body
        changed = await world.ask("PUT", path, {"role": "admin", "displayName": None}, key=admin)
        assert (changed.status, changed.body["role"]) == (200, "admin")
        assert "displayName" not in changed.body
        assert (await world.ask("DELETE", path, key=admin)).status == 204
        assert (await world.ask("GET", path, key=admin)).status == 404
        assert (await world.ask("PUT", path, {"role": "viewer"}, key=admin)).status == 404
        assert (await world.ask("DELETE", path, key=admin)).status == 404


async def test_an_external_id_is_one_users() -> None:
    async with open_world() as world:
        assert (await world.ask("POST", "/v1/users", {"externalId": "alice"}, key=world.acme.admin)).code == "conflict"


@pytest.mark.parametrize(
    "body", [{}, {"externalId": ""}, {"externalId": "a\x00"}, {"externalId": "a", "role": "god"}, {"externalId": 5}]
)
async def test_a_user_who_cannot_be_named_is_refused(body: dict[str, object]) -> None:
    async with open_world() as world:
        assert (await world.ask("POST", "/v1/users", body, key=world.acme.admin)).code == "invalid_input"


async def test_users_come_in_pages_by_external_id() -> None:
    async with open_world() as world:
        for name in ("bob", "carl"):
            await world.ask("POST", "/v1/users", {"externalId": name}, key=world.acme.admin)
        first = await world.ask("GET", "/v1/users?limit=2", key=world.acme.admin)
        assert [user["externalId"] for user in first.items] == ["alice", "bob"]
        rest = await world.ask("GET", f"/v1/users?cursor={first.body['nextCursor']}", key=world.acme.admin)
        assert [user["externalId"] for user in rest.items] == ["carl"]
        for limit in ("0", "1001", "x", "-1"):
            assert (await world.ask("GET", f"/v1/users?limit={limit}", key=world.acme.admin)).status == 400


async def test_a_user_is_bound_to_a_container_and_unbound_again() -> None:
    async with open_world() as world:
        acme = world.acme
        name = "Büro 7"
        path = f"/v1/users/{acme.user_id}/containers"
        assert (await world.ask("PUT", f"{path}/{quote(name)}", key=acme.admin)).status == 204
        bound = await world.ask("GET", path, key=acme.admin)
        assert {"containerId": name} in bound.items
        assert name in (await world.ask("GET", "/v1/auth/whoami", key=acme.user)).body["containers"]
        assert (await world.ask("DELETE", f"{path}/{quote(name)}", key=acme.admin)).status == 204
        assert name not in (await world.ask("GET", "/v1/auth/whoami", key=acme.user)).body["containers"]
        assert (await world.ask("DELETE", f"{path}/{quote(name)}", key=acme.admin)).status == 404
        assert (await world.ask("PUT", f"{path}/.hidden", key=acme.admin)).status == 400
        actions = [entry[0] for entry in await world.audit(acme.tenant_id)]
        assert actions == ["user.bind", "user.unbind", "user.unbind", "user.bind"]


async def test_who_is_suspended_is_not_let_in() -> None:
    async with open_world() as world:
        acme = world.acme
        await world.ask("PUT", f"/v1/users/{acme.user_id}", {"status": "suspended"}, key=acme.admin)
        assert (await world.ask("GET", "/v1/auth/whoami", key=acme.user)).status == 401


async def test_with_a_user_go_their_limits() -> None:
    async with open_world() as world:
        acme = world.acme
        quota = {"metric": "requests_per_minute", "hard": 100, "userId": acme.user_id}
        assert (await world.ask("PUT", "/v1/quotas", quota, key=acme.admin)).status == 200
        assert (await world.ask("DELETE", f"/v1/users/{acme.user_id}", key=acme.admin)).status == 204
        book = await world.vm.tenancy.quotas.book(acme.tenant_id)
        assert [key for key in book.counters if key[1] is not None] == []


async def test_who_administers_some_containers_binds_nobody_to_others() -> None:
    async with open_world() as world:
        acme = world.acme
        bob = await world.user(acme.tenant_id, "bob", "admin")
        admin = await world.key(acme.tenant_id, ["tenants:admin"], user_id=bob)
        for user_id in (bob, acme.user_id):
            refused = await world.ask("PUT", f"/v1/users/{user_id}/containers/user-alice", key=admin)
            assert (refused.status, refused.code) == (403, "container_forbidden")
        assert (await world.ask("PUT", f"/v1/users/{acme.user_id}/containers/user-bob", key=admin)).status == 204
        assert (await world.ask("PUT", f"/v1/users/{bob}/containers/user-alice", key=acme.admin)).status == 204


async def test_only_owners_and_the_operator_make_change_and_delete_owners() -> None:
    async with open_world() as world:
        acme = world.acme
        boss, bob = await world.user(acme.tenant_id, "boss", "owner"), await world.user(acme.tenant_id, "bob", "admin")
        owner = await world.key(acme.tenant_id, TENANT_WIDE, user_id=boss)
        admin = await world.key(acme.tenant_id, TENANT_WIDE, user_id=bob)
        for key in (admin, acme.admin):
            for method, path, body in (
                ("PUT", f"/v1/users/{boss}", {"role": "viewer"}),
                ("PUT", f"/v1/users/{boss}", {"status": "suspended"}),
                ("PUT", f"/v1/users/{bob}", {"role": "owner"}),
                ("DELETE", f"/v1/users/{boss}", None),
                ("POST", "/v1/users", {"externalId": "eve", "role": "owner"}),
            ):
                refused = await world.ask(method, path, body, key=key)
                assert (refused.status, refused.code) == (403, "access_denied")
        assert (await world.ask("PUT", f"/v1/users/{boss}", {"displayName": "Boss"}, key=admin)).status == 200
        assert (await world.ask("PUT", f"/v1/users/{bob}", {"role": "owner"}, key=owner)).status == 200
        assert (await world.ask("PUT", f"/v1/users/{bob}?tenant=acme", {"role": "member"})).status == 200


async def test_the_last_owner_stays_unless_the_operator_says_otherwise() -> None:
    async with open_world() as world:
        tenant_id = world.acme.tenant_id
        first = await world.user(tenant_id, "first", "owner")
        key = await world.key(tenant_id, TENANT_WIDE, user_id=first)
        for change in ({"role": "admin"}, {"status": "suspended"}):
            reply = await world.ask("PUT", f"/v1/users/{first}", change, key=key)
            assert (reply.status, reply.code) == (409, "conflict")
            assert "last owner" in reply.body["error"]["message"]
        assert (await world.ask("DELETE", f"/v1/users/{first}", key=key)).status == 409
        assert (await world.ask("GET", f"/v1/users/{first}", key=key)).body["isLastOwner"] is True
        assert (await world.ask("PUT", f"/v1/users/{first}", {"displayName": "One"}, key=key)).status == 200
        second = await world.user(tenant_id, "second", "owner")
        assert (await world.ask("GET", f"/v1/users/{first}", key=key)).body.get("isLastOwner") is None
        assert (await world.ask("PUT", f"/v1/users/{first}", {"role": "admin"}, key=key)).status == 200
        assert (await world.ask("DELETE", f"/v1/users/{second}?tenant=acme")).status == 204
