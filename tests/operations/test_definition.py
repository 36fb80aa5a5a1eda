from typing import Any
from urllib.parse import quote

import pytest
from tests.operations.fixtures import Desk, open_desk
from tests.server.http.fixtures import open_world

from agentvm.blueprint import templates
from agentvm.blueprint.definition import DEFINITION_MAX_BYTES, DEFINITIONS_MAX
from agentvm.drivers.scripted import ScriptedDriver
from agentvm.model.definition import Definition
from agentvm.model.principal import EVERYTHING, Principal
from agentvm.model.resource import SYSTEM_TENANT
from agentvm.resources.registry import Author

POET = {"name": "poet", "systemPrompt": "rhyme"}


async def test_definitions_are_registered_listed_and_got() -> None:
    async with open_desk(definitions=[Definition(name="clerk")]) as desk:
        assert await desk.ask("definition_register", definition=POET) == {"definition": POET}
        assert await desk.ask("definition_register", definition=POET) == {"definition": POET}
        assert await registered(desk) == [{"name": "default"}, {"name": "clerk"}, POET]
        assert await desk.ask("definition_get", definitionName="poet") == {"definition": POET}
        assert await desk.ask("definition_get", definitionName="nobody") == {"definition": None}
        assert await desk.another("other").ask("definition_get", definitionName="poet") == {"definition": None}


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"name": "default", "systemPrompt": "mine"}, "definition_conflict"),
        ({"name": ""}, "invalid_input"),
        ({"name": "a", "model": "nobody/x"}, "driver_not_found"),
        ({"name": "a", "tools": ["hammer"]}, "tool_not_found"),
        ({"systemPrompt": "no name"}, "invalid_input"),
        ({"name": "a", "thinking": 0}, "invalid_input"),
        ({"name": "a", "description": "x" * DEFINITION_MAX_BYTES}, "invalid_input"),
    ],
)
async def test_a_definition_that_cannot_be_is_refused(given: dict[str, object], code: str) -> None:
    async with open_desk() as desk:
        reply = await desk.ask("definition_register", definition=given)
        assert reply["errorCode"] == code
        assert await registered(desk) == [{"name": "default"}]


async def test_one_definition_too_many_is_refused_and_the_others_stay() -> None:
    async with open_desk() as desk:
        for number in range(DEFINITIONS_MAX):
            await desk.peer.vm.definitions.register(desk.peer.tenant_id, Definition(name=str(number)))
        assert (await desk.ask("definition_register", definition=POET))["errorCode"] == "refused"
        assert await desk.ask("definition_get", definitionName="0") == {"definition": {"name": "0"}}
        assert await desk.another("other").ask("definition_register", definition=POET) == {"definition": POET}


async def test_the_agents_of_the_resource_centre_are_definitions_too() -> None:
    async with open_desk(definitions=[Definition(name="clerk")]) as desk:
        await desk.publish("prompts", "sales", {"text": "sell"})
        await desk.publish("agents", "seller", {"systemPrompt": "resource://prompts/sales", "description": "Sells"})
        await desk.publish("agents", "buyer", {"systemPrompt": "buy", "defaults": {"a": 1}})
        await desk.publish("agents", "buyer", {"systemPrompt": "buy more"})
        await system(desk).publish("agents", "helper", {"systemPrompt": "help"}, visibility="public")
        await system(desk).publish("agents", "seller", {"systemPrompt": "hidden by the own"}, visibility="public")
        await desk.another("acme").publish("agents", "theirs", {"systemPrompt": "x"}, visibility="public")
        buyer = {"name": "buyer", "systemPrompt": "buy more", "uri": "resource://agents/buyer"}
        seller = {
            "name": "seller",
            "description": "Sells",
            "systemPrompt": "resource://prompts/sales",
            "uri": "resource://agents/seller",
        }
        helper = {"name": "helper", "systemPrompt": "help", "uri": "resource://agents/system/helper"}
        listed = (await desk.ask("definition_list"))["definitions"]
        # Among those that ship with the server, which come last.
        assert [*listed[:4], *(one for one in listed[4:] if one["name"] in ("helper", "seller"))] == [
            {"name": "default"}, {"name": "clerk"}, buyer, seller, helper,
        ]  # fmt: skip
        for one in (buyer, seller, helper):
            assert await desk.ask("definition_get", definitionName=one["name"]) == {"definition": one}
        first = (await desk.ask("definition_get", definitionName="resource://agents/buyer@1.0.0"))["definition"]
        assert (first["systemPrompt"], first["uri"]) == ("buy", "resource://agents/buyer@1.0.0")
        for nobody in ("theirs", "resource://agents/nobody", "Not a name"):
            assert await desk.ask("definition_get", definitionName=nobody) == {"definition": None}
        assert (await desk.ask("definition_get", definitionName="resource://prompts/sales"))["errorCode"] == "invalid_input"


