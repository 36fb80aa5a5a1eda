import pytest
from tests.commands.fixtures import open_desk

from agentvm.blueprint.definition import MAX_PER_TENANT, MAX_SIZE
from agentvm.model.definition import Definition

pytestmark = pytest.mark.anyio

POET = {"name": "poet", "systemPrompt": "rhyme"}


async def test_definitions_are_registered_listed_and_got() -> None:
    async with open_desk(definitions=[Definition(name="clerk")]) as desk:
        assert await desk.ask("definition_register", definition=POET) == {"definition": POET}
        assert await desk.ask("definition_register", definition=POET) == {"definition": POET}
        assert await desk.ask("definition_list") == {"definitions": [{"name": "default"}, {"name": "clerk"}, POET]}
        assert await desk.ask("definition_get", definitionName="poet") == {"definition": POET}
        assert await desk.ask("definition_get", definitionName="nobody") == {"definition": None}
        assert await desk.another("other").ask("definition_get", definitionName="poet") == {"definition": None}


@pytest.mark.parametrize(
    ("definition", "code"),
    [
        ({"name": "default", "systemPrompt": "mine"}, "definition_conflict"),
        ({"name": ""}, "invalid_input"),
        ({"name": "a", "model": "nobody/x"}, "driver_not_found"),
        ({"name": "a", "tools": ["hammer"]}, "tool_not_found"),
        ({"systemPrompt": "no name"}, "invalid_input"),
        ({"name": "a", "thinking": 0}, "invalid_input"),
        ({"name": "a", "description": "x" * MAX_SIZE}, "invalid_input"),
    ],
)
async def test_a_definition_that_cannot_be_is_refused(definition: dict[str, object], code: str) -> None:
    async with open_desk() as desk:
        reply = await desk.ask("definition_register", definition=definition)
        assert reply["errorCode"] == code
        assert await desk.ask("definition_list") == {"definitions": [{"name": "default"}]}


async def test_one_definition_too_many_is_refused_and_the_others_stay() -> None:
    async with open_desk() as desk:
        for number in range(MAX_PER_TENANT):
            desk.peer.definitions.register(desk.peer.tenant_id, Definition(name=str(number)))
        assert (await desk.ask("definition_register", definition=POET))["errorCode"] == "refused"
        assert await desk.ask("definition_get", definitionName="0") == {"definition": {"name": "0"}}
        assert await desk.another("other").ask("definition_register", definition=POET) == {"definition": POET}
