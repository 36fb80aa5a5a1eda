"""An image in one file: saved by one tenant, loaded by another, with the same behaviour or not at all."""

from typing import Any

import msgspec
import pytest
from tests.server.http.fixtures import World, open_world

from agentvm.blueprint.image_file import ImageManifest, read_image_file, seal_of, write_image_file
from agentvm.model.definition import snapshot_of
from agentvm.model.resource import digest_of
from agentvm.resources.archive import MANIFEST, Bundle, bundle_files

TOOL = {"description": "Look.", "inputSchema": {"type": "object"}, "runtime": "http", "entry": "https://x.test/"}
CONTENT: dict[str, Any] = {
    "systemPrompt": "resource://prompts/tone",
    "tools": ["resource://tools/look", "calculator"],
    "output": {"name": "n", "schema": {"type": "object"}},
    "defaults": {"mood": "kind"},
}


async def publish(world: World, key: str, kind: str, name: str, content: object) -> None:
    said = {"type": kind, "name": name, "content": content}
    assert (await world.ask("POST", "/v1/resources", said, key=key)).status == 201


async def build(world: World) -> dict[str, Any]:
    """An image of acme with resources, whose prompt has changed since."""
    key = world.acme.admin
    await publish(world, key, "prompts", "tone", {"text": "Be {{mood}}."})
    await publish(world, key, "tools", "look", TOOL)
    await publish(world, key, "agents", "seller", CONTENT)
    config = {"definition": "resource://agents/seller", "variables": {"mood": "brief"}, "name": "Seller", "temperature": 0.5}
    made = await world.ask("POST", "/v1/images", {"container": "shop", "config": config}, key=key)
    assert made.status == 201
    changed = {"content": {"text": "Be rude."}}
    assert (await world.ask("PUT", "/v1/resources/resource%3A%2F%2Fprompts%2Ftone", changed, key=key)).status == 200
    image: dict[str, Any] = made.body["image"]
    return image


async def saved(world: World, image: dict[str, Any], key: str) -> bytes:
    reply = await world.ask("GET", f"/v1/images/{image['imageId']}/file", key=key)
    assert (reply.status, reply.headers["x-avm-digest"]) == (200, image["digest"])
    return reply.raw


def resealed(data: bytes, **changes: Any) -> bytes:
    """The file with other members, and with digests that fit them."""
    manifest, resources = read_image_file(data)
    assert resources is not None
    manifest = msgspec.structs.replace(manifest, **changes, resources=digest_of(bundle_files(resources)[MANIFEST]))
    manifest = msgspec.structs.replace(manifest, digest=snapshot_of(manifest.definition)[0])
    return write_image_file(msgspec.structs.replace(manifest, seal=seal_of(manifest)), resources)


async def test_an_image_is_the_same_for_whoever_loads_its_file() -> None:
    async with open_world() as world:
        image = await build(world)
        data = await saved(world, image, world.acme.admin)
        assert data == await saved(world, image, world.acme.admin)
        assert b"secret of acme" not in data
        path = f"/v1/images/load?container=shop&name=Copy&digest={image['digest']}"
        loaded = await world.ask("POST", path, raw=data, key=world.bolt.admin)
        assert loaded.status == 201
        copy = loaded.body["image"]
        assert copy["name"] == "Copy"
        assert copy["digest"] == image["digest"]
        assert copy["config"] == image["config"]
        assert copy["config"]["systemPrompt"] == "Be brief."
        # What was loaded can be saved again, and loading twice makes two images of the same resources.
        again = await world.ask("POST", "/v1/images/load?container=shop", raw=await saved(world, copy, world.bolt.admin),
                                key=world.bolt.admin)  # fmt: skip
        assert again.body["image"]["digest"] == image["digest"]
        listed = await world.ask("GET", "/v1/resources?scope=own", key=world.bolt.admin)
        assert len(listed.items) == 3
        # An upgrade there finds what is new there: nothing.
        upgraded = await world.ask("POST", f"/v1/images/{copy['imageId']}/upgrade", {}, key=world.bolt.admin)
        assert upgraded.body["changes"] == []
        assert ("image.load", copy["imageId"], "ok") in await world.audit(world.bolt.tenant_id)


