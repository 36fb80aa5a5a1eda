"""Signing browsers in and out, over the management API."""

import re

import pytest
from tests.server.http.fixtures import Reply, World, open_world

from agentvm.model.ids import KeyId
from agentvm.server.proxies import TrustedProxies
from agentvm.tenants.browser_sessions import IDLE_MS, PREFIX, USER_AGENT_MAX
from agentvm.tenants.rights import TENANT_WIDE

HOST = "127.0.0.1:8080"
OWN = ((b"origin", f"http://{HOST}".encode()), (b"sec-fetch-site", b"same-origin"))
SIGN_IN, WHOAMI = "/v1/auth/session", "/v1/auth/whoami"
Headers = tuple[tuple[bytes, bytes], ...]


async def sign_in(world: World, key: str, headers: Headers = OWN, **body: object) -> str:
    """Returns the cookie."""
    reply = await world.ask("POST", SIGN_IN, {"key": key, **body}, key="", headers=headers)
    assert reply.status == 201, reply.raw
    return reply.headers["set-cookie"].partition(";")[0]


async def ask(world: World, cookie: str, method: str, path: str, body: object = None, *, headers: Headers = OWN) -> Reply:
    return await world.ask(method, path, body, key="", headers=[*headers, (b"cookie", f"a=1; {cookie}; b=2".encode())])


async def test_a_key_becomes_a_cookie_with_the_same_rights() -> None:
    async with open_world() as world:
        reply = await world.ask("POST", SIGN_IN, {"key": world.acme.user}, key="", headers=OWN)
        assert (reply.status, reply.headers["cache-control"]) == (201, "no-store")
        cookie, *attributes = reply.headers["set-cookie"].split("; ")
        assert re.fullmatch(rf"avm_session={PREFIX}[0-9A-Za-z]{{43}}", cookie)
        assert attributes == ["HttpOnly", "SameSite=Strict", "Path=/"]
        assert cookie.partition("=")[2].encode() not in reply.raw
        assert world.acme.user.encode() not in reply.raw
        by_key = await world.ask("GET", WHOAMI, key=world.acme.user)
        assert (await ask(world, cookie, "GET", WHOAMI)).body == by_key.body
        assert ("auth.sign_in", reply.body["browserSessionId"], "ok") in await world.audit(world.acme.tenant_id)


async def test_a_program_may_send_the_key_in_the_header() -> None:
    async with open_world() as world:
        reply = await world.ask("POST", SIGN_IN, {"keep": True}, key=world.acme.user)
        assert reply.status == 201
        assert "Max-Age=34560000" in reply.headers["set-cookie"].split("; ")
        twice = await world.ask("POST", SIGN_IN, {"key": world.acme.user}, key=world.acme.user)
        assert (twice.status, twice.code) == (400, "invalid_input")


@pytest.mark.parametrize(
    "key", ["", "nonsense", f"{PREFIX}x", "avmws_x", "avm_000000000000_00000000000000000000000000000000_000000"]
)
async def test_a_wrong_key_signs_nobody_in(key: str) -> None:
    async with open_world() as world:
        for body in ({"key": key}, {}):
            reply = await world.ask("POST", SIGN_IN, body, key="", headers=OWN)
            assert (reply.status, reply.code) == (401, "unauthenticated")
            assert "set-cookie" not in reply.headers
        assert (await world.ask("POST", SIGN_IN, raw=b"x" * 5_000, key="", headers=OWN)).status == 413


async def test_a_cookie_is_no_key_and_a_key_no_cookie() -> None:
    async with open_world() as world:
        cookie = await sign_in(world, world.acme.user)
        token = cookie.partition("=")[2]
        assert (await world.ask("GET", WHOAMI, key=token)).status == 401
        assert (await world.ask("POST", SIGN_IN, {"key": token}, key="", headers=OWN)).status == 401
        assert (await ask(world, f"avm_session={world.acme.user}", "GET", WHOAMI)).status == 401
        assert (await ask(world, f"other={token}", "GET", WHOAMI)).status == 401


