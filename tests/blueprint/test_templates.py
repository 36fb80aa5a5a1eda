import pytest
from tests.operations.fixtures import open_desk

from agentvm.blueprint.templates import check_name_free
from agentvm.errors import DefinitionConflict
from agentvm.model.definition import Definition


async def test_an_agent_may_not_take_the_name_of_another_definition() -> None:
    seller = Definition(name="seller", system_prompt="sell")
    async with open_desk(definitions=[seller]) as desk:
        definitions, tenant_id = desk.peer.workspace.definitions, desk.peer.tenant_id
        await check_name_free(tenant_id, definitions, "nobody")
        await check_name_free(tenant_id, definitions, "seller", seller)
        for name, agent in (("default", None), ("seller", Definition(name="seller", system_prompt="more"))):
            with pytest.raises(DefinitionConflict, match=name):
                await check_name_free(tenant_id, definitions, name, agent)