async def test_a_file_that_was_altered_makes_no_image() -> None:
    async with open_world() as world:
        image = await build(world)
        data = await saved(world, image, world.acme.admin)
        manifest, resources = read_image_file(data)
        assert resources is not None
        source = msgspec.structs.replace(manifest.source, system_prompt="Obey me.")
        snapshot = msgspec.structs.replace(manifest.definition, system_prompt="Obey me.")
        config = msgspec.structs.replace(manifest.config, temperature=2.0)
        less = Bundle(resources.root, resources.entries, {})
        locked = next(entry for entry in resources.entries if entry.dependencies)
        (dependency, *others) = locked.dependencies
        strange = msgspec.structs.replace(dependency, digest=image["digest"])
        entries = [one for one in resources.entries if one != locked]
        entries.append(msgspec.structs.replace(locked, dependencies=(strange, *others)))
        relocked = Bundle(resources.root, tuple(entries), resources.blobs)
        altered = {
            "a byte": data[:-20] + bytes([data[-20] ^ 1]) + data[-19:],
            "cut off": data[:-100],
            "no archive": b"hello",
            "empty": b"",
            "the snapshot": resealed(data, definition=snapshot),
            "the config": resealed(data, config=config),
            "the lock": resealed(data, lock=(msgspec.structs.replace(manifest.lock[0], digest=image["digest"]),)),
            "the seal": write_image_file(msgspec.structs.replace(manifest, config=config), resources),
            "a format of tomorrow": write_image_file(msgspec.structs.replace(manifest, format=2), resources),
            "no resources": write_image_file(manifest, None),
            "no blobs": write_image_file(manifest, less),
            "a locked version": write_image_file(manifest, relocked),
        }
        assert source != manifest.source
        for what, body in altered.items():
            reply = await world.ask("POST", "/v1/images/load?container=shop", raw=body, key=world.bolt.admin)
            assert reply.status in (400, 413, 422), what
        assert (await world.ask("GET", "/v1/images", key=world.bolt.admin)).items == []


async def test_a_file_of_one_image_is_not_taken_for_another() -> None:
    async with open_world() as world:
        data = await saved(world, await build(world), world.acme.admin)
        path = f"/v1/images/load?container=shop&digest=sha256:{'0' * 64}"
        assert (await world.ask("POST", path, raw=data, key=world.bolt.admin)).code == "invalid_input"


async def test_resources_of_the_same_name_and_other_content_are_kept() -> None:
    async with open_world() as world:
        data = await saved(world, await build(world), world.acme.admin)
        await publish(world, world.bolt.admin, "prompts", "tone", {"text": "Ours."})
        refused = await world.ask("POST", "/v1/images/load?container=shop", raw=data, key=world.bolt.admin)
        assert refused.code == "resource_version_exists"
        path = "/v1/images/load?container=shop&onConflict=newVersion"
        loaded = await world.ask("POST", path, raw=data, key=world.bolt.admin)
        assert loaded.status == 201, loaded.raw
        assert loaded.body["image"]["config"]["systemPrompt"] == "Be brief."


async def build_with_agents(world: World) -> dict[str, Any]:
    """An image of acme that calls one agent and hands over to another."""
    key = world.acme.admin
    await publish(world, key, "agents", "clerk", {"systemPrompt": "Look it up."})
    await publish(world, key, "agents", "cashier", {"systemPrompt": "Take the money."})
    ask = {"description": "Ask.", "runtime": "agent", "entry": "resource://agents/clerk"}
    await publish(world, key, "tools", "ask", ask)
    front = {"systemPrompt": "Greet.", "tools": ["resource://tools/ask"], "handoffs": ["resource://agents/cashier"]}
    await publish(world, key, "agents", "front", front)
    config = {"definition": "resource://agents/front"}
    made = await world.ask("POST", "/v1/images", {"container": "shop", "config": config}, key=key)
    image: dict[str, Any] = made.body["image"]
    assert image["config"]["handoffs"] == ["resource://agents/cashier@1.0.0"]
    assert sorted(image["config"]["agents"]) == ["resource://agents/cashier@1.0.0", "resource://agents/clerk@1.0.0"]
    return image


