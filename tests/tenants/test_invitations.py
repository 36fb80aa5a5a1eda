"""Invitations with the world of `tests.server.http.fixtures`: the store must be a real one."""

import pytest
from tests.server.http.fixtures import open_world

from agentvm.errors import Conflict, Unauthenticated


async def test_an_account_at_the_provider_belongs_to_one_user() -> None:
    async with open_world() as world:
        invitations, tenant_id = world.vm.tenancy.access.invitations, world.acme.tenant_id

        async def invited() -> str:
            _, token = await invitations.add(tenant_id, "setup", role="viewer", external_id=None, display_name=None, days=1)
            return token.reveal()

        identity = ("https://id.example", "42")
        user = await invitations.accept(await invitations.find(await invited()), "bob", identity)
        assert await world.vm.tenancy.store.directory.find_identity(*identity) == (tenant_id, user.user_id)
        second = await invitations.find(await invited())
        with pytest.raises(Conflict, match="belongs to a user already"):
            await invitations.accept(second, "eve", identity)
        await world.vm.tenancy.people.delete_user(tenant_id, user.user_id)
        assert await world.vm.tenancy.store.directory.find_identity(*identity) is None
        assert (await invitations.accept(second, "eve", identity)).role == "viewer"
        with pytest.raises(Unauthenticated, match="used already"):
            await invitations.accept(second, "mallory")


async def test_a_name_that_is_taken_leaves_the_link_usable() -> None:
    async with open_world() as world:
        invitations = world.vm.tenancy.access.invitations
        _, token = await invitations.add(
            world.acme.tenant_id, "setup", role="member", external_id=None, display_name=None, days=1
        )
        with pytest.raises(Conflict):
            await invitations.accept(await invitations.find(token.reveal()), "alice")
        assert (await invitations.accept(await invitations.find(token.reveal()), "bob")).external_id == "bob"
