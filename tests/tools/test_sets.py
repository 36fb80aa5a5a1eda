"""Sets of tools, from the publication to the call in a turn."""

import base64
import copy
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.operations.fixtures import Desk, open_desk
from tests.server.http.fixtures import open_world
from tests.support.web import Asked, Replied, web
from tests.tools.mcp.test_turns import McpWeb
from tests.tools.test_openapi import PETS

from agentvm.drivers.base import ToolResultsEntry
from agentvm.drivers.scripted import ScriptedDriver, in_turn, reply, tool_calls
from agentvm.model.resource import digest_of
from agentvm.model.tool_settings import ToolNetwork, ToolSettings

JSON = {"content-type": "application/json"}
ABOUT = {"description": "Pets.", "runtime": "openapi"}


class PetShop:
    """A server with a document about itself."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = copy.deepcopy(PETS)
        self.document["servers"] = [{"url": "/v1"}]
        self.asked: list[Asked] = []

    @property
    def body(self) -> bytes:
        return json.dumps(self.document).encode()

    def __call__(self, asked: Asked) -> Replied:
        self.asked.append(asked)
        return Replied(body=self.body if asked.target == "/openapi.json" else b'{"name": "Rex"}', headers=JSON)


@asynccontextmanager
async def shop(driver: ScriptedDriver | None = None) -> AsyncIterator[tuple[PetShop, str, Desk]]:
    pets = PetShop()
    network = ToolSettings(network=ToolNetwork(allow=("127.0.0.1",)))
    async with web(pets) as server, open_desk(driver, tool_settings=network) as desk:
        yield pets, server.url("/openapi.json"), desk


async def publish(desk: Desk, content: dict[str, object], **about: object) -> Any:
    return await desk.ask("resource_register", type="tools", name="pets", content={**ABOUT, **content}, **about)


async def test_an_agent_calls_an_operation_of_a_document() -> None:
    driver = ScriptedDriver(in_turn(tool_calls(("c1", "pets__getPet", {"petId": 7})), reply("done")))
    async with shop(driver) as (pets, url, desk):
        made = await publish(desk, {"entry": f"{url}@{digest_of(pets.body)}"})
        assert made["warnings"] == ["upload is left out: its body is image/png; JSON and forms are supported"]
        image = await desk.create_image(tools=["resource://tools/pets"])
        # From now on nobody reads the document.
        pets.document.clear()
        await desk.ask("message_send", imageId=image["imageId"], content="go")
        await desk.hear("turn_response")
        names = [tool.name for tool in driver.prompts[0].tools]
        assert names == ["pets__addPet", "pets__deletePet", "pets__getPet", "pets__listPets"]
        told = driver.prompts[1].conversation[-1]
        assert isinstance(told, ToolResultsEntry)
        assert told.results[0].output.value == {"name": "Rex"}
        assert pets.asked[-1].target == "/v1/pets/7"
        # The same again is the same version, as long as the document is the same.
        assert (await publish(desk, {"entry": f"{url}@{digest_of(pets.body)}"}))["errorCode"] == "resource_invalid"


async def test_a_set_is_selected_from_and_its_tools_may_differ() -> None:
    async with shop() as (pets, url, desk):
        content: dict[str, object] = {
            "entry": f"blob:{digest_of(pets.body)}",
            "document": {"data": base64.b64encode(pets.body).decode()},
        }
        assert "on which host" in (await publish(desk, content))["error"]
        pets.document["servers"] = [{"url": url.removesuffix("/openapi.json")}]
        document = {"data": base64.b64encode(pets.body).decode()}
        content |= {"entry": f"blob:{digest_of(pets.body)}", "document": document, "select": ["GET *"]}
        assert "tools.addPet" in (await publish(desk, {**content, "tools": {"addPet": {}}}))["error"]
        reply = await publish(desk, {**content, "tools": {"listPets": {"effect": "destructive"}}})
        assert "errorCode" not in reply
        assert pets.asked == []
        image = await desk.create_image(tools=["resource://tools/pets"])
        assert image["config"]["tools"] == ["pets__getPet", "pets__listPets"]
        shown = await desk.ask("resource_resolve", uri="resource://tools/pets")
        assert shown["rendered"]["frozen"]["getPet"]["entry"].startswith("GET http://127.0.0.1:")
        assert "document" not in shown["rendered"]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"servers": [{"url": "https://{region}.pets.example"}]}, "one literal host"),
        ({"servers": [{"url": "https://a.example"}, {"url": "https://b.example"}]}, "names several servers"),
        ({"servers": [{"url": "http://pets.example"}]}, "a tool uses https"),
        ({"paths": {}}, "has no tool that can be used"),
        ({"openapi": "2.0"}, "3.0 and later"),
    ],
)
async def test_a_document_that_cannot_be_a_set_is_refused(change: dict[str, object], why: str) -> None:
    async with shop() as (pets, url, desk):
        pets.document |= change
        refused = await publish(desk, {"entry": f"{url}@{digest_of(pets.body)}"})
        assert (refused["errorCode"], why in refused["error"]) == ("resource_invalid", True), refused


async def test_a_document_that_cannot_be_read_is_refused_with_the_reason() -> None:
    async with shop() as (pets, url, desk):
        digest = digest_of(pets.body)
        for entry, why in (
            (f"{url}@sha256:{'0' * 64}", f"another digest now, {digest}"),
            (f"http://127.0.0.1:9/x@{digest}", "cannot be read: 127.0.0.1 could not be reached"),
            (f"https://10.0.0.1/x@{digest}", "cannot be read: 10.0.0.1 is not on the public Internet"),
        ):
            refused = await publish(desk, {"entry": entry})
            assert (refused["errorCode"], why in refused["error"]) == ("resource_invalid", True), refused


@pytest.mark.parametrize("member", ["inputSchema", "outputSchema"])
async def test_a_member_that_would_have_no_effect_is_refused(member: str) -> None:
    async with shop() as (pets, url, desk):
        refused = await publish(desk, {"entry": f"{url}@{digest_of(pets.body)}", member: {"type": "object"}})
        assert f"{member} has no meaning" in refused["error"]
        assert pets.asked == []


async def test_a_set_is_read_again_and_published_only_if_it_has_changed() -> None:
    mcp = McpWeb()
    network = ToolSettings(network=ToolNetwork(allow=("127.0.0.1",)))
    async with web(mcp) as server, open_world(tool_settings=network) as world:
        content: dict[str, object] = {"description": "x", "runtime": "mcp", "entry": server.url("/mcp"), "pin": {}}
        body = {"type": "tools", "name": "srv", "content": content}
        made = await world.ask("POST", "/v1/resources", body, key=world.acme.admin)
        assert made.status == 201, made.raw
        path = f"/v1/resources/{made.body['id']}/pin"
        same = await world.ask("POST", path, {}, key=world.acme.admin)
        assert (same.body["created"], [tool["change"] for tool in same.body["tools"]]) == (False, ["same"])
        mcp.tools[0] = {**mcp.tools[0], "description": "Echoes twice."}
        mcp.tools.append({"name": "more", "inputSchema": {"type": "object"}})
        # A list is read at most every five seconds.
        assert world.vm.tool_sets is not None
        world.vm.tool_sets.mcp._lists.drop_if(lambda key, read: True)
        planned = await world.ask("POST", path, {"dryRun": True}, key=world.acme.admin)
        changes = {tool["name"]: tool["change"] for tool in planned.body["tools"]}
        assert (planned.body["created"], changes) == (False, {"echo": "changed", "more": "added"})
        assert "+Echoes twice." in planned.body["tools"][0]["lines"]["description"]
        again = await world.ask("POST", path, {"bump": "major"}, key=world.acme.admin)
        assert (again.body["created"], again.body["uri"]) == (True, "resource://tools/srv@2.0.0")
        actions = [(action, target) for action, target, _ in await world.audit(world.acme.tenant_id)]
        assert actions.count(("resource.pin", "tools/srv")) == 2
        prompt = {"type": "prompts", "name": "p", "content": {"text": "x"}}
        other = await world.ask("POST", "/v1/resources", prompt, key=world.acme.admin)
        refused = await world.ask("POST", f"/v1/resources/{other.body['id']}/pin", {}, key=world.acme.admin)
        assert refused.status == 400, refused.raw
