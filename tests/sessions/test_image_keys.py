"""Keys of images: sealed for the image, used for its calls, shown to nobody, gone with it."""

import gzip

import pytest
from tests.server.http.fixtures import World, open_world

from agentvm.model.ids import ContainerId, ImageId

KEY = "sk-of-the-image-0123456789"


async def build(world: World, **config: object) -> dict[str, object]:
    said = {"container": "shop", "config": {"model": "openai/gpt-x", **config}}
    reply = await world.ask("POST", "/v1/images", said, key=world.acme.admin)
    assert reply.status == 201, reply.raw
    assert KEY not in reply.raw.decode()
    image: dict[str, object] = reply.body["image"]
    return image


async def sealed(world: World) -> list[str]:
    names = await world.vm.tenancy.vault.names(world.acme.tenant_id)
    return [name for name, _ in names if name.startswith("image.")]


async def test_a_key_in_the_config_is_sealed_for_the_image_and_never_shown() -> None:
    async with open_world() as world:
        image = await build(world, apiKey=KEY)
        name = f"image.{image['imageId']}.openai"
        value = await world.vm.tenancy.vault.get(world.acme.tenant_id, name)
        assert value is not None
        assert value.reveal() == KEY
        store = world.vm.tenancy.store.tenant(world.acme.tenant_id).container(ContainerId("shop"))
        stored = await store.get_image(ImageId(str(image["imageId"])))
        assert stored is not None
        assert (stored.config.api_key, stored.config.has_api_key) == (None, True)
        assert KEY not in repr(stored)
        shown = await world.ask("GET", f"/v1/images/{image['imageId']}", key=world.acme.admin)
        assert shown.body["config"]["ownKey"] is True
        assert KEY.encode() not in shown.raw


async def test_an_image_that_is_loaded_waits_for_its_key_and_nobody_else_pays() -> None:
    async with open_world() as world:
        image = await build(world, apiKey=KEY)
        saved = await world.ask("GET", f"/v1/images/{image['imageId']}/file", key=world.acme.admin)
        assert KEY.encode() not in gzip.decompress(saved.raw)
        loaded = await world.ask("POST", "/v1/images/load?container=shop", raw=saved.raw, key=world.acme.admin)
        assert (loaded.status, loaded.body["image"]["config"]["ownKey"]) == (201, True)
        (warning,) = loaded.body["warnings"]
        assert "apiKey" in warning
        path = f"/v1/images/{loaded.body['image']['imageId']}"
        asked = await world.ask(
            "POST", "/v1/run", {"agent": loaded.body["image"]["imageId"], "content": "hi"}, key=world.acme.admin
        )
        assert "missing_key" in asked.raw.decode()
        assert (await world.ask("PUT", path, {"updates": {"apiKey": "sk-2"}}, key=world.acme.admin)).status == 200
        assert len(await sealed(world)) == 2


async def test_a_key_is_replaced_and_cleared() -> None:
    async with open_world() as world:
        image = await build(world, apiKey=KEY)
        path = f"/v1/images/{image['imageId']}"
        renamed = await world.ask("PUT", path, {"updates": {"name": "New"}}, key=world.acme.admin)
        assert renamed.body["image"]["config"]["ownKey"] is True
        changed = await world.ask("PUT", path, {"updates": {"apiKey": "sk-2"}}, key=world.acme.admin)
        assert changed.status == 200
        (name,) = await sealed(world)
        value = await world.vm.tenancy.vault.get(world.acme.tenant_id, name)
        assert value is not None
        assert value.reveal() == "sk-2"
        cleared = await world.ask("PUT", path, {"updates": {"model": "scripted/x", "clear": ["apiKey"]}}, key=world.acme.admin)
        assert cleared.status == 200
        assert "ownKey" not in cleared.body["image"]["config"]
        assert await sealed(world) == []


async def test_a_key_can_be_taken_back_although_nobody_else_pays_for_the_model() -> None:
    async with open_world() as world:
        image = await build(world, apiKey=KEY)
        path = f"/v1/images/{image['imageId']}"
        cleared = await world.ask("PUT", path, {"updates": {"clear": ["apiKey"]}}, key=world.acme.admin)
        assert (cleared.status, await sealed(world)) == (200, [])
        assert "ownKey" not in cleared.body["image"]["config"]
        # Anything else is checked as a build is.
        changed = await world.ask("PUT", path, {"updates": {"temperature": 1, "clear": ["apiKey"]}}, key=world.acme.admin)
        assert changed.code == "driver_not_found"


@pytest.mark.parametrize("deletes", ["/v1/images/{image}", "/v1/containers/shop"])
async def test_a_key_is_gone_with_its_image_and_its_container(deletes: str) -> None:
    async with open_world() as world:
        image = await build(world, apiKey=KEY)
        assert len(await sealed(world)) == 1
        gone = await world.ask("DELETE", deletes.format(image=image["imageId"]), key=world.acme.admin)
        assert gone.status < 300
        erasing = world.vm.tenancy.store.erasing
        for erasure in await erasing.pending():
            while (await erasing.advance(erasure)).more:
                pass
        assert await sealed(world) == []


async def test_a_key_that_the_provider_does_not_take_makes_no_image() -> None:
    async with open_world() as world:
        said = {"container": "shop", "config": {"model": "scripted/x", "apiKey": KEY, "hasApiKey": True}}
        assert (await world.ask("POST", "/v1/images", said, key=world.acme.admin)).code == "access_denied"
        lying = {"container": "shop", "config": {"model": "scripted/x", "hasApiKey": True}}
        made = await world.ask("POST", "/v1/images", lying, key=world.acme.admin)
        assert "ownKey" not in made.body["image"]["config"]
        mistyped = {"container": "shop", "config": {"model": "openai/gpt-x", "apikey": KEY}}
        refused = await world.ask("POST", "/v1/images", mistyped, key=world.acme.admin)
        assert (refused.code, KEY in refused.raw.decode()) == ("invalid_input", False)
        path = f"/v1/images/{made.body['image']['imageId']}"
        assert (await world.ask("PUT", path, {"updates": {"apikey": KEY}}, key=world.acme.admin)).code == "invalid_input"
        empty = {"container": "shop", "config": {"model": "openai/gpt-x", "apiKey": ""}}
        assert (await world.ask("POST", "/v1/images", empty, key=world.acme.admin)).code == "invalid_input"
        assert await sealed(world) == []
