from typing import Any

from tests.server.http.fixtures import World, open_world


async def register(world: World, name: str, text: str, **about: Any) -> Any:
    body = {"type": "prompts", "name": name, "content": {"text": text}, **about}
    return (await world.ask("POST", "/v1/resources", body, key=world.acme.admin)).body


async def revise(world: World, made: Any, text: str, **about: Any) -> None:
    body = {"content": {"text": text}, **about}
    reply = await world.ask("PUT", f"/v1/resources/{made['id']}", body, key=world.acme.admin)
    assert reply.status == 200


async def test_versions_are_listed_highest_first_with_where_tags_point() -> None:
    async with open_world() as world:
        made = await register(world, "hello", "1", tag="stable")
        await revise(world, made, "2", version="1.0.0-beta")
        await revise(world, made, "3", version="0.9.0")
        found = (await world.ask("GET", f"/v1/resources/{made['id']}/versions", key=world.acme.admin)).body
        assert [item["version"] for item in found["items"]] == ["1.0.0", "1.0.0-beta", "0.9.0"]
        assert found["pointers"] == {"stable": "1.0.0", "latest": "1.0.0"}


async def test_a_version_is_withdrawn_and_brought_back() -> None:
    async with open_world() as world:
        made = await register(world, "hello", "1")
        await revise(world, made, "2")
        one = f"/v1/resources/{made['id']}"

        async def latest() -> str:
            return str((await world.ask("GET", one, key=world.acme.admin)).body["version"]["version"])

        assert (await world.ask("DELETE", f"{one}/versions/1.0.1", key=world.acme.admin)).status == 204
        assert await latest() == "1.0.0"
        exact = await world.ask("GET", f"{one}?version=1.0.1", key=world.acme.admin)
        assert exact.body["version"]["yankedAt"]
        back = await world.ask("PUT", f"{one}/versions/1.0.1", {"yanked": False}, key=world.acme.admin)
        assert "yankedAt" not in back.body
        assert await latest() == "1.0.1"
        assert (await world.ask("DELETE", f"{one}/versions/9.9.9", key=world.acme.admin)).status == 404


async def test_a_tag_is_moved_and_removed() -> None:
    async with open_world() as world:
        made = await register(world, "hello", "1")
        await revise(world, made, "2")
        one = f"/v1/resources/{made['id']}"

        async def stable() -> Any:
            reply = await world.ask("GET", f"{one}?version=stable", key=world.acme.admin)
            return reply.body["version"]["version"] if reply.status == 200 else reply.status

        for version in ("1.0.0", "1.0.1"):
            assert (await world.ask("PUT", f"{one}/tags/stable", {"version": version}, key=world.acme.admin)).status == 204
            assert await stable() == version
        assert (await world.ask("PUT", f"{one}/tags/stable", {"version": "7.0.0"}, key=world.acme.admin)).status == 404
        for wrong in ("latest", "1.0.0", "X"):
            reply = await world.ask("PUT", f"{one}/tags/{wrong}", {"version": "1.0.0"}, key=world.acme.admin)
            assert reply.status == 400
        assert (await world.ask("DELETE", f"{one}/tags/stable", key=world.acme.admin)).status == 204
        assert await stable() == 404


async def test_dependencies_are_listed_as_deep_as_wanted() -> None:
    async with open_world() as world:
        await register(world, "a", "end")
        await register(world, "b", "{{> resource://prompts/a}}")
        made = await register(world, "c", "{{> resource://prompts/b@^1}}")
        path = f"/v1/resources/{made['id']}/dependencies"
        found = (await world.ask("GET", path, key=world.acme.admin)).body
        assert [(item["uri"], item["resolved"], item["depth"]) for item in found["items"]] == [
            ("resource://prompts/a", "resource://prompts/a@1.0.0", 2),
            ("resource://prompts/b@^1", "resource://prompts/b@1.0.0", 1),
        ]
        assert len((await world.ask("GET", f"{path}?depth=1", key=world.acme.admin)).items) == 1


async def test_dependents_of_others_are_only_counted() -> None:
    async with open_world() as world:
        made = await register(world, "a", "end", visibility="public")
        await register(world, "b", "{{> resource://prompts/a}}")
        foreign = {"type": "prompts", "name": "mine", "content": {"text": "{{> resource://prompts/acme/a}}"}}
        assert (await world.ask("POST", "/v1/resources", foreign, key=world.bolt.admin)).status == 201
        found = (await world.ask("GET", f"/v1/resources/{made['id']}/dependents", key=world.acme.admin)).body
        assert [(item["resource"]["name"], item["version"]) for item in found["resources"]] == [("b", "1.0.0")]
        assert (found["foreign"], found["imageCount"]) == (1, 0)
        seen = (await world.ask("GET", f"/v1/resources/{made['id']}/dependents", key=world.bolt.admin)).body
        assert [item["resource"]["name"] for item in seen["resources"]] == ["mine"]
        assert seen["foreign"] == 1
        config = {"name": "Reader", "systemPrompt": "resource://prompts/a"}
        image = (await world.ask("POST", "/v1/images", {"config": config}, key=world.acme.admin)).body["image"]
        found = (await world.ask("GET", f"/v1/resources/{made['id']}/dependents", key=world.acme.admin)).body
        assert (found["images"], found["imageNames"]) == ([image["imageId"]], ["Reader"])
