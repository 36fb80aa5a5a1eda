"""Preferences in the database; what they promise is tested in `tests/operations/test_preference.py`."""

from tests.server.http.fixtures import open_world

from agentvm.model.account import Preferences
from agentvm.model.ids import KeyId


async def test_preferences_of_a_user_of_a_key_and_of_nobody_are_three() -> None:
    async with open_world() as world:
        acme = world.acme
        store = world.vm.tenancy.store.accounts(acme.tenant_id).preferences
        owners = [(acme.user_id, KeyId("k")), (None, KeyId("k")), (None, None)]
        liked = (Preferences(theme="dark"), Preferences(theme="light"), Preferences())
        for owner, preferences in zip(owners, liked, strict=True):
            await store.put(*owner, preferences)
        assert [(await store.get(*owner)).theme for owner in owners] == ["dark", "light", None]
        assert (await store.get(acme.user_id, KeyId("another"))).theme == "dark"
