"""Accounts at the identity provider, in the database."""

import pytest
from tests.server.http.fixtures import open_world

from agentvm.errors import Conflict


async def test_an_identity_is_one_users_and_goes_with_the_user() -> None:
    async with open_world() as world:
        store, acme, bolt = world.vm.tenancy.store, world.acme, world.bolt
        await store.accounts(acme.tenant_id).identities.add(acme.user_id, "https://id", "1")
        assert await store.directory.find_identity("https://id", "1") == (acme.tenant_id, acme.user_id)
        assert await store.directory.find_identity("https://other", "1") is None
        with pytest.raises(Conflict):
            await store.accounts(bolt.tenant_id).identities.add(bolt.user_id, "https://id", "1")
        assert await store.accounts(acme.tenant_id).users.delete(acme.user_id, world.clock())
        assert await store.directory.find_identity("https://id", "1") is None
        await store.accounts(bolt.tenant_id).identities.add(bolt.user_id, "https://id", "1")