async def test_an_agent_that_ships_with_the_server_is_built_by_its_name() -> None:
    driver = ScriptedDriver()
    async with open_desk(driver) as desk:
        made = await desk.ask("image_build", containerId="c1", definition="assistant")
        assert "warnings" not in made
        assert made["record"]["definitionRef"] == "resource://agents/assistant"
        assert made["record"]["lock"][0]["uri"].startswith("resource://agents/system/assistant@")
        await desk.ask("message_send", imageId=made["record"]["imageId"], content="hi")
        await desk.hear("turn_response")
        assert {tool.name for tool in driver.prompts[0].tools} == {"current_time", "calculator"}
        assert (await desk.ask("image_upgrade", imageId=made["record"]["imageId"]))["changes"] == []


async def test_a_withdrawn_agent_is_no_definition() -> None:
    async with open_desk() as desk:
        await desk.publish("agents", "seller", {"systemPrompt": "sell"})
        registry = desk.vm.resources.registry
        found = await registry.find(desk.peer.tenant_id, "resource://agents/seller")
        author = Author(tenant_id=desk.peer.tenant_id, actor="a", may_publish=True)
        await registry.yank(author, found.resource_id, "1.0.0", yanked=True)
        assert "seller" not in [one["name"] for one in (await desk.ask("definition_list"))["definitions"]]
        assert await desk.ask("definition_get", definitionName="seller") == {"definition": None}
        refused = await desk.ask("image_build", containerId="c1", definition="seller")
        assert refused["errorCode"] == "resource_not_found"


async def test_who_may_not_read_resources_sees_no_agents() -> None:
    async with open_desk() as desk:
        await desk.publish("agents", "seller", {"systemPrompt": "sell"})
        principal = Principal(tenant_id=desk.peer.tenant_id, permissions=EVERYTHING - {"resources:read"})
        limited = Desk(desk.vm, desk.vm.attach(principal))
        assert await limited.ask("definition_list") == {"definitions": [{"name": "default"}]}
        assert await limited.ask("definition_get", definitionName="seller") == {"definition": None}
        refused = await limited.ask("definition_get", definitionName="resource://agents/seller")
        assert refused["errorCode"] == "permission_denied"


async def test_more_agents_than_a_page_are_listed_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "PAGE_MAX", 2)
    monkeypatch.setattr(templates, "LISTED_MAX", 5)
    async with open_desk() as desk:
        for number in range(7):
            await desk.publish("agents", f"a{number}", {"systemPrompt": "x"})
        names = [one["name"] for one in (await desk.ask("definition_list"))["definitions"]]
        assert names == ["default", "a0", "a1", "a2", "a3", "a4"]


async def test_a_name_means_one_definition_whether_it_is_registered_or_a_resource() -> None:
    async with open_desk() as desk:
        await desk.publish("agents", "seller", {"systemPrompt": "sell"})
        other, same = {"name": "seller", "systemPrompt": "other"}, {"name": "seller", "systemPrompt": "sell"}
        assert (await desk.ask("definition_register", definition=other))["errorCode"] == "definition_conflict"
        assert await desk.ask("definition_register", definition=same) == {"definition": same}
        await system(desk).publish("agents", "helper", {"systemPrompt": "help"}, visibility="public")
        helper = {"name": "helper", "systemPrompt": "mine"}
        assert await desk.ask("definition_register", definition=helper) == {"definition": helper}


async def test_a_definition_may_refer_to_resources_that_are_looked_for_when_it_is_built() -> None:
    async with open_desk() as desk:
        poet = {**POET, "systemPrompt": "resource://prompts/verse", "tools": ["calculator", "resource://tools/rhymes"]}
        assert await desk.ask("definition_register", definition=poet) == {"definition": poet}
        assert (await desk.ask("image_build", containerId="c1", definition="poet"))["errorCode"] == "resource_not_found"


async def registered(desk: Desk) -> list[Any]:
    return [one for one in (await desk.ask("definition_list"))["definitions"] if "uri" not in one]


def system(desk: Desk) -> Desk:
    return desk.another(SYSTEM_TENANT)


async def test_agents_are_listed_up_to_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "LISTED_BYTES_MAX", 250)
    async with open_desk() as desk:
        for number in range(4):
            await desk.publish("agents", f"a{number}", {"systemPrompt": "x" * 80})
        names = [one["name"] for one in (await desk.ask("definition_list"))["definitions"]]
        assert names == ["default", "a0", "a1"]


async def test_definitions_are_paged_and_read_over_http() -> None:
    async with open_world() as world:
        key = world.acme.admin
        prompt = {"type": "agents", "name": "seller", "content": {"systemPrompt": "Sell."}}
        assert (await world.ask("POST", "/v1/resources", prompt, key=key)).status == 201
        whole = await world.ask("GET", "/v1/definitions", key=key)
        names = [item["name"] for item in whole.items]
        assert {"default", "seller"} <= set(names)
        first = await world.ask("GET", "/v1/definitions?limit=1", key=key)
        rest = await world.ask("GET", f"/v1/definitions?cursor={quote(first.body['nextCursor'])}", key=key)
        assert [item["name"] for item in (*first.items, *rest.items)] == names
        uri = quote("resource://agents/seller", safe="")
        assert (await world.ask("GET", f"/v1/definitions/{uri}", key=key)).body["systemPrompt"] == "Sell."
        assert (await world.ask("GET", "/v1/definitions/nobody", key=key)).code == "definition_not_found"
        assert "seller" not in [
            item["name"] for item in (await world.ask("GET", "/v1/definitions", key=world.bolt.admin)).items
        ]
