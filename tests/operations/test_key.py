import pytest
from tests.server.http.fixtures import OPERATOR, open_world

from agentvm.model.account import ApiKey, UserRole
from agentvm.model.ids import DEFAULT_TENANT, KeyId
from agentvm.model.principal import EVERYTHING, MEMBER, PERMISSIONS
from agentvm.tenants.rights import DEFAULT_PERMISSIONS, TENANT_WIDE


async def test_a_key_is_shown_once_and_opens_the_door() -> None:
    async with open_world() as world:
        made = await world.ask("POST", "/v1/auth/keys", {"name": "laptop"}, key=world.acme.admin)
        assert made.status == 201
        assert made.headers["cache-control"] == "no-store"
        text, key_id = made.body["key"], made.body["keyId"]
        assert set(made.body["permissions"]) == MEMBER
        who = (await world.ask("GET", "/v1/auth/whoami", key=text)).body
        assert (who["tenant"], who["keyId"], who["auth"]) == ("acme", key_id, "on")
        for path in ("/v1/auth/keys", f"/v1/auth/keys/{key_id}"):
            again = await world.ask("GET", path, key=world.acme.admin)
            assert again.status == 200
            assert text.encode() not in again.raw
            assert b'"key":' not in again.raw


async def test_a_key_can_be_for_a_user_for_containers_and_for_a_time() -> None:
    async with open_world() as world:
        about = {"name": "k", "userId": world.acme.user_id, "permissions": ["agent:use"], "containers": ["s*"], "expiresAt": 1}
        late = await world.ask("POST", "/v1/auth/keys", about, key=world.acme.admin)
        assert (late.status, late.code) == (400, "invalid_input")
        about["expiresAt"] = world.clock() + 1000
        made = await world.ask("POST", "/v1/auth/keys", about, key=world.acme.admin)
        assert made.status == 201
        who = (await world.ask("GET", "/v1/auth/whoami", key=made.body["key"])).body
        assert (who["user"], who["role"], who["containers"]) == ("alice", "member", ["shared"])
        assert who["permissions"] == ["agent:use"]
        world.clock.now += 1000
        assert (await world.ask("GET", "/v1/auth/whoami", key=made.body["key"])).status == 401


async def test_nobody_gives_away_what_they_have_not() -> None:
    async with open_world() as world:
        admin = await world.key(world.acme.tenant_id, ["keys:admin", "agent:use"])
        refused = await world.ask("POST", "/v1/auth/keys", {"name": "k", "permissions": ["system:admin"]}, key=admin)
        assert (refused.status, refused.code) == (403, "permission_denied")
        given = await world.ask("POST", "/v1/auth/keys", {"name": "k", "permissions": ["agent:use"]}, key=admin)
        assert given.status == 201


async def test_a_rotated_key_replaces_the_old_at_once_or_after_its_grace() -> None:
    async with open_world() as world:
        path = f"/v1/auth/keys/{world.acme.user_key_id}/rotate"
        second = await world.ask("POST", path, {"graceSeconds": 60}, key=world.acme.admin)
        assert second.status == 201
        assert (await world.ask("GET", "/v1/auth/whoami", key=world.acme.user)).status == 200
        world.clock.now += 60_000
        assert (await world.ask("GET", "/v1/auth/whoami", key=world.acme.user)).status == 401
        third = await world.ask("POST", f"/v1/auth/keys/{second.body['keyId']}/rotate", key=world.acme.admin)
        assert third.status == 201
        assert (await world.ask("GET", "/v1/auth/whoami", key=second.body["key"])).status == 401
        assert (await world.ask("GET", "/v1/auth/whoami", key=third.body["key"])).status == 200
        assert (await world.ask("POST", path, {"graceSeconds": -1}, key=world.acme.admin)).status == 400
        assert (await world.ask("POST", path, {}, key=world.acme.admin)).status == 404