async def test_two_credentials_are_refused() -> None:
    async with open_world() as world:
        cookie = await sign_in(world, world.acme.user)
        for headers in ([(b"cookie", cookie.encode())], [(b"cookie", b"avm_session=")]):
            both = await world.ask("GET", WHOAMI, key=world.acme.user, headers=headers)
            assert (both.status, both.code) == (400, "invalid_input")
        assert (await ask(world, f"{cookie}; {cookie}", "GET", WHOAMI)).status == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (OWN, 204),
        (OWN[:1], 204),
        ((), 403),
        (OWN[1:], 403),
        ((OWN[0], (b"sec-fetch-site", b"same-site")), 403),
        ((OWN[0], (b"sec-fetch-site", b"cross-site")), 403),
        ((OWN[0], (b"sec-fetch-site", b"none")), 403),
        (((b"origin", b"http://evil.example"),), 403),
        (((b"origin", b"http://127.0.0.1:3000"), OWN[1]), 403),
        (((b"origin", b"http://127.0.0.1"), OWN[1]), 403),
        (((b"origin", b"null"),), 403),
        (((b"origin", b""),), 403),
    ],
)
async def test_a_change_with_a_cookie_must_come_from_a_page_of_this_server(headers: Headers, status: int) -> None:
    async with open_world() as world:
        cookie = await sign_in(world, world.acme.user)
        other = await sign_in(world, world.acme.user)
        (own,) = [item for item in (await ask(world, other, "GET", "/v1/auth/sessions")).items if item.get("current")]
        path = f"/v1/auth/sessions/{own['browserSessionId']}"
        assert (await ask(world, cookie, "DELETE", path, headers=headers)).status == status
        assert (await ask(world, other, "GET", WHOAMI)).status == (401 if status == 204 else 200)
        if status == 403:
            assert (await ask(world, cookie, "POST", "/v1/auth/ws-token", headers=headers)).status == 403


async def test_reading_needs_no_origin() -> None:
    async with open_world() as world:
        cookie = await sign_in(world, world.acme.user)
        assert (await ask(world, cookie, "GET", WHOAMI, headers=())).status == 200


@pytest.mark.parametrize("headers", [((b"origin", b"http://127.0.0.1:3000"),), ((b"sec-fetch-site", b"cross-site"),)])
async def test_a_foreign_page_signs_nobody_in(headers: Headers) -> None:
    async with open_world() as world:
        reply = await world.ask("POST", SIGN_IN, {"key": world.acme.user}, key="", headers=headers)
        assert (reply.status, "set-cookie" in reply.headers) == (403, False)


async def test_a_dead_cookie_does_not_keep_anybody_from_signing_in() -> None:
    async with open_world() as world:
        cookie = await sign_in(world, world.acme.user)
        assert (await ask(world, cookie, "DELETE", SIGN_IN)).status == 204
        again = await ask(world, cookie, "POST", SIGN_IN, {"key": world.acme.user})
        assert again.status == 201


async def test_signing_out_clears_the_cookie_and_ends_the_session() -> None:
    async with open_world() as world:
        cookie = await sign_in(world, world.acme.user)
        reply = await ask(world, cookie, "DELETE", SIGN_IN)
        assert reply.headers["set-cookie"] == "avm_session=; HttpOnly; SameSite=Strict; Path=/; Max-Age=0"
        refused = await ask(world, cookie, "GET", WHOAMI)
        assert (refused.status, refused.body["error"]["details"]) == (401, {"reason": "signed_out"})
        assert "auth.sign_out" in [action for action, *_ in await world.audit(world.acme.tenant_id)]
        assert (await world.ask("DELETE", SIGN_IN, key=world.acme.user)).status == 404


async def test_devices_are_listed_and_ended_by_their_own_user_only() -> None:
    async with open_world() as world:
        agent = (b"user-agent", b"Mozilla/5.0 \x07" + b"x" * 500)
        first = await sign_in(world, world.acme.user, (*OWN, agent))
        world.clock.now += 1000
        second = await sign_in(world, world.acme.user)
        world.clock.now += 1000
        bob = await world.user(world.acme.tenant_id, "bob")
        others = [
            await sign_in(world, await world.key(world.acme.tenant_id, ["agent:use"], user_id=bob)),
            await sign_in(world, await world.key(world.acme.tenant_id, TENANT_WIDE)),
            await sign_in(world, world.acme.admin),
            await sign_in(world, world.bolt.user),
            await sign_in(world, world.operator),
        ]
        devices = (await ask(world, second, "GET", "/v1/auth/sessions")).items
        assert [device.get("current", False) for device in devices] == [True, False]
        assert [device["createdAt"] for device in devices] == [world.clock.now - 1000, world.clock.now - 2000]
        assert devices[0]["lastUsedAt"] == world.clock.now
        assert devices[1]["userAgent"].startswith("Mozilla/5.0 xxx")
        assert len(devices[1]["userAgent"]) == USER_AGENT_MAX
        path = f"/v1/auth/sessions/{devices[1]['browserSessionId']}"
        for cookie in others:
            (own,) = (await ask(world, cookie, "GET", "/v1/auth/sessions")).items
            assert own["current"]
            refused = await ask(world, cookie, "DELETE", path)
            assert (refused.status, refused.code) == (404, "not_found")
        assert (await ask(world, first, "GET", WHOAMI)).status == 200
        assert (await ask(world, second, "DELETE", path)).status == 204
        assert (await ask(world, first, "GET", WHOAMI)).status == 401
        assert (await ask(world, second, "GET", WHOAMI)).status == 200


