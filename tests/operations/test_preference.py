"""Preferences of the console, over the management API."""

import pytest
from tests.server.http.fixtures import open_world

PATH = "/v1/auth/preferences"


async def test_preferences_are_those_of_the_user_whatever_key_asks() -> None:
    async with open_world() as world:
        acme = world.acme
        liked = {"language": "zh", "theme": "dark", "sendKey": "modifier", "density": "dense", "shortcuts": "off"}
        assert (await world.ask("GET", PATH, key=acme.user)).body == {}
        assert (await world.ask("PUT", PATH, liked, key=acme.user)).body == liked
        second = await world.key(acme.tenant_id, ["agent:use"], user_id=acme.user_id)
        assert (await world.ask("GET", PATH, key=second)).body == liked
        assert (await world.ask("PUT", PATH, {"theme": "light"}, key=second)).body == {"theme": "light"}
        assert (await world.ask("GET", PATH, key=acme.user)).body == {"theme": "light"}
        for other in (acme.admin, world.bolt.user, world.operator):
            assert (await world.ask("GET", PATH, key=other)).body == {}


async def test_without_authentication_there_is_one_set_of_preferences() -> None:
    async with open_world(auth=False) as world:
        assert (await world.ask("PUT", PATH, {"language": "en"}, key="")).status == 200
        assert (await world.ask("GET", PATH, key="")).body == {"language": "en"}


@pytest.mark.parametrize("wrong", [{"language": "fr"}, {"theme": "x" * 9_999}, {"font": "Comic Sans"}, {"density": 5}])
async def test_a_preference_is_one_of_a_few_words(wrong: dict[str, object]) -> None:
    async with open_world() as world:
        assert (await world.ask("PUT", PATH, wrong, key=world.acme.user)).status == 400


async def test_the_preferences_of_a_deleted_user_are_gone() -> None:
    async with open_world() as world:
        acme = world.acme
        await world.ask("PUT", PATH, {"theme": "dark"}, key=acme.user)
        assert (await world.ask("DELETE", f"/v1/users/{acme.user_id}?tenant=acme")).status == 204
        preferences = world.vm.tenancy.store.accounts(acme.tenant_id).preferences
        assert (await preferences.get(acme.user_id, None)).theme is None