async def test_users_see_renew_and_end_their_own_keys_only() -> None:
    async with open_world() as world:
        acme = world.acme
        listed = await world.ask("GET", "/v1/auth/keys", key=acme.user)
        assert [key["keyId"] for key in listed.items] == [acme.user_key_id]
        other = (await world.ask("GET", "/v1/auth/keys", key=acme.admin)).items
        foreign = next(key["keyId"] for key in other if key["keyId"] != acme.user_key_id)
        for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/rotate")):
            refused = await world.ask(method, f"/v1/auth/keys/{foreign}{path}", key=acme.user)
            absent = await world.ask(method, f"/v1/auth/keys/nope{path}", key=acme.user)
            assert refused.status == 404
            assert refused.but_its_id(foreign) == absent.but_its_id("nope")
        assert (await world.ask("POST", "/v1/auth/keys", {"name": "k"}, key=acme.user)).status == 403
        renewed = await world.ask("POST", f"/v1/auth/keys/{acme.user_key_id}/rotate", key=acme.user)
        assert renewed.status == 201
        ended = await world.ask("DELETE", f"/v1/auth/keys/{renewed.body['keyId']}", key=renewed.body["key"])
        assert ended.status == 204
        assert (await world.ask("GET", "/v1/auth/whoami", key=renewed.body["key"])).status == 401


async def test_a_user_asking_for_the_keys_of_another_is_given_their_own() -> None:
    async with open_world() as world:
        bob = await world.user(world.acme.tenant_id, "bob")
        await world.key(world.acme.tenant_id, MEMBER, user_id=bob)
        listed = await world.ask("GET", f"/v1/auth/keys?userId={bob}", key=world.acme.user)
        assert [key["keyId"] for key in listed.items] == [world.acme.user_key_id]
        assert len((await world.ask("GET", f"/v1/auth/keys?userId={bob}", key=world.acme.admin)).items) == 1


@pytest.mark.parametrize(
    ("role", "permissions"),
    [("owner", TENANT_WIDE), ("admin", TENANT_WIDE), ("member", MEMBER), ("viewer", DEFAULT_PERMISSIONS["viewer"])],
)
async def test_a_users_key_may_what_their_role_does_if_nothing_is_said(role: UserRole, permissions: frozenset[str]) -> None:
    async with open_world() as world:
        boss = await world.user(world.acme.tenant_id, "boss", role)
        made = await world.ask("POST", "/v1/auth/keys?tenant=acme", {"name": "k", "userId": boss})
        assert (made.status, sorted(made.body["permissions"])) == (201, sorted(permissions))
        helper = await world.key(world.acme.tenant_id, MEMBER | {"keys:admin"})
        less = await world.ask("POST", "/v1/auth/keys", {"name": "k", "userId": boss}, key=helper)
        if role in ("owner", "admin"):
            assert less.status == 403
        else:
            assert set(less.body["permissions"]) == permissions & (MEMBER | {"keys:admin"})


async def test_what_a_role_never_allows_is_refused_and_not_promised() -> None:
    async with open_world() as world:
        alice = await world.user(world.acme.tenant_id, "al", "member")
        given = {"name": "k", "userId": alice, "permissions": ["agent:use", "config:read"]}
        refused = await world.ask("POST", "/v1/auth/keys?tenant=acme", given)
        assert refused.status == 400
        assert "al has the role member, which caps their keys: it may not config:read" in refused.body["error"]["message"]
        assert "avm user update al --role admin" in refused.body["error"]["message"]


async def test_a_viewer_can_renew_a_key_that_says_more_than_their_role_lets_them() -> None:
    async with open_world() as world:
        viewer = await world.user(world.acme.tenant_id, "vera", "viewer")
        text = await world.key(world.acme.tenant_id, MEMBER, user_id=viewer)
        mine = (await world.ask("GET", "/v1/auth/keys", key=text)).items[0]["keyId"]
        renewed = await world.ask("POST", f"/v1/auth/keys/{mine}/rotate", key=text)
        assert renewed.status == 201
        who = (await world.ask("GET", "/v1/auth/whoami", key=renewed.body["key"])).body
        assert "agent:use" not in who["permissions"]