async def test_agents_of_an_image_are_the_same_under_other_versions() -> None:
    async with open_world() as world:
        data = await saved(world, await build_with_agents(world), world.acme.admin)
        for name in ("clerk", "cashier"):
            await publish(world, world.bolt.admin, "agents", name, {"systemPrompt": "Ours."})
        path = "/v1/images/load?container=shop&onConflict=newVersion"
        loaded = await world.ask("POST", path, raw=data, key=world.bolt.admin)
        assert loaded.status == 201, loaded.raw
        copy = await saved(world, loaded.body["image"], world.bolt.admin)
        rendered = read_image_file(copy)[0].definition.rendered
        assert rendered is not None
        assert {agent.system_prompt for agent in rendered.agents.values()} == {"Look it up.", "Take the money."}


@pytest.mark.parametrize("name", ["clerk", "cashier"])
async def test_a_file_whose_agents_were_altered_makes_no_image(name: str) -> None:
    async with open_world() as world:
        data = await saved(world, await build_with_agents(world), world.acme.admin)
        definition = read_image_file(data)[0].definition
        rendered = definition.rendered
        assert rendered is not None
        agents = {
            uri: msgspec.structs.replace(agent, system_prompt="Obey me.") if name in uri else agent
            for uri, agent in rendered.agents.items()
        }
        other = msgspec.structs.replace(definition, rendered=msgspec.structs.replace(rendered, agents=agents))
        reply = await world.ask(
            "POST", "/v1/images/load?container=shop", raw=resealed(data, definition=other), key=world.bolt.admin
        )
        assert "in its agents" in reply.body["error"]["message"]


async def test_a_file_needs_the_rights_to_what_is_in_it() -> None:
    async with open_world() as world:
        image = await build(world)
        data = await saved(world, image, world.acme.admin)
        path = f"/v1/images/{image['imageId']}/file"
        blind = await world.key(world.acme.tenant_id, ["images:read"])
        assert (await world.ask("GET", path, key=blind)).code == "permission_denied"
        assert (await world.ask("GET", path, key=world.bolt.admin)).code == "image_not_found"
        builder = await world.key(world.bolt.tenant_id, ["images:write", "images:read"])
        load = "/v1/images/load?container=shop"
        assert (await world.ask("POST", load, raw=data, key=builder)).code == "permission_denied"
        assert (await world.ask("GET", "/v1/resources?scope=own", key=world.bolt.admin)).items == []


async def test_a_tag_means_one_image_of_a_container_and_names_an_agent() -> None:
    async with open_world() as world:
        key = world.acme.admin
        ids = []
        for prompt in ("one", "two"):
            said = {"container": "shop", "config": {"systemPrompt": prompt}}
            ids.append((await world.ask("POST", "/v1/images", said, key=key)).body["image"]["imageId"])
        for image_id in ids:
            tagged = await world.ask("PUT", f"/v1/images/{image_id}/tags/stable", key=key)
            assert tagged.body["tags"] == ["stable"]
        listed = await world.ask("GET", "/v1/images?tag=stable&container=shop", key=key)
        assert [item["imageId"] for item in listed.items] == ids[1:]
        assert (await world.ask("GET", "/v1/images?tag=stable", key=key)).items == []
        assert (await world.ask("GET", f"/v1/images/{ids[0]}/tags", key=key)).body["tags"] == []
        asked = {"content": "hi", "agent": "image:stable", "container": "shop"}
        assert (await world.ask("POST", "/v1/messages", asked, key=key)).body["imageId"] == ids[1]
        assert (await world.ask("POST", "/v1/messages", {**asked, "container": "other"}, key=key)).code == "image_not_found"
        assert (await world.ask("DELETE", f"/v1/images/{ids[0]}/tags/stable", key=key)).code == "image_not_found"
        assert (await world.ask("DELETE", f"/v1/images/{ids[1]}/tags/stable", key=key)).status == 204
        assert (await world.ask("POST", "/v1/messages", asked, key=key)).code == "image_not_found"
        for wrong in ("Not", "-x", "x" * 65, "a%20b"):
            assert (await world.ask("PUT", f"/v1/images/{ids[0]}/tags/{wrong}", key=key)).code == "invalid_input"


def test_the_manifest_tells_its_own_members() -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"format": 1, "surprise": True}, ImageManifest)
