"""Signing in at an identity provider on loopback, over the management API."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.operations.test_browser_session import OWN, ask
from tests.operations.test_invitation import invite
from tests.server.http.fixtures import World, open_world
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, IdentityProvider, identity_provider

from agentvm.model.ids import DEFAULT_TENANT
from agentvm.model.secret import Secret
from agentvm.model.settings import OidcConfig
from agentvm.tenants.oidc_flow import SIGN_IN_MS

START, BACK, WHOAMI = "/v1/auth/oidc/start", "/v1/auth/oidc/callback", "/v1/auth/whoami"


@asynccontextmanager
async def opened(**about: object) -> AsyncIterator[tuple[World, IdentityProvider]]:
    async with identity_provider(**about) as provider:
        config = OidcConfig(issuer=provider.issuer, audience="api", client_id=CLIENT_ID, name="Acme ID", session_hours=24)
        async with open_world(oidc=config) as world:
            provider.now = world.clock() / 1000
            yield world, provider


async def begin(world: World, **body: object) -> tuple[str, str]:
    """Returns the address at the provider, and the cookie."""
    reply = await world.ask("POST", START, body, key="", headers=OWN)
    assert reply.status == 200, reply.raw
    cookie, *attributes = reply.headers["set-cookie"].split("; ")
    assert attributes == ["HttpOnly", "SameSite=Lax", "Path=/v1/auth/oidc", "Max-Age=600"]
    return reply.body["location"], cookie


async def come_back(world: World, address: str, cookie: str) -> Any:
    query = urlsplit(address).query
    return await world.ask("GET", f"{BACK}?{query}", key="", headers=[(b"cookie", cookie.encode())])


async def sign_in(world: World, provider: IdentityProvider, **body: object) -> Any:
    location, cookie = await begin(world, **body)
    return await come_back(world, provider.agree(urlsplit(location).query), cookie)


async def test_a_person_whom_the_provider_names_is_signed_in() -> None:
    async with opened(claims={"tenant": "acme"}, secret=CLIENT_SECRET) as (world, provider):
        await world.vm.tenancy.vault.put(DEFAULT_TENANT, "oidc.clientSecret", Secret(CLIENT_SECRET))
        methods = (await world.ask("GET", "/v1/auth/methods", key="")).body
        assert (methods["methods"], methods["oidc"]) == (["key", "oidc"], "Acme ID")
        reply = await sign_in(world, provider, next="/usage?by=user", keep=True)
        assert (reply.status, reply.headers["location"]) == (303, "/usage?by=user")
        cookie, *attributes = reply.headers["set-cookie"].split("; ")
        assert attributes == ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=34560000"]
        who = (await ask(world, cookie, "GET", WHOAMI)).body
        assert (who["tenant"], who["user"], who["role"]) == ("acme", "42", "member")
        assert ("auth.sign_in", "ok") in [(action, result) for action, _, result in await world.audit(world.acme.tenant_id)]
        # A second device has the same key, and the key ends with the time that the provider has vouched for.
        second = (await sign_in(world, provider)).headers["set-cookie"].partition(";")[0]
        assert (await ask(world, second, "GET", WHOAMI)).body["keyId"] == who["keyId"]
        assert len((await ask(world, second, "GET", "/v1/auth/sessions")).items) == 2
        world.clock.now += 24 * 3_600_000
        ended = await ask(world, cookie, "GET", WHOAMI)
        assert (ended.status, ended.body["error"]["details"]["reason"]) == (401, "expired")


async def test_a_state_is_good_once_in_the_browser_that_began_and_for_ten_minutes() -> None:
    async with opened(claims={"tenant": "acme"}) as (world, provider):
        location, cookie = await begin(world)
        _, other = await begin(world)
        address = provider.agree(urlsplit(location).query)
        for wrong in (other, "avm_oidc=x", "a=b", cookie[:-4]):
            refused = await come_back(world, address, wrong)
            assert (refused.status, refused.headers["location"]) == (303, "/login?problem=state")
        strange = await come_back(world, address.replace("state=", "state=%C3%A9"), cookie)
        assert (strange.status, strange.headers["location"]) == (303, "/login?problem=state")
        assert "/token" not in provider.asked
        assert (await come_back(world, address, cookie)).headers["location"] == "/"
        replayed = await come_back(world, provider.agree(urlsplit(location).query), cookie)
        assert replayed.headers["location"] == "/login?problem=state"
        assert "avm_session" not in replayed.headers["set-cookie"]
        location, cookie = await begin(world)
        world.clock.now += SIGN_IN_MS
        late = await come_back(world, provider.agree(urlsplit(location).query), cookie)
        assert late.headers["location"] == "/login?problem=state"


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({"nonce": "of another sign-in"}, "nonce"),
        ({"nonce": None}, "nonce"),
        ({"aud": "another"}, "provider"),
        ({"aud": [CLIENT_ID, "another"]}, "provider"),
        ({"azp": "another"}, "provider"),
        ({"iss": "https://evil.example"}, "provider"),
        ({"exp": 5}, "provider"),
        ({"tenant": None}, "unknown"),
        ({"tenant": "nope"}, "unknown"),
    ],
)
async def test_a_token_for_something_else_signs_nobody_in(claims: dict[str, object], problem: str) -> None:
    async with opened(claims={"tenant": "acme", **claims}) as (world, provider):
        reply = await sign_in(world, provider)
        assert (reply.status, reply.headers["location"]) == (303, f"/login?problem={problem}")
        assert "avm_session" not in reply.headers["set-cookie"]


async def test_an_answer_without_a_code_a_wrong_issuer_and_a_wrong_secret_are_refused() -> None:
    async with opened(claims={"tenant": "acme"}, secret=CLIENT_SECRET) as (world, provider):
        assert (await sign_in(world, provider)).headers["location"] == "/login?problem=provider"
        for query, problem in (("error=access_denied", "denied"), ("code=x&iss=https%3A%2F%2Fevil.example", "state")):
            location, cookie = await begin(world)
            state = dict(part.split("=") for part in urlsplit(location).query.split("&"))["state"]
            reply = await come_back(world, f"http://x/?state={state}&{query}", cookie)
            assert reply.headers["location"] == f"/login?problem={problem}"


async def test_an_invitation_binds_an_account_at_the_provider() -> None:
    async with opened(claims={"preferred_username": "bob"}) as (world, provider):
        assert (await sign_in(world, provider)).headers["location"] == "/login?problem=unknown"
        _, token = await invite(world, role="admin")
        reply = await sign_in(world, provider, invitation=token)
        assert reply.headers["location"] == "/"
        who = (await ask(world, reply.headers["set-cookie"].partition(";")[0], "GET", WHOAMI)).body
        assert (who["tenant"], who["user"], who["role"]) == ("acme", "bob", "admin")
        again = await sign_in(world, provider)
        assert (await ask(world, again.headers["set-cookie"].partition(";")[0], "GET", WHOAMI)).body["userId"] == who["userId"]
        used = await world.ask("POST", START, {"invitation": token}, key="", headers=OWN)
        assert (used.status, used.body["error"]["details"]["reason"]) == (401, "invitation_accepted")
        assert (await world.ask("PUT", f"/v1/users/{who['userId']}?tenant=acme", {"status": "suspended"})).status == 200
        assert (await sign_in(world, provider)).headers["location"] == "/login?problem=suspended"


async def test_a_foreign_page_begins_nothing_and_without_a_provider_there_is_nothing() -> None:
    async with opened() as (world, _):
        foreign = await world.ask("POST", START, {}, key="", headers=[(b"origin", b"http://127.0.0.1:3000")])
        assert foreign.status == 403
    async with open_world() as world:
        assert (await world.ask("POST", START, {}, key="", headers=OWN)).status == 404
        assert (await world.ask("GET", BACK, key="")).status == 404