@pytest.mark.parametrize(("method", "end"), [("DELETE", ""), ("POST", "/rotate")])
async def test_who_administers_keys_cannot_touch_those_of_the_operator(method: str, end: str) -> None:
    async with open_world() as world:
        admin = await world.key(DEFAULT_TENANT, TENANT_WIDE)
        keys: list[ApiKey] = list(await world.vm.tenancy.store.accounts(DEFAULT_TENANT).keys.list())
        operators = next(key.key_id for key in keys if set(key.permissions) == EVERYTHING)
        refused = await world.ask(method, f"/v1/auth/keys/{operators}{end}", key=admin)
        assert (refused.status, refused.code) == (403, "permission_denied")
        assert (await world.ask("GET", "/v1/auth/whoami")).status == 200
        assert (await world.audit())[0][2] == "refused:permission_denied"


async def test_keys_come_in_pages() -> None:
    async with open_world() as world:
        for _ in range(5):
            await world.key(world.acme.tenant_id, ["agent:use"])
        seen: list[str] = []
        after = ""
        while True:
            page = await world.ask("GET", f"/v1/auth/keys?limit=3{after}", key=world.acme.admin)
            seen += [key["keyId"] for key in page.items]
            if "nextCursor" not in page.body:
                break
            after = f"&cursor={page.body['nextCursor']}"
        assert len(seen) == len(set(seen)) == 7
        assert (await world.ask("GET", "/v1/auth/keys?cursor=nope", key=world.acme.admin)).status == 400


async def test_a_ws_token_is_no_key_for_http_and_stays_good_for_a_socket() -> None:
    async with open_world() as world:
        made = await world.ask("POST", "/v1/auth/ws-token", key=world.acme.user)
        assert made.status == 201
        assert made.body["expiresAt"] == world.clock() + 60_000
        token = made.body["token"]
        assert (await world.ask("GET", "/v1/auth/whoami", key=token)).status == 401
        assert (await world.vm.tenancy.access.authenticate(token)).user_id == world.acme.user_id


async def test_without_authentication_everybody_is_the_operator() -> None:
    async with open_world(auth=False) as world:
        who = (await world.ask("GET", "/v1/auth/whoami", key="")).body
        assert (who["tenantId"], who["auth"]) == (DEFAULT_TENANT, "off")
        assert tuple(who["permissions"]) == PERMISSIONS


async def test_the_operator_gives_a_tenant_its_first_key() -> None:
    async with open_world() as world:
        about = {"name": "first", "permissions": sorted(TENANT_WIDE)}
        made = await world.ask("POST", "/v1/auth/keys?tenant=acme", about)
        assert made.status == 201
        assert (await world.ask("GET", "/v1/auth/whoami", key=made.body["key"])).body["tenant"] == "acme"
        found = await world.vm.tenancy.store.accounts(world.acme.tenant_id).keys.get(KeyId(made.body["keyId"]))
        assert found is not None
        assert (await world.audit(world.acme.tenant_id))[0] == ("key.create", made.body["keyId"], "ok")


async def test_who_administers_the_keys_of_some_containers_neither_sees_nor_touches_wider_ones() -> None:
    async with open_world() as world:
        acme = world.acme
        admin = await world.key(acme.tenant_id, MEMBER | {"keys:admin"}, containers=["team-*"])
        access = world.vm.tenancy.access
        beyond = [acme.user_key_id]
        for containers in (None, ["*"], ["team-1", "other"]):
            key, _ = await access.issue(acme.tenant_id, name="k", granter=OPERATOR, containers=containers)
            beyond.append(key.key_id)
        inside, _ = await access.issue(acme.tenant_id, name="k", granter=OPERATOR, containers=["team-1"])
        listed = {key["keyId"] for key in (await world.ask("GET", "/v1/auth/keys", key=admin)).items}
        assert inside.key_id in listed
        assert not listed & set(beyond)
        for key_id in beyond:
            for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/rotate")):
                refused = await world.ask(method, f"/v1/auth/keys/{key_id}{path}", key=admin)
                absent = await world.ask(method, f"/v1/auth/keys/nope{path}", key=admin)
                assert refused.status == 404
                assert refused.but_its_id(key_id) == absent.but_its_id("nope")
        assert (await world.ask("DELETE", f"/v1/auth/keys/{inside.key_id}", key=admin)).status == 204