async def test_a_session_ends_with_its_key() -> None:
    async with open_world() as world:
        key = await world.key(world.acme.tenant_id, ["agent:use"], expires_at=world.clock() + 1000)
        expiring = await sign_in(world, key)
        rotated = await sign_in(world, world.acme.user)
        world.clock.now += 1000
        late = await ask(world, expiring, "GET", WHOAMI)
        assert (late.status, late.body["error"]["details"]["reason"]) == (401, "expired")
        path = f"/v1/auth/keys/{world.acme.user_key_id}/rotate"
        assert (await world.ask("POST", path, key=world.acme.admin)).status == 201
        refused = await ask(world, rotated, "GET", WHOAMI)
        assert (refused.status, refused.body["error"]["details"]["reason"]) == (401, "revoked")


async def test_a_session_is_suspended_and_comes_back_with_its_user() -> None:
    async with open_world() as world:
        cookie = await sign_in(world, world.acme.user)
        path = f"/v1/users/{world.acme.user_id}"
        for status, expected in (("suspended", 401), ("active", 200)):
            changed = await world.ask("PUT", path, {"status": status}, key=world.acme.admin)
            assert changed.status == 200, changed.raw
            assert (await ask(world, cookie, "GET", WHOAMI)).status == expected


async def test_a_session_that_is_not_used_ends_after_two_weeks() -> None:
    async with open_world() as world:
        used, idle = await sign_in(world, world.acme.user), await sign_in(world, world.acme.user)
        for _ in range(3):
            world.clock.now += IDLE_MS // 2 + 1
            assert (await ask(world, used, "GET", WHOAMI)).status == 200
            await world.vm.tenancy.access.flush_used()
        refused = await ask(world, idle, "GET", WHOAMI)
        assert (refused.status, refused.body["error"]["details"]["reason"]) == (401, "expired")
        await sign_in(world, world.bolt.user)
        assert len((await ask(world, used, "GET", "/v1/auth/sessions")).items) == 1


async def test_the_cookie_is_secure_where_a_trusted_proxy_says_https() -> None:
    async with open_world() as world:
        assert not (await world.ask("POST", SIGN_IN, key=world.acme.user)).headers["set-cookie"].endswith("Secure")
        world.app._proxies = TrustedProxies(["10.0.0.7"])
        forwarded = ((b"x-forwarded-proto", b"https"), (b"x-forwarded-for", b"192.0.2.1"))
        reply = await world.ask("POST", SIGN_IN, key=world.acme.user, headers=forwarded)
        cookie, *attributes = reply.headers["set-cookie"].split("; ")
        assert attributes[-1] == "Secure"
        plain = await ask(world, cookie, "DELETE", SIGN_IN, headers=(*forwarded, *OWN))
        assert plain.status == 403
        own = (b"origin", f"https://{HOST}".encode())
        assert (await ask(world, cookie, "DELETE", SIGN_IN, headers=(*forwarded, own))).status == 204


async def test_nobody_signs_in_while_authentication_is_off() -> None:
    async with open_world(auth=False) as world:
        reply = await world.ask("POST", SIGN_IN, {"key": "x"}, key="")
        assert (reply.status, reply.code) == (403, "authentication_off")
        assert (await ask(world, f"avm_session={PREFIX}x", "POST", "/v1/auth/ws-token", headers=())).status == 201
        methods = await world.ask("GET", "/v1/auth/methods", key="")
        assert (methods.body["auth"], methods.body["methods"]) == ("off", [])


async def test_everybody_may_ask_how_to_sign_in() -> None:
    async with open_world() as world:
        reply = await world.ask("GET", "/v1/auth/methods", key="")
        assert (reply.status, reply.body["auth"], reply.body["methods"]) == (200, "on", ["key"])
        assert reply.body["version"] == (await world.ask("GET", "/health")).body["version"]
        assert {"name": "openai", "prefixes": ["/openai/v1", "/v1"]} in reply.body["gateways"]
        assert "publicUrl" not in reply.body


async def test_a_session_cannot_outlive_a_deleted_tenant() -> None:
    async with open_world() as world:
        cookie = await sign_in(world, world.acme.user)
        assert (await world.ask("DELETE", "/v1/tenants/acme?dryRun=false")).status < 300
        assert (await ask(world, cookie, "GET", WHOAMI)).status == 401
        assert await world.vm.tenancy.store.directory.find_key(KeyId(world.acme.user_key_id)) is None
