import pytest
from tests.gateways.test_talk import talk_of
from tests.server.http.fixtures import open_world

from agentvm.errors import DefinitionNotFound, ImageNotFound
from agentvm.gateways.agents import find_agent, list_agents
from agentvm.model.ids import ContainerId
from agentvm.model.image import ImageConfig
from agentvm.operations.image_build import ImageCreate

HOME = ContainerId("c1")


async def test_agents_are_definitions_and_named_images_and_not_those_built_of_them() -> None:
    async with open_world() as world:
        talk = talk_of(world)
        built = await talk.agent("default", HOME)
        own = (await talk.ask(ImageCreate(container_id=HOME, config=ImageConfig(name="Mine")))).record
        await talk.ask(ImageCreate(container_id=HOME))
        names = [agent.name async for agent in list_agents(talk, HOME)]
        assert names[0] == "default"
        assert [name for name in names if name.startswith("img_")] == [own.image_id]
        assert built.image_id not in names
        assert (await find_agent(talk, own.image_id, HOME)).description == "Mine"
        assert (await find_agent(talk, "default", HOME)).name == "default"
        with pytest.raises(DefinitionNotFound):
            await find_agent(talk, "nobody", HOME)
        with pytest.raises(ImageNotFound):
            await find_agent(talk_of(world, tenant_id=world.bolt.tenant_id), own.image_id, HOME)
