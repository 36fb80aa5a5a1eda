from tests.resources.fixtures import open_world


async def test_what_is_registered_is_resolved_and_read_from_the_same_store() -> None:
    async with open_world() as world:
        made = await world.prompt("hello", "Hello.")
        assert (await world.centre.resolver.resolve(world.acme.tenant_id, "resource://prompts/hello")).rendered == "Hello."
        assert await world.centre.store.resources(world.acme.tenant_id).get(made.resource.resource_id) == made.resource
