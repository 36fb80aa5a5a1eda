"""Cookies of browsers, with the world of `tests.server.http.fixtures`: the store must be a real one."""

import pytest
from tests.server.http.fixtures import World, open_world

from agentvm.errors import InvalidInput, Unauthenticated
from agentvm.model.principal import Principal
from agentvm.model.secret import Secret
from agentvm.storage.sql.accounts.browser_sessions import BROWSER_SESSIONS_MAX
from agentvm.tenants.browser_sessions import PREFIX


async def alice(world: World) -> Principal:
    return await world.vm.tenancy.access.authenticate(world.acme.user)


async def is_accepted(world: World, cookie: Secret) -> bool:
    try:
        await world.vm.tenancy.access.authenticate(cookie.reveal())
    except Unauthenticated:
        return False
    return True


async def test_the_principal_of_a_cookie_is_that_of_its_key_and_knows_its_session() -> None:
    async with open_world() as world:
        access, principal = world.vm.tenancy.access, await alice(world)
        session, cookie = await access.sign_in(principal, "Firefox")
        for _ in range(2):
            known = await access.authenticate(cookie.reveal())
            assert known.browser_session_id == session.browser_session_id
            assert (known.key_id, known.permissions, known.containers) == (
                principal.key_id,
                principal.permissions,
                principal.containers,
            )
        assert cookie.reveal().startswith(PREFIX)
        stored = await world.vm.tenancy.store.directory.find_browser_session(access.browser_sessions.digest(cookie.reveal()))
        assert stored == session


async def test_a_cookie_makes_no_other_cookie_and_neither_does_a_caller_without_a_key() -> None:
    async with open_world() as world:
        access, principal = world.vm.tenancy.access, await alice(world)
        _, cookie = await access.sign_in(principal, "")
        for other in (await access.authenticate(cookie.reveal()), Principal(tenant_id=principal.tenant_id)):
            with pytest.raises(InvalidInput, match="Sign in with an API key"):
                await access.sign_in(other, "")


async def test_an_end_reaches_a_cookie_that_was_used_a_moment_ago_and_its_tickets() -> None:
    async with open_world() as world:
        access, principal = world.vm.tenancy.access, await alice(world)
        session, cookie = await access.sign_in(principal, "")
        _, other = await access.sign_in(principal, "")
        ticket = await access.ws_token(await access.authenticate(cookie.reveal()))
        assert await access.sign_out(principal, session.browser_session_id)
        assert not await access.sign_out(principal, session.browser_session_id)
        assert not await is_accepted(world, cookie)
        assert not await is_accepted(world, Secret(ticket))
        assert await is_accepted(world, other)


async def test_the_oldest_of_too_many_sessions_ends() -> None:
    async with open_world() as world:
        access, principal = world.vm.tenancy.access, await alice(world)
        cookies = []
        for _ in range(BROWSER_SESSIONS_MAX + 1):
            world.clock.now += 1
            cookies.append((await access.sign_in(principal, ""))[1])
        assert [await is_accepted(world, cookie) for cookie in cookies[:2]] == [False, True]
        assert len(await access.browser_sessions.list(principal)) == BROWSER_SESSIONS_MAX
