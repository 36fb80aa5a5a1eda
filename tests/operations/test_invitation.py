"""Invitations, over the management API."""

from typing import Any

import pytest
from tests.server.http.fixtures import World, open_world

from agentvm.storage.sql.accounts.invitations import INVITATIONS_MAX
from agentvm.tenants.rights import TENANT_WIDE

ALL, SHOW, ACCEPT = "/v1/invitations", "/v1/auth/invitation", "/v1/auth/invitation/accept"
DAY_MS = 24 * 3600 * 1000


async def invite(world: World, key: str | None = None, **fields: object) -> tuple[dict[str, Any], str]:
    """Returns the invitation and the secret of its link."""
    reply = await world.ask("POST", ALL, fields, key=world.acme.admin if key is None else key)
    assert reply.status == 201, reply.raw
    page, _, token = reply.body["link"].partition("#")
    assert page == "/invitations/accept"
    return reply.body, token


async def test_a_link_makes_one_user_with_a_key() -> None:
    async with open_world() as world:
        made, token = await invite(world, displayName="<b>Bob</b>", externalId="bob")
        shown = await world.ask("POST", SHOW, {"key": token}, key="")
        assert shown.body == {
            "tenant": "Acme",
            "role": "member",
            "externalId": "bob",
            "displayName": "<b>Bob</b>",
            "expiresAt": world.clock() + 7 * DAY_MS,
        }
        accepted = await world.ask("POST", ACCEPT, {"key": token}, key="")
        assert accepted.status == 201
        who = (await world.ask("GET", "/v1/auth/whoami", key=accepted.body["key"])).body
        assert (who["tenant"], who["user"], who["role"], who["containers"]) == ("acme", "bob", "member", ["user-bob"])
        (listed,) = (await world.ask("GET", ALL, key=world.acme.admin)).items
        assert (listed["userId"], listed["acceptedAt"]) == (who["userId"], world.clock())
        assert "link" not in listed
        again = await world.ask("POST", ACCEPT, {"key": token}, key="")
        assert (again.status, again.body["error"]["details"]["reason"]) == (401, "invitation_accepted")
        audit = await world.audit(world.acme.tenant_id)
        assert ("invitation.create", made["invitationId"], "ok") in audit
        assert ("invitation.accept", who["userId"], "ok") in audit


async def test_the_link_is_stored_as_a_digest_only() -> None:
    async with open_world() as world:
        _, token = await invite(world)
        store = world.vm.tenancy.store.directory
        rows = await store._database.read(lambda connection: connection.fetch("SELECT * FROM invitations"))
        assert token.encode() not in repr(rows).encode()
        assert token not in repr(await world.audit(world.acme.tenant_id))


async def test_an_invited_person_chooses_a_name_that_is_free() -> None:
    async with open_world() as world:
        _, token = await invite(world)
        assert (await world.ask("POST", ACCEPT, {"key": token}, key="")).code == "invalid_input"
        taken = await world.ask("POST", ACCEPT, {"key": token, "externalId": "alice"}, key="")
        assert (taken.status, taken.code) == (409, "conflict")
        assert (await world.ask("POST", ACCEPT, {"key": token, "externalId": "carol"}, key="")).status == 201
        assert (await world.ask("POST", ALL, {"externalId": "carol"}, key=world.acme.admin)).status == 409


async def test_links_end() -> None:
    async with open_world() as world:
        late, revoked = await invite(world, days=1), await invite(world)
        path = f"{ALL}/{revoked[0]['invitationId']}"
        assert (await world.ask("DELETE", path, key=world.bolt.admin)).status == 404
        assert (await world.ask("DELETE", path, key=world.acme.admin)).status == 204
        assert (await world.ask("DELETE", path, key=world.acme.admin)).status == 404
        world.clock.now += DAY_MS
        tokens = {"expired": [late[1]], "revoked": [revoked[1]], "unknown": ["avmin_x", "", f"avmin_{'x' * 43}"]}
        for reason, token in ((reason, token) for reason, ended in tokens.items() for token in ended):
            for route in (SHOW, ACCEPT):
                body = {"key": token, "externalId": "x"} if route == ACCEPT else {"key": token}
                refused = await world.ask("POST", route, body, key="")
                assert (refused.status, refused.body["error"]["details"]["reason"]) == (401, f"invitation_{reason}")


async def test_a_link_is_no_credential() -> None:
    async with open_world() as world:
        _, token = await invite(world)
        for path in ("/v1/auth/whoami", "/v1/users", "/v1/auth/preferences"):
            assert (await world.ask("GET", path, key=token)).status == 401
        assert (await world.ask("POST", "/v1/auth/session", {"key": token}, key="")).status == 401
        assert (await world.ask("POST", ACCEPT, {"key": world.acme.user, "externalId": "x"}, key="")).status == 401


@pytest.mark.parametrize(("role", "status"), [("viewer", 201), ("admin", 201), ("owner", 403)])
async def test_nobody_invites_to_more_than_they_have(role: str, status: int) -> None:
    async with open_world() as world:
        boss = await world.user(world.acme.tenant_id, "boss", "admin")
        key = await world.key(world.acme.tenant_id, TENANT_WIDE, user_id=boss)
        assert (await world.ask("POST", ALL, {"role": role}, key=key)).status == status
        assert (await world.ask("POST", ALL, {"role": role}, key=world.acme.user)).status == 403


async def test_invitations_are_bounded() -> None:
    async with open_world() as world:
        for wrong in ({"days": 0}, {"days": 91}, {"role": "god"}, {"displayName": "\x07"}, {"externalId": "x" * 201}):
            assert (await world.ask("POST", ALL, wrong, key=world.acme.admin)).status == 400
        add = world.vm.tenancy.access.invitations.add
        for _ in range(INVITATIONS_MAX):
            await add(world.acme.tenant_id, "setup", role="member", external_id=None, display_name=None, days=7)
        assert (await world.ask("POST", ALL, {}, key=world.acme.admin)).code == "conflict"


async def test_the_links_of_a_suspended_tenant_rest() -> None:
    async with open_world() as world:
        _, token = await invite(world)
        assert (await world.ask("PUT", "/v1/tenants/acme", {"status": "suspended"})).status == 200
        assert (await world.ask("POST", ACCEPT, {"key": token, "externalId": "x"}, key="")).status == 401
        assert (await world.ask("PUT", "/v1/tenants/acme", {"status": "active"})).status == 200
        assert (await world.ask("POST", ACCEPT, {"key": token, "externalId": "x"}, key="")).status == 201
